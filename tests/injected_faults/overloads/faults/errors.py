"""Injected faults that the property ``overload-errors`` must detect."""

from __future__ import annotations

from typing import Any

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-errors", "sum.dim_IntList", "float32", Kind.ERROR_TYPE)
def any_dimension_accepted(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, dim: Any, *args: Any, **kwargs: Any) -> Any:
        return overload.op(x, [dimension % max(x.dim(), 1) for dimension in dim], *args, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-errors", "transpose.int", "float32", Kind.ERROR_TYPE)
def wrong_error_type(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        try:
            return overload.op(*args)
        except IndexError as error:
            raise RuntimeError(str(error)) from None

    return {"op": faulty_op}


@register_fault("overload-errors", "mul.Tensor", "float32", Kind.ERROR_TYPE)
def in_place_shape_mismatch_ignored(overload: Overload) -> dict[str, Any]:
    def faulty_in_place(x: Any, y: Any) -> Any:
        try:
            return overload.in_place(x, y)
        except RuntimeError:
            return x

    return {"in_place": faulty_in_place}


@register_fault("overload-errors", "add.Tensor", "float32", Kind.ERROR_TYPE)
def index_error_for_size_mismatch(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, **kwargs: Any) -> Any:
        try:
            return overload.op(*args, **kwargs)
        except RuntimeError as error:
            raise IndexError(str(error)) from None

    return {"op": faulty_op}


@register_fault("overload-errors", "linalg_inv_ex", "float32", Kind.ERROR_TYPE)
def singular_matrices_not_reported(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, check_errors=False: overload.op(x)}


@register_fault("overload-errors", "binomial", "float32", Kind.ERROR_TYPE)
def wrong_size_probabilities_accepted(overload: Overload) -> dict[str, Any]:
    def faulty_op(count: Any, probability: Any, *args: Any, **kwargs: Any) -> Any:
        same = probability.shape == count.shape
        return overload.op(count, probability if same else count / 1000, *args, **kwargs)

    return {"op": faulty_op}
