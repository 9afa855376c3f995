"""Calls derived from recorded calls: with other values, shapes or options, if the CPU accepts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.compare import in_indexable_dtype, same_bits
from conformance.oracle.reference import Agreement
from conformance.properties.overloads._references import (
    OverloadReference,
    is_unchecked,
    overload_reference,
)
from conformance.samples.operators import Sample, dtype_name


def reference_of_modified_call(
    reference: OverloadReference, sample: Sample, agreement: Agreement = Agreement.TOLERANCE
) -> OverloadReference | None:
    """Return the reference of a modified call of the same overload; None if the CPU raises."""
    return overload_reference(reference.subject, dtype_name(reference.dtype), sample, agreement)


def with_tensor(sample: Sample, tensor_index: int, tensor: torch.Tensor) -> Sample:
    """Return the call with another tensor at an index of ``Sample.tensors``."""
    old = sample.tensors()[tensor_index]
    return with_mapped_tensors(sample, lambda leaf: tensor if leaf is old else leaf)


def with_mapped_tensors(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
    """Return the call with ``change`` applied to every tensor."""
    input, args, kwargs = trees.tree_map(
        lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, sample.arguments
    )
    return sample.replace(input=input, args=args, kwargs=kwargs)


def arguments_with_values(reference: OverloadReference) -> Iterator[tuple[Any, Any]]:
    """Yield each argument of the schema with its value in the call, or its default if the call omits it."""
    call_arguments = [reference.sample.input, *reference.sample.args]
    for position, argument in enumerate(reference.overload.op._schema.arguments):
        if position < len(call_arguments):
            yield argument, call_arguments[position]
        else:
            yield argument, reference.sample.kwargs.get(argument.name, argument.default_value)


def with_argument(reference: OverloadReference, name: str, value: Any) -> Sample:
    """Return the call with another value for one argument."""
    sample = reference.sample
    names = [argument.name for argument in reference.overload.op._schema.arguments]
    position = names.index(name)
    call_arguments = [sample.input, *sample.args]
    if position < len(call_arguments):
        call_arguments[position] = value
        return sample.replace(input=call_arguments[0], args=tuple(call_arguments[1:]))
    return sample.replace(kwargs={**sample.kwargs, name: value})


def with_elements_replaced(
    tensor: torch.Tensor, positions: Sequence[int], values: Sequence[float | int]
) -> torch.Tensor:
    """Return a dense copy in which the elements at ``positions`` have new values.

    Positions beyond the last element are ignored.
    """
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    flat = copy.view(-1)
    for position, value in zip(positions, values, strict=False):
        if position < flat.numel():
            flat[position] = value
    return copy


def reversed_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense tensor of the same shape with the elements in reverse order."""
    order = torch.arange(tensor.numel() - 1, -1, -1)
    reversed_bits = in_indexable_dtype(tensor.detach().reshape(-1))[order]
    return reversed_bits.view(tensor.dtype).reshape(tensor.shape)


def index_of_tensor(reference: OverloadReference, tensor: torch.Tensor) -> int:
    """Return the index in ``Sample.tensors`` of one of the call's tensors."""
    return next(index for index, candidate in enumerate(reference.sample.tensors()) if candidate is tensor)


def argument_name_at(reference: OverloadReference, tensor_index: int) -> str:
    """Return the name of the argument that contains a tensor, with the tensor's number in the argument."""
    names = [argument.name for argument in reference.overload.op._schema.arguments]
    values_by_name = (
        dict(zip(names, (reference.sample.input, *reference.sample.args), strict=False))
        | reference.sample.kwargs
    )
    holders = [
        f"{name} {index}"
        for name in values_by_name
        for index, _ in enumerate(trees.tensors(values_by_name[name]))
    ]
    return holders[tensor_index]


