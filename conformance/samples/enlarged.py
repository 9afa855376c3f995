"""Larger samples out of small ones: the same values over and over, in shapes that the CPU takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find

#: No argument grows beyond so many elements.
_MOST = 1 << 22
#: A result has at most so many tensors: of parts that each stay as they were more says nothing.
_PARTS = 16
#: The sizes at which a way is tried out.
_TRIAL = (64, 256)


@dataclasses.dataclass(frozen=True)
class AxisGrowth:
    """Growth of one tensor, to a length that the first tensor's elements and the wanted size decide."""

    length: Callable[[torch.Tensor, int], int]
    grow: Callable[[torch.Tensor, int], torch.Tensor]
    #: The dimension that grows; None if it is a new one.
    dimension: int | None


def _flat() -> AxisGrowth:
    """One dimension of exactly that size."""
    return AxisGrowth(
        lambda tensor, size: size,
        lambda tensor, length: tensor.reshape(-1)[torch.arange(length) % tensor.numel()],
        None,
    )


def _longer(dimension: int) -> AxisGrowth:
    """That dimension longer, so that there are at least so many elements; never shorter: what names places in
    it would name some that are gone.
    """

    def length(tensor: torch.Tensor, size: int) -> int:
        now = tensor.shape[dimension]
        return max(now, math.ceil(size * now / tensor.numel()))

    def grow(tensor: torch.Tensor, length: int) -> torch.Tensor:
        return tensor.index_select(dimension, torch.arange(length) % tensor.shape[dimension])

    return AxisGrowth(length, grow, dimension)


def _batched() -> AxisGrowth:
    """A new first dimension."""
    return AxisGrowth(
        lambda tensor, size: math.ceil(size / tensor.numel()),
        lambda tensor, length: tensor.expand(length, *tensor.shape).clone(),
        None,
    )


_CHANGES = (_flat(), _longer(0), _longer(-1), _batched())

#: Which tensors grow with the first one: those of its shape; those as long in the dimension; none.
_SCOPES = ("shape", "length", "alone")


@dataclasses.dataclass(frozen=True)
class Enlargement:
    """Growth of a sample by a change of its first tensor and of those in its ``scope``.

    ``grows`` is true if the largest result grows with it.
    """

    sample: Sample
    change: AxisGrowth
    scope: str
    grows: bool = True

    def at(self, size: int) -> Sample | None:
        """Return the sample with about ``size`` elements in a tensor; None if the change does not fit it."""
        host = to_host(self.sample)
        first = next((t for t in host.tensors() if _can_grow(t)), None)
        if first is None:
            return None
        length = self.change.length(first, size)

        def leaf(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not _can_grow(value) or not self._takes(first, value):
                return value
            return self.change.grow(value.detach(), length).requires_grad_(value.requires_grad)

        try:
            with torch.no_grad():
                input, args, kwargs = trees.tree_map(leaf, host.arguments)
        except (RuntimeError, IndexError):
            return None
        changed = host.replace(input=input, args=args, kwargs=kwargs)
        return changed if max(t.numel() for t in changed.tensors()) <= _MOST else None

    def _takes(self, first: torch.Tensor, tensor: torch.Tensor) -> bool:
        if tensor is first:
            return True
        if self.scope == "length":
            dimension = self.change.dimension
            return dimension is None or tensor.shape[dimension] == first.shape[dimension]
        return self.scope == "shape" and tensor.shape == first.shape


def _can_grow(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.dim() > 0 and tensor.numel() > 0


def enlargements(subject: Subject, sample: Sample) -> Iterator[Enlargement]:
    """Yield the ways to enlarge a sample that the CPU takes, those first whose result grows with it.

    A result that grows faster, such as an outer product, is left out.
    """
    spare: list[Enlargement] = []
    for scope in _SCOPES:
        for change in _CHANGES:
            way = Enlargement(sample, change, scope)
            small, large = (_largest_result(subject, way.at(size)) for size in _TRIAL)
            if small is None or large is None or large > small * 2 * _TRIAL[1] // _TRIAL[0]:
                continue
            if large > small:
                yield way
            else:
                spare.append(dataclasses.replace(way, grows=False))
    yield from spare


def _largest_result(subject: Subject, sample: Sample | None) -> int | None:
    """Return the number of elements of the largest result on the CPU; None if it takes no such sample."""
    if sample is None:
        return None
    info = find(subject.kind, subject.name).info
    with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), torch.no_grad():
        outcome = attempt(lambda: sample.call(info.op))
    if not outcome.ok:
        return None
    results = trees.tensors(outcome.value)
    return max((t.numel() for t in results), default=0) if len(results) <= _PARTS else None
