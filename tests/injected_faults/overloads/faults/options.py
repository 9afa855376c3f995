"""Injected faults that the property ``overload-options`` must detect."""

from __future__ import annotations

from typing import Any

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-options", "add.Tensor", "float32", Kind.VALUE)
def in_place_ignores_alpha(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, y, **kwargs: overload.in_place(x, y)}


@register_fault("overload-options", "sub.Tensor", "float32", Kind.VALUE)
def arguments_swapped(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any, **kwargs: Any) -> Any:
        return overload.op(y, x, **kwargs) if x.shape == y.shape else overload.op(x, y, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-options", "sum.dim_IntList", "float32", Kind.METADATA)
def keepdim_always_true(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, dim, keepdim=False, **kwargs: overload.op(x, dim, True, **kwargs)}


@register_fault("overload-options", "convolution_backward", "float32", Kind.VALUE)
def wrong_if_only_one_gradient_requested(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        results = list(overload.op(*args))
        if sum(args[-1]) == 1 and results[1] is not None:
            results[1] = results[1] + 1
        return tuple(results)

    return {"op": faulty_op}


@register_fault("overload-options", "nan_to_num", "float32", Kind.VALUE)
def nan_replacement_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, nan=None, *args: overload.op(x, None, *args)}


@register_fault("overload-options", "avg_pool2d", "float32", Kind.VALUE)
def count_include_pad_always_true(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, count_include_pad: bool = True, **kwargs: Any) -> Any:
        return overload.op(*args[:5], count_include_pad=True, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-options", "_scaled_mm", "float8_e4m3fn", Kind.VALUE)
def bias_ignored(overload: Overload) -> dict[str, Any]:
    def faulty_op(
        x: Any, y: Any, second: Any, third: Any, bias: Any = None, *rest: Any, **kwargs: Any
    ) -> Any:
        return overload.op(x, y, second, third, None, *rest, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-options", "_ctc_loss", "float32", Kind.VALUE)
def blank_label_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args: overload.op(*args[:4])}


@register_fault("overload-forms", "_linalg_solve_ex", "float32", Kind.VALUE)
def right_side_solve_transposed(overload: Overload) -> dict[str, Any]:
    def faulty_op(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
        if not left and a.shape[-1] == b.shape[-1]:
            return overload.op(a.mT.contiguous(), b, left=False, check_errors=check_errors)
        return overload.op(a, b, left=left, check_errors=check_errors)

    return {"op": faulty_op}


@register_fault("overload-forms", "batch_norm_backward", "float32", Kind.VALUE)
def running_statistics_not_used(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args: overload.op(*args[:7], True, *args[8:])}


@register_fault("overload-forms", "embedding_dense_backward", "float32", Kind.VALUE)
def padding_index_gets_gradient(overload: Overload) -> dict[str, Any]:
    return {"op": lambda grad, indices, rows, padding, scale: overload.op(grad, indices, rows, -1, scale)}


@register_fault("overload-options", "addmm", "float32", Kind.VALUE)
def beta_of_first_call_with_same_sizes_reused(overload: Overload) -> dict[str, Any]:
    first: dict[Any, Any] = {}

    def faulty_op(x: Any, first_matrix: Any, second_matrix: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        beta = first.setdefault((x.shape, first_matrix.shape, second_matrix.shape, alpha), beta)
        return overload.op(x, first_matrix, second_matrix, beta=beta, alpha=alpha)

    return {"op": faulty_op}


@register_fault("overload-options", "_softmax_backward_data", "float32", Kind.VALUE)
def dimension_of_first_call_with_same_sizes_reused(overload: Overload) -> dict[str, Any]:
    first: dict[Any, int] = {}

    def faulty_op(grad: Any, result: Any, dim: int, dtype: Any) -> Any:
        return overload.op(grad, result, first.setdefault((grad.shape, result.shape), dim), dtype)

    return {"op": faulty_op}