def reference_bits_differ(first: OverloadReference, second: OverloadReference) -> bool:
    """Return whether two references differ in shape, dtype or bits, signs of zeros included."""
    pairs = zip(trees.tensors(first.outputs), trees.tensors(second.outputs), strict=False)
    return any(a.shape != b.shape or a.dtype != b.dtype or not same_bits(a, b, zeros=True) for a, b in pairs)


def values_affect_result(reference: OverloadReference, tensor_index: int) -> bool:
    """Return whether other values of a tensor change the result.

    Also return True if the CPU rejects all tried values.
    """
    if tensor_index not in reference.values_that_affect_result:
        reference.values_that_affect_result[tensor_index] = _some_change_affects_result(
            reference, tensor_index
        )
    return reference.values_that_affect_result[tensor_index]


def _some_change_affects_result(reference: OverloadReference, tensor_index: int) -> bool:
    tensor = reference.sample.tensors()[tensor_index]
    integral = not (tensor.is_floating_point() or tensor.is_complex())
    if integral and is_unchecked(reference.subject):
        return True  # other values could be invalid indices
    changes = (
        reversed_elements,
        torch.zeros_like,
        torch.ones_like,
        lambda t: -3 * (t.long() if integral else t),
    )
    accepted = False
    for change in changes:
        changed = reference_of_modified_call(
            reference, with_tensor(reference.sample, tensor_index, change(tensor).to(tensor.dtype))
        )
        if changed is not None and reference_bits_differ(reference, changed):
            return True
        accepted = accepted or changed is not None
    return not accepted


def reference_with_changed_tensors(
    reference: OverloadReference, change: Callable[[torch.Tensor], torch.Tensor]
) -> OverloadReference | None:
    """Return the reference of a call with changed tensors; None if the CPU rejects each attempt.

    The first attempt changes all tensors. The second attempt changes only the tensors that have the shape of
    the first tensor. The last attempt changes only the first tensor.
    """
    tensors = reference.sample.tensors()
    if not tensors:
        return None
    for scope in (tensors, [t for t in tensors if t.shape == tensors[0].shape], tensors[:1]):
        tensor_ids = {id(tensor) for tensor in scope}

        def leaf(tensor: torch.Tensor, tensor_ids: set[int] = tensor_ids) -> torch.Tensor:
            return change(tensor) if id(tensor) in tensor_ids else tensor

        try:
            sample = with_mapped_tensors(reference.sample, leaf)
        except (RuntimeError, IndexError):
            continue
        changed = reference_of_modified_call(reference, sample)
        if changed is not None:
            return changed
    return None


def reference_with_minimum_rank(reference: OverloadReference, rank: int) -> OverloadReference | None:
    """Return the reference of a call whose tensors have at least ``rank`` dimensions.

    The result is None if the CPU accepts no such call.
    """

    def with_new_dimensions(tensor: torch.Tensor) -> torch.Tensor:
        missing = rank - tensor.dim()
        if missing <= 0:
            return tensor
        sizes = [2] * min(missing, 2) + [1] * (missing - 2)  # new batch and channel dimensions have size 2
        return tensor.detach().expand((*sizes, *tensor.shape)).clone()

    changed = reference_with_changed_tensors(reference, with_new_dimensions)
    if changed is not None or not reference.sample.tensors():
        return changed
    shifted = _with_dim_shifted(reference, rank - reference.sample.tensors()[0].dim())
    return None if shifted is None else reference_with_changed_tensors(shifted, with_new_dimensions)


def _with_dim_shifted(reference: OverloadReference, missing: int) -> OverloadReference | None:
    """Return the call with its ``dim`` argument increased by the number of new dimensions.

    The result is None if the call does not have a nonnegative ``dim``. The shifted ``dim`` refers to the same
    dimension as before, so indices stay within its size.
    """
    for argument, value in arguments_with_values(reference):
        if argument.name == "dim" and type(value) is int and value >= 0 and missing > 0:
            shifted = with_argument(reference, "dim", value + missing)
            return dataclasses.replace(reference, call=dataclasses.replace(reference.call, sample=shifted))
    return None
