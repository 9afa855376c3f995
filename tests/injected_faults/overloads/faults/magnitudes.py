"""Injected faults that the property ``overload-magnitudes`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-magnitudes", "sigmoid", "float32", Kind.VALUE)
def results_in_tail_too_large(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any) -> Any:
        result = overload.op(x)
        return torch.where(x < -12, 1.5 * result, result)

    return {"op": faulty_op}


@register_fault("overload-magnitudes", "expm1", "float64", Kind.VALUE)
def expm1_inaccurate_near_zero(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: torch.exp(x) - 1}
