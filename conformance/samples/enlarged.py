"""Enlarge small samples: repeat their values to fill larger shapes that the CPU accepts."""

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

#: The maximal number of elements of an argument.
_MAX_ELEMENTS = 1 << 22
#: The maximal number of tensors in a result. If the number of result tensors grows, but not their size, then
#: a large sample checks nothing new.
_MAX_RESULT_TENSORS = 16
#: The requested sizes with which an enlargement is tried.
_TRIAL_SIZES = (64, 256)


@dataclasses.dataclass(frozen=True)
class AxisGrowth:
    """One way to enlarge a tensor.

    ``length`` computes the new length from the first tensor of the sample and the requested number of
    elements. ``grow`` returns a tensor enlarged to a length.
    """

    length: Callable[[torch.Tensor, int], int]
    grow: Callable[[torch.Tensor, int], torch.Tensor]
    #: The dimension that grows; None if a new dimension is added.
    dimension: int | None


def _growth_by_flattening_and_repeating() -> AxisGrowth:
    """Return the growth that flattens a tensor and repeats its elements up to exactly the requested size."""
    return AxisGrowth(
        lambda tensor, size: size,
        lambda tensor, length: tensor.reshape(-1)[torch.arange(length) % tensor.numel()],
        None,
    )


def _longer_dimension_growth(dimension: int) -> AxisGrowth:
    """Return the growth that lengthens one dimension until the tensor has at least the requested size.

    The dimension never becomes shorter, because indices into it would be out of range.
    """

    def length(tensor: torch.Tensor, size: int) -> int:
        now = tensor.shape[dimension]
        return max(now, math.ceil(size * now / tensor.numel()))

    def grow(tensor: torch.Tensor, length: int) -> torch.Tensor:
        return tensor.index_select(dimension, torch.arange(length) % tensor.shape[dimension])

    return AxisGrowth(length, grow, dimension)


def _new_first_dimension_growth() -> AxisGrowth:
    """Return the growth that repeats a tensor along a new first dimension."""
    return AxisGrowth(
        lambda tensor, size: math.ceil(size / tensor.numel()),
        lambda tensor, length: tensor.expand(length, *tensor.shape).clone(),
        None,
    )


_GROWTHS = (
    _growth_by_flattening_and_repeating(),
    _longer_dimension_growth(0),
    _longer_dimension_growth(-1),
    _new_first_dimension_growth(),
)

#: Which tensors grow together with the first tensor. ``shape``: tensors of the same shape. ``length``:
#: tensors of the same length in the growing dimension. ``alone``: no further tensor.
_SCOPES = ("shape", "length", "alone")


@dataclasses.dataclass(frozen=True)
class Enlargement:
    """Enlargement of a sample: ``change`` is applied to the first tensor and to the tensors in ``scope``.

    ``grows`` is true if the largest result tensor grows too.
    """

    sample: Sample
    change: AxisGrowth
    scope: str
    grows: bool = True

    def enlarge_sample(self, size: int) -> Sample | None:
        """Return the sample enlarged to about ``size`` elements in its first tensor, or None if the sample
        cannot be enlarged in this way.
        """
        host = to_host(self.sample)
        first = next((t for t in host.tensors() if _can_grow(t)), None)
        if first is None:
            return None
        length = self.change.length(first, size)

        def grow_leaf(value: Any) -> Any:
            if (
                not isinstance(value, torch.Tensor)
                or not _can_grow(value)
                or not self._is_in_scope(first, value)
            ):
                return value
            return self.change.grow(value.detach(), length).requires_grad_(value.requires_grad)

        try:
            with torch.no_grad():
                input, args, kwargs = trees.tree_map(grow_leaf, host.arguments)
        except (RuntimeError, IndexError):
            return None
        changed = host.replace(input=input, args=args, kwargs=kwargs)
        return changed if max(t.numel() for t in changed.tensors()) <= _MAX_ELEMENTS else None

    def _is_in_scope(self, first: torch.Tensor, tensor: torch.Tensor) -> bool:
        if tensor is first:
            return True
        if self.scope == "length":
            dimension = self.change.dimension
            return dimension is None or tensor.shape[dimension] == first.shape[dimension]
        return self.scope == "shape" and tensor.shape == first.shape


def _can_grow(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.dim() > 0 and tensor.numel() > 0


def enlargements(subject: Subject, sample: Sample) -> Iterator[Enlargement]:
    """Yield the enlargements of a sample that the CPU accepts. Enlargements with a larger result come first.

    An enlargement is omitted if the result grows much faster than the sample, as in an outer product.
    """
    not_growing: list[Enlargement] = []
    for scope in _SCOPES:
        for change in _GROWTHS:
            enlargement = Enlargement(sample, change, scope)
            small, large = (
                _largest_result_numel(subject, enlargement.enlarge_sample(size)) for size in _TRIAL_SIZES
            )
            if small is None or large is None or large > small * 2 * _TRIAL_SIZES[1] // _TRIAL_SIZES[0]:
                continue
            if large > small:
                yield enlargement
            else:
                not_growing.append(dataclasses.replace(enlargement, grows=False))
    yield from not_growing


def _largest_result_numel(subject: Subject, sample: Sample | None) -> int | None:
    """Return the number of elements of the largest result tensor on the CPU, or None if the CPU refuses the
    call.
    """
    if sample is None:
        return None
    info = find(subject.kind, subject.name).info
    with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings(), torch.no_grad():
        outcome = attempt(lambda: sample.call(info.op))
    if not outcome.ok:
        return None
    results = trees.tensors(outcome.value)
    return max((t.numel() for t in results), default=0) if len(results) <= _MAX_RESULT_TENSORS else None
