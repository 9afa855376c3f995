"""Injected faults that the property ``overload-shapes`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import add_one_to_result_if, register_fault


@register_fault("overload-shapes", "sqrt", "float16", Kind.VALUE)
def wrong_beyond_element_2_to_the_20(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any) -> Any:
        result = overload.op(x)
        result.view(-1)[1 << 20 :] += 1
        return result

    return {"op": faulty_op}


@register_fault("overload-shapes", "add.Tensor", "float32", Kind.VALUE)
def wrong_above_65536_elements(overload: Overload) -> dict[str, Any]:
    return add_one_to_result_if(lambda x: x.numel() > 65_536)(overload)


@register_fault("overload-shapes", "sum.dim_IntList", "int64", Kind.VALUE)
def wrong_above_4096_elements(overload: Overload) -> dict[str, Any]:
    return add_one_to_result_if(lambda x: x.numel() > 4096)(overload)


@register_fault("overload-shapes", "relu", "float32", Kind.VALUE)
def wrong_for_six_dimensions(overload: Overload) -> dict[str, Any]:
    return add_one_to_result_if(lambda x: x.dim() == 6)(overload)


@register_fault("overload-shapes", "mul.Tensor", "float32", Kind.VALUE)
def wrong_for_scalars(overload: Overload) -> dict[str, Any]:
    return add_one_to_result_if(lambda x: x.dim() == 0)(overload)


@register_fault("overload-shapes", "where.self", "bool", Kind.VALUE)
def column_condition_shifted(overload: Overload) -> dict[str, Any]:
    def faulty_op(condition: Any, x: Any, y: Any) -> Any:
        is_column = condition.dim() > 1 and condition.shape[-1] == 1 < x.shape[-1]
        return overload.op(condition.roll(1) if is_column else condition, x, y)

    return {"op": faulty_op}


@register_fault("overload-shapes", "cat", "float32", Kind.EXCEPTION)
def raises_for_empty_tensors(overload: Overload) -> dict[str, Any]:
    def faulty_op(tensors: Any, *args: Any) -> Any:
        if any(tensor.numel() == 0 for tensor in tensors):
            raise RuntimeError("empty")
        return overload.op(tensors, *args)

    return {"op": faulty_op}


@register_fault("overload-shapes", "cat", "float32", Kind.VALUE)
def cat_with_empty_tensor_returns_zeros(overload: Overload) -> dict[str, Any]:
    def faulty_op(tensors: Any, dim: int = 0) -> Any:
        result = overload.op(tensors, dim)
        return result * 0 if any(not t.numel() for t in tensors) else result

    return {"op": faulty_op}


@register_fault("overload-shapes", "mm", "float32", Kind.VALUE)
def mm_sums_only_4096_products(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y: overload.op(x[:, :4096], y[:4096])}


@register_fault("overload-shapes", "bmm", "float32", Kind.VALUE)
def bmm_computes_only_512_matrices(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        result[512:] = 0
        return result

    return {"op": faulty_op}


@register_fault("overload-shapes", "nonzero", "float32", Kind.VALUE)
def wrong_above_65536_nonzero_elements(overload: Overload) -> dict[str, Any]:
    return add_one_to_result_if(lambda x: x.count_nonzero().item() > 65_536)(overload)


@register_fault("overload-shapes", "glu_jvp", "float32", Kind.VALUE)
def wrong_jvp_above_4096_elements(overload: Overload) -> dict[str, Any]:
    return add_one_to_result_if(lambda x: x.numel() > 4096)(overload)


@register_fault("overload-shapes", "threshold_backward", "bfloat16", Kind.VALUE)
def wrong_past_element_65536_in_bfloat16(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        result = overload.op(*args)
        if result.numel() > 65_536:
            result.view(-1)[65_536:] = 3
        return result

    return {"op": faulty_op}


@register_fault("overload-shapes", "_log_softmax_backward_data", "bfloat16", Kind.VALUE)
def wrong_past_element_4096_in_bfloat16(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        result = overload.op(*args)
        if result.numel() > 4096:
            result.view(-1)[4096:] = 3
        return result

    return {"op": faulty_op}


@register_fault("overload-shapes", "take", "float32", Kind.METADATA)
def channels_last_result_in_four_dimensions(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        result = overload.op(*args)
        return result.contiguous(memory_format=torch.channels_last) if result.dim() == 4 else result

    return {"op": faulty_op}


@register_fault("overload-shapes", "gather", "float32", Kind.VALUE)
def wrong_gather_in_six_dimensions(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, *args: overload.op(x, *args) + (1 if x.dim() == 6 else 0)}


@register_fault("overload-shapes", "unfold_backward", "float32", Kind.VALUE)
def ones_for_empty_unfold_gradient(overload: Overload) -> dict[str, Any]:
    def faulty_op(grad: Any, *args: Any) -> Any:
        result = overload.op(grad, *args)
        return result if grad.numel() else torch.ones_like(result)

    return {"op": faulty_op}


@register_fault("overload-shapes", "_embedding_bag", "float32", Kind.VALUE)
def embedding_rows_above_1024_are_zero(overload: Overload) -> dict[str, Any]:
    def faulty_op(weight: Any, indices: Any, offsets: Any, *args: Any, **kwargs: Any) -> Any:
        weight = weight.clone()
        weight[1024:] = 0
        return overload.op(weight, indices, offsets, *args, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-shapes", "mm", "bfloat16", Kind.VALUE)
def long_dot_products_too_large(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        # Count only nonzero elements. Products with zeros add nothing, so sums of mostly zeros stay correct.
        return result * 1.2 if x.count_nonzero() > 1000 else result

    return {"op": faulty_op}


@register_fault("overload-shapes", "sum", "bfloat16", Kind.VALUE)
def bfloat16_sums_saturate(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, **kwargs: Any) -> Any:
        # A running sum in bfloat16 does not grow beyond 256 times the largest addend.
        result = overload.op(x, **kwargs)
        limit = 256 * x.abs().max() if x.numel() else result
        return torch.minimum(result, limit.to(result.dtype))

    return {"op": faulty_op}
