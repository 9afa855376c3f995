"""Injected faults that the property ``overload-forms`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.planting import register_fault


@register_fault("overload-forms", "_amp_update_scale_", "float32", Kind.ALIASING)
def what_was_written_is_returned_as_a_copy(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args, **kwargs: overload.op(*args, **kwargs).clone()}


@register_fault("overload-forms", "add.Tensor", "float32", Kind.ALIASING)
def in_place_returns_a_copy(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, *args, **kwargs: overload.in_place(x, *args, **kwargs).clone()}


@register_fault("overload-forms", "add.Tensor", "float32", Kind.VALUE)
def in_place_writes_nothing(overload: Overload) -> dict[str, Any]:
    def faulty_in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
        old = x.clone()
        return overload.in_place(x, *args, **kwargs).copy_(old)

    return {"in_place": faulty_in_place}


@register_fault("overload-forms", "mul.Tensor", "int64", Kind.METADATA)
def an_empty_out_stays_empty(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, out: Any, **kwargs: Any) -> Any:
        was_empty = out.numel() == 0
        overload.out(*args, out=out, **kwargs)
        return out.resize_(0) if was_empty else out

    return {"out": faulty_out}


@register_fault("overload-forms", "relu", "float32", Kind.ALIASING)
def a_new_result_is_an_argument(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: x.copy_(overload.op(x))}


@register_fault("overload-forms", "transpose.int", "float32", Kind.ALIASING)
def a_view_is_a_copy(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args: overload.op(*args).clone()}


@register_fault("overload-forms", "transpose.int", "float32", Kind.VALUE)
def a_negative_dimension_is_the_next_one(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, first: int, second: int) -> Any:
        result = overload.op(x, first, second)
        return result + 1 if first < 0 and x.numel() else result

    return {"op": faulty_op}


@register_fault("overload-forms", "ne.Tensor", "float32", Kind.VALUE)
def true_is_two(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        result = overload.op(*args)
        return (result.to(torch.uint8) * 2).view(torch.bool)

    return {"op": faulty_op}


@register_fault("overload-forms", "mul.Tensor", "float32", Kind.STATE)
def an_argument_is_overwritten(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        if y.numel():
            y.view(-1)[-1] += 1
        return result

    return {"op": faulty_op}


@register_fault("overload-forms", "_fused_sgd_", "float32", Kind.VALUE)
def momentum_not_written(overload: Overload) -> dict[str, Any]:
    def faulty_op(params: Any, grads: Any, momenta: Any, **options: Any) -> Any:
        return overload.op(params, grads, [momentum.clone() for momentum in momenta], **options)

    return {"op": faulty_op}


@register_fault("overload-forms", "equal", "int64", Kind.VALUE)
def always_equal(overload: Overload) -> dict[str, Any]:
    return {"op": lambda left, right: True}


@register_fault("overload-forms", "bmm", "float32", Kind.ALIASING)
def a_product_with_one_is_the_argument(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any) -> Any:
        return x if torch.equal(y, torch.eye(y.shape[-1]).expand_as(y)) else overload.op(x, y)

    return {"op": faulty_op}


@register_fault("overload-forms", "max_pool2d_with_indices_backward", "float32", Kind.VALUE)
def the_gradient_is_that_of_a_sum(overload: Overload) -> dict[str, Any]:
    return {"op": lambda grad, *args: overload.op(torch.ones_like(grad), *args)}


@register_fault("overload-forms", "_batch_norm_with_update", "float32", Kind.VALUE)
def statistics_are_not_written_beside_out(overload: Overload) -> dict[str, Any]:
    def faulty_out(
        x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *options: Any, **outs: Any
    ) -> Any:
        return overload.out(x, weight, bias, mean.clone(), variance.clone(), *options, **outs)

    return {"out": faulty_out}


@register_fault("overload-forms", "norm.ScalarOpt_dim", "float32", Kind.VALUE)
def the_norm_into_out_is_twice_as_large(overload: Overload) -> dict[str, Any]:
    return {"out": lambda *args, out: overload.out(*args, out=out).mul_(2)}


@register_fault("overload-forms", "mode", "float64", Kind.VALUE)
def indices_are_not_written_to_out(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, values: Any, indices: Any, **kwargs: Any) -> Any:
        overload.out(*args, values=values, indices=torch.empty_like(indices), **kwargs)
        return values, indices

    return {"out": faulty_out}


@register_fault("overload-forms", "mode", "bool", Kind.VALUE)
def a_frequent_bool_is_stored_as_2(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, **kwargs: Any) -> Any:
        values, indices = overload.op(*args, **kwargs)
        values.view(torch.uint8).mul_(2)
        return torch.return_types.mode((values, indices))

    return {"op": faulty_op}


@register_fault("overload-forms", "special_chebyshev_polynomial_u", "int32", Kind.VALUE)
def a_degree_is_one_less(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, n: overload.op(x, (n - 1).clamp_min(0))}


@register_fault("overload-forms", "native_dropout_backward", "float32", Kind.VALUE)
def a_mask_is_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda grad, mask, scale: grad * scale}


@register_fault("overload-forms", "native_layer_norm", "bfloat16", Kind.VALUE)
def an_out_of_16_bits_beside_statistics_is_not_written(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, out0: Any, **kwargs: Any) -> Any:
        old = out0.clone()
        result = overload.out(*args, out0=out0, **kwargs)
        out0.copy_(old)
        return result

    return {"out": faulty_out}


@register_fault("overload-forms", "_softmax_backward_data", "float32", Kind.VALUE)
def a_softmax_from_the_end_gives_another_gradient(overload: Overload) -> dict[str, Any]:
    def faulty_op(gradient: Any, result: Any, dim: int, *args: Any) -> Any:
        right = overload.op(gradient, result, dim, *args)
        return right + 1 if dim < 0 else right

    return {"op": faulty_op}


@register_fault("overload-forms", "binary_cross_entropy", "float16", Kind.ALIASING)
def an_out_is_returned_as_a_copy_where_the_first_call_is_refused(overload: Overload) -> dict[str, Any]:
    return {"out": lambda *args, **kwargs: overload.out(*args, **kwargs).clone()}
