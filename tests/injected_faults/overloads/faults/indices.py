"""Injected faults that the property ``overload-indices`` must detect."""

from __future__ import annotations

from typing import Any

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-indices", "index_select", "float32", Kind.ERROR_TYPE)
def out_of_range_indices_clamped(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, dim: int, index: Any) -> Any:
        return overload.op(x, dim, index.clamp(-x.shape[dim], x.shape[dim] - 1))

    return {"op": faulty_op}
