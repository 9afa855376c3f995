"""Injected faults that the property ``overload-numbers`` must detect."""

from __future__ import annotations

from typing import Any

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-numbers", "add.Tensor", "float32", Kind.VALUE)
def alpha_ignored_for_scalar_operand(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any, *, alpha: Any = 1) -> Any:
        return overload.op(x, y) if isinstance(y, float) else overload.op(x, y, alpha=alpha)

    return {"op": faulty_op}


@register_fault("overload-numbers", "mul.Tensor", "float32", Kind.VALUE)
def scalar_operands_rounded(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y: overload.op(x, round(y) if isinstance(y, float) else y)}


@register_fault("overload-numbers", "add.Tensor", "int64", Kind.VALUE)
def in_place_negates_scalar_operand(overload: Overload) -> dict[str, Any]:
    def faulty_call(x: Any, y: Any, **kwargs: Any) -> Any:
        return overload.in_place(x, -y if isinstance(y, int) else y, **kwargs)

    return {"in_place": faulty_call}
