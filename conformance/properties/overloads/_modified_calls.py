"""Calls made of others: with other values, other shapes and other options, as far as the CPU takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.compare import same_bits
from conformance.properties.overloads._references import (
    Agreement,
    OverloadReference,
    is_unchecked,
    overload_reference,
)
from conformance.samples.operators import Sample, dtype_name


def reference_of_modified_call(
    reference: OverloadReference, sample: Sample, agreement: Agreement = Agreement.TOLERANCE
) -> OverloadReference | None:
    """Return the CPU's answer to a changed call of the same overload; None if it raises."""
    return overload_reference(reference.subject, dtype_name(reference.dtype), sample, agreement)


def with_tensor(sample: Sample, place: int, tensor: torch.Tensor) -> Sample:
    """Return the call with another tensor at a place, counted as ``Sample.tensors`` does."""
    old = sample.tensors()[place]
    return mapped(sample, lambda one: tensor if one is old else one)


def mapped(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
    """Return the call with every tensor changed."""
    input, args, kwargs = trees.tree_map(
        lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, sample.arguments
    )
    return sample.replace(input=input, args=args, kwargs=kwargs)


def arguments(reference: OverloadReference) -> Iterator[tuple[Any, Any]]:
    """Yield the arguments of the schema with their values, defaults for those that the call leaves out."""
    given = [reference.sample.input, *reference.sample.args]
    for position, argument in enumerate(reference.overload.op._schema.arguments):
        if position < len(given):
            yield argument, given[position]
        else:
            yield argument, reference.sample.kwargs.get(argument.name, argument.default_value)


def with_argument(reference: OverloadReference, name: str, value: Any) -> Sample:
    """Return the call with another value of one argument."""
    sample = reference.sample
    names = [argument.name for argument in reference.overload.op._schema.arguments]
    position = names.index(name)
    given = [sample.input, *sample.args]
    if position < len(given):
        given[position] = value
        return sample.replace(input=given[0], args=tuple(given[1:]))
    return sample.replace(kwargs={**sample.kwargs, name: value})


def seeded(tensor: torch.Tensor, places: Sequence[int], values: Sequence[float | int]) -> torch.Tensor:
    """Return a dense copy with some elements replaced, as many as there are."""
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    flat = copy.view(-1)
    for place, value in zip(places, values, strict=False):
        if place < flat.numel():
            flat[place] = value
    return copy


def backwards(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense tensor of the same shape with its elements in the opposite order."""
    order = torch.arange(tensor.numel() - 1, -1, -1)
    return tensor.detach().reshape(-1)[order].reshape(tensor.shape)


def place_of(reference: OverloadReference, tensor: torch.Tensor) -> int:
    """Return the place of one of the call's tensors, counted as ``Sample.tensors`` does."""
    return next(place for place, one in enumerate(reference.sample.tensors()) if one is tensor)


def argument_at(reference: OverloadReference, place: int) -> str:
    """Return the name of the argument that holds the tensor at a place, with its number in a list."""
    names = [argument.name for argument in reference.overload.op._schema.arguments]
    given = (
        dict(zip(names, (reference.sample.input, *reference.sample.args), strict=False))
        | reference.sample.kwargs
    )
    holders = [f"{name} {index}" for name in given for index, _ in enumerate(trees.tensors(given[name]))]
    return holders[place]


def differ(one: OverloadReference, other: OverloadReference) -> bool:
    """Return whether two answers have other bits or shapes."""
    pairs = zip(trees.tensors(one.outputs), trees.tensors(other.outputs), strict=False)
    return any(a.shape != b.shape or a.dtype != b.dtype or not same_bits(a, b, zeros=True) for a, b in pairs)


def values_affect_result(reference: OverloadReference, place: int) -> bool:
    """Return whether other values of a tensor give other results; True if none can be tried."""
    if place not in reference.values_that_affect_result:
        reference.values_that_affect_result[place] = _matters(reference, place)
    return reference.values_that_affect_result[place]


def _matters(reference: OverloadReference, place: int) -> bool:
    tensor = reference.sample.tensors()[place]
    counts = not (tensor.is_floating_point() or tensor.is_complex())
    if counts and is_unchecked(reference.subject):
        return True  # other indices could be undefined
    others = (
        backwards,
        torch.zeros_like,
        torch.ones_like,
        lambda t: -3 * (t.long() if counts else t),
    )
    tried = False
    for change in others:
        changed = reference_of_modified_call(
            reference, with_tensor(reference.sample, place, change(tensor).to(tensor.dtype))
        )
        if changed is not None and differ(reference, changed):
            return True
        tried = tried or changed is not None
    return not tried


def reshaped(
    reference: OverloadReference, change: Callable[[torch.Tensor], torch.Tensor]
) -> OverloadReference | None:
    """Return the answer to a call with all tensors changed, else those of the first one's shape, else it."""
    tensors = reference.sample.tensors()
    if not tensors:
        return None
    for scope in (tensors, [t for t in tensors if t.shape == tensors[0].shape], tensors[:1]):
        places = {id(tensor) for tensor in scope}

        def leaf(tensor: torch.Tensor, places: set[int] = places) -> torch.Tensor:
            return change(tensor) if id(tensor) in places else tensor

        try:
            sample = mapped(reference.sample, leaf)
        except (RuntimeError, IndexError):
            continue
        changed = reference_of_modified_call(reference, sample)
        if changed is not None:
            return changed
    return None


def in_dimensions(reference: OverloadReference, rank: int) -> OverloadReference | None:
    """Return the answer to a call with tensors of so many dimensions at least; None if the CPU takes none."""

    def deeper(tensor: torch.Tensor) -> torch.Tensor:
        missing = rank - tensor.dim()
        if missing <= 0:
            return tensor
        sizes = [2] * min(missing, 2) + [1] * (missing - 2)  # batch and channels
        return tensor.detach().expand((*sizes, *tensor.shape)).clone()

    changed = reshaped(reference, deeper)
    if changed is not None or not reference.sample.tensors():
        return changed
    behind = _with_dim_behind(reference, rank - reference.sample.tensors()[0].dim())
    return None if behind is None else reshaped(behind, deeper)


def _with_dim_behind(reference: OverloadReference, missing: int) -> OverloadReference | None:
    """Return the call with the dimension that it names moved behind new ones; None if it names none.

    Indices along it stay within its size.
    """
    for argument, value in arguments(reference):
        if argument.name == "dim" and type(value) is int and value >= 0 and missing > 0:
            return dataclasses.replace(reference, sample=with_argument(reference, "dim", value + missing))
    return None
