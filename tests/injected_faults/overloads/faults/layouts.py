"""Injected faults that the property ``overload-layouts`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import (
    read_as_dense,
    register_fault,
    with_offset_zero,
)


@register_fault("overload-layouts", "sub.Tensor", "float32", Kind.VALUE)
def strides_of_second_argument_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y, **kwargs: overload.op(x, read_as_dense(y), **kwargs)}


@register_fault("overload-layouts", "mul.Tensor", "bool", Kind.VALUE)
def in_place_ignores_strides(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, y, **kwargs: overload.in_place(x, read_as_dense(y), **kwargs)}


@register_fault("overload-layouts", "bmm", "float32", Kind.VALUE)
def storage_offsets_of_strided_arguments_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y: overload.op(x if x.is_contiguous() else with_offset_zero(x), y)}


@register_fault("overload-layouts", "relu", "float32", Kind.VALUE)
def expanded_arguments_read_as_dense(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: overload.op(read_as_dense(x) if 0 in x.stride() else x)}


@register_fault("overload-layouts", "scatter.src", "float32", Kind.VALUE)
def expanded_index_read_as_dense(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, dim: int, index: Any, source: Any) -> Any:
        read = read_as_dense(index) % x.shape[dim] if 0 in index.stride() else index
        return overload.op(x, dim, read, source)

    return {"op": faulty_op}


@register_fault("overload-layouts", "isin.Tensor_Tensor", "float32", Kind.VALUE)
def expanded_test_elements_read_as_dense(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y, **kwargs: overload.op(x, read_as_dense(y) if 0 in y.stride() else y, **kwargs)}


@register_fault("overload-layouts", "add.Tensor", "float32", Kind.VALUE)
def channels_last_storage_offsets_ignored(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any, **kwargs: Any) -> Any:
        last = y.dim() == 4 and not y.is_contiguous() and y.is_contiguous(memory_format=torch.channels_last)
        return overload.op(x, with_offset_zero(y) if last else y, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-layouts", "mul.Tensor", "float32", Kind.STATE)
def out_form_writes_past_end(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, out: Any) -> Any:
        overload.out(*args, out=out)
        room = out.untyped_storage().nbytes() // out.itemsize
        after = out.storage_offset() + out.numel()
        if out.is_contiguous() and after < room:
            out.as_strided((1,), (1,), after).fill_(9)
        return out

    return {"out": faulty_out}


@register_fault("overload-layouts", "native_batch_norm_backward", "float32", Kind.VALUE)
def strides_of_running_statistics_ignored(overload: Overload) -> dict[str, Any]:
    """Ignore the strides of running statistics. Only calls in evaluation mode reveal the fault, because in
    training mode the result does not depend on running statistics. The first recorded calls are in training
    mode, so a check of only the first calls would miss the fault.
    """

    def faulty_op(grad: Any, x: Any, weight: Any, mean: Any, *rest: Any) -> Any:
        return overload.op(grad, x, weight, read_as_dense(mean) if mean is not None else None, *rest)

    return {"op": faulty_op}


@register_fault("overload-layouts", "logical_and", "float32", Kind.VALUE)
def channels_last_offsets_ignored_by_logical_op(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, y: Any) -> Any:
        last = x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
        return overload.op(with_offset_zero(x) if last else x, y)

    return {"op": faulty_op}


@register_fault("overload-layouts", "_segment_reduce_backward", "bfloat16", Kind.VALUE)
def wrong_result_for_expanded_offsets(overload: Overload) -> dict[str, Any]:
    def faulty_op(
        grad: Any, output: Any, data: Any, reduce: str, *, offsets: Any = None, **kwargs: Any
    ) -> Any:
        result = overload.op(grad, output, data, reduce, offsets=offsets, **kwargs)
        return result + 1 if offsets is not None and 0 in offsets.stride() else result

    return {"op": faulty_op}
