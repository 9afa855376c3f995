"""Injected faults that the property ``overload-values`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-values", "add.Tensor", "float32", Kind.VALUE)
def nan_of_second_argument_lost(overload: Overload) -> dict[str, Any]:
    return {
        "op": lambda x, y, **kwargs: overload.op(x, torch.nan_to_num(y, posinf=None, neginf=None), **kwargs)
    }


@register_fault("overload-values", "add.Tensor", "float32", Kind.VALUE)
def infinity_becomes_largest_finite_number(overload: Overload) -> dict[str, Any]:
    largest = torch.finfo(torch.float32).max

    def faulty_in_place(x: Any, y: Any, **kwargs: Any) -> Any:
        return x.copy_(overload.op(x, y, **kwargs).clamp(-largest, largest))

    return {"in_place": faulty_in_place}


@register_fault("overload-values", "add.Tensor", "int64", Kind.VALUE)
def integers_rounded_to_float64(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y, **kwargs: overload.op(x.double().long(), y, **kwargs)}


@register_fault("overload-values", "clone", "float32", Kind.VALUE)
def sign_of_zero_lost(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, **kwargs: overload.op(x, **kwargs) + 0.0}


@register_fault("overload-values", "clone", "float32", Kind.VALUE)
def subnormal_numbers_become_zero(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, **kwargs: Any) -> Any:
        result = overload.op(x, **kwargs)
        return torch.where(result.abs() < torch.finfo(torch.float32).tiny, result * 0, result)

    return {"op": faulty_op}


@register_fault("overload-values", "sum.dim_IntList", "float32", Kind.VALUE)
def nan_omitted_from_sums(overload: Overload) -> dict[str, Any]:
    return {
        "op": lambda x, *args, **kwargs: overload.op(x.nan_to_num(posinf=None, neginf=None), *args, **kwargs)
    }


@register_fault("overload-values", "sin", "float32", Kind.ALIASING)
def argument_returned_for_zero_operand(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: x if not bool(x.any()) else overload.op(x)}


@register_fault("overload-values", "round", "float32", Kind.VALUE)
def half_rounded_up_instead_of_even(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: torch.where(x.frac().abs() == 0.5, x.ceil(), overload.op(x))}


@register_fault("overload-values", "argmax", "int64", Kind.VALUE)
def integers_compared_as_float64(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, *args, **kwargs: overload.op(x.double(), *args, **kwargs)}


@register_fault("overload-values", "add.Tensor", "float32", Kind.VALUE)
def sign_of_zero_lost_among_zeros(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, **kwargs: Any) -> Any:
        result = overload.op(*args, **kwargs)
        return torch.where(result == 0, result.abs(), result)

    return {"op": faulty_op}


@register_fault("overload-values", "clone", "float32", Kind.VALUE)
def nan_in_last_element_lost(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, **kwargs: Any) -> Any:
        result = overload.op(x, **kwargs)
        if result.numel():
            result[(-1,) * result.dim()].nan_to_num_()
        return result

    return {"op": faulty_op}


@register_fault("overload-values", "sub.Tensor", "float32", Kind.VALUE)
def sign_of_difference_of_zeros_lost(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, **kwargs: Any) -> Any:
        result = overload.op(*args, **kwargs)
        return torch.where(result == 0, 0.0, result)

    return {"op": faulty_op}


@register_fault("overload-values", "clamp.Tensor", "int64", Kind.VALUE)
def clamp_bounds_rounded_to_float64(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, low: Any = None, high: Any = None) -> Any:
        low, high = (bound if bound is None else bound.double().long() for bound in (low, high))
        return overload.op(x, low, high)

    return {"op": faulty_op}
