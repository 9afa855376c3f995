"""Injected faults that the property ``overload-forms`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-forms", "_amp_update_scale_", "float32", Kind.ALIASING)
def op_returns_copy_of_written_argument(overload: Overload) -> dict[str, Any]:
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
def empty_out_is_not_resized(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, out: Any, **kwargs: Any) -> Any:
        was_empty = out.numel() == 0
        overload.out(*args, out=out, **kwargs)
        return out.resize_(0) if was_empty else out

    return {"out": faulty_out}


@register_fault("overload-forms", "relu", "float32", Kind.ALIASING)
def result_aliases_input(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: x.copy_(overload.op(x))}


@register_fault("overload-forms", "transpose.int", "float32", Kind.ALIASING)
def copy_instead_of_view(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args: overload.op(*args).clone()}


@register_fault("overload-forms", "transpose.int", "float32", Kind.VALUE)
def wrong_result_for_negative_dimension(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, first: int, second: int) -> Any:
        result = overload.op(x, first, second)
        return result + 1 if first < 0 and x.numel() else result

    return {"op": faulty_op}


@register_fault("overload-forms", "ne.Tensor", "float32", Kind.VALUE)
def bool_true_stored_as_2(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        result = overload.op(*args)
        return (result.to(torch.uint8) * 2).view(torch.bool)

    return {"op": faulty_op}


@register_fault("overload-forms", "mul.Tensor", "float32", Kind.STATE)
def second_argument_overwritten(overload: Overload) -> dict[str, Any]:
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
def equal_always_returns_true(overload: Overload) -> dict[str, Any]:
    return {"op": lambda left, right: True}


@register_fault("overload-forms", "bmm", "float32", Kind.ALIASING)
def product_with_identity_returns_argument(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any) -> Any:
        return x if torch.equal(y, torch.eye(y.shape[-1]).expand_as(y)) else overload.op(x, y)

    return {"op": faulty_op}


@register_fault("overload-forms", "max_pool2d_with_indices_backward", "float32", Kind.VALUE)
def incoming_gradient_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda grad, *args: overload.op(torch.ones_like(grad), *args)}


@register_fault("overload-forms", "_batch_norm_with_update", "float32", Kind.VALUE)
def out_form_does_not_write_statistics(overload: Overload) -> dict[str, Any]:
    def faulty_out(
        x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *options: Any, **outs: Any
    ) -> Any:
        return overload.out(x, weight, bias, mean.clone(), variance.clone(), *options, **outs)

    return {"out": faulty_out}


@register_fault("overload-forms", "norm.ScalarOpt_dim", "float32", Kind.VALUE)
def out_form_of_norm_doubled(overload: Overload) -> dict[str, Any]:
    return {"out": lambda *args, out: overload.out(*args, out=out).mul_(2)}


@register_fault("overload-forms", "mode", "float64", Kind.VALUE)
def out_form_does_not_write_indices(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, values: Any, indices: Any, **kwargs: Any) -> Any:
        overload.out(*args, values=values, indices=torch.empty_like(indices), **kwargs)
        return values, indices

    return {"out": faulty_out}


@register_fault("overload-forms", "mode", "bool", Kind.VALUE)
def mode_of_bools_stored_as_2(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, **kwargs: Any) -> Any:
        values, indices = overload.op(*args, **kwargs)
        values.view(torch.uint8).mul_(2)
        return torch.return_types.mode((values, indices))

    return {"op": faulty_op}


@register_fault("overload-forms", "special_chebyshev_polynomial_u", "int32", Kind.VALUE)
def polynomial_degree_one_too_low(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, n: overload.op(x, (n - 1).clamp_min(0))}


@register_fault("overload-forms", "native_dropout_backward", "float32", Kind.VALUE)
def dropout_mask_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda grad, mask, scale: grad * scale}


@register_fault("overload-forms", "native_layer_norm", "bfloat16", Kind.VALUE)
def bfloat16_out_beside_statistics_not_written(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, out0: Any, **kwargs: Any) -> Any:
        old = out0.clone()
        result = overload.out(*args, out0=out0, **kwargs)
        out0.copy_(old)
        return result

    return {"out": faulty_out}


@register_fault("overload-forms", "_softmax_backward_data", "float32", Kind.VALUE)
def wrong_softmax_gradient_for_negative_dimension(overload: Overload) -> dict[str, Any]:
    def faulty_op(gradient: Any, result: Any, dim: int, *args: Any) -> Any:
        right = overload.op(gradient, result, dim, *args)
        return right + 1 if dim < 0 else right

    return {"op": faulty_op}


@register_fault("overload-forms", "binary_cross_entropy", "float16", Kind.ALIASING)
def out_form_returns_copy(overload: Overload) -> dict[str, Any]:
    return {"out": lambda *args, **kwargs: overload.out(*args, **kwargs).clone()}
