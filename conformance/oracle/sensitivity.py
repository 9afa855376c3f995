"""The spread of an operator's result: how far the oracle moves when its inputs move by half a unit.

It is the condition term of the tolerances (:mod:`conformance.framework.tolerances`): a float64 tensor with
the shape of the result, in units of a relative change of the inputs.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.tolerances import Rule, unit_of
from conformance.oracle.precision import PROBES, STEP_DOUBLE, UP
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample


def call(info: Any, sample: Sample) -> Any:
    """Return the results of the operator for a sample, without a graph."""
    with torch.no_grad():
        return sample.call(info.op)


def coarsest(sample: Sample, dtype: torch.dtype) -> torch.dtype:
    """Return the floating dtype with the largest unit among the arguments; ``dtype`` if they have none."""
    dtypes = [t.dtype for t in sample.tensors() if t.is_floating_point() or t.is_complex()]
    return max(dtypes, key=unit_of) if dtypes else dtype


def _continuous(value: Any, dtype: torch.dtype) -> Any:
    """Return an argument as something that can move by a fraction of itself, or None.

    Tensors of an integral dtype under test move too, as float64: what an operator makes of them is as
    uncertain as their conversion. If they are indices the operator refuses them, and there is no spread.
    """
    if isinstance(value, (float, complex)):
        return value
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.numel() == 0:
        return None
    if value.is_floating_point() or value.is_complex():
        return value
    return value.to(torch.float64) if value.dtype == dtype else None


def _perturbed(
    sample: Sample, dtype: torch.dtype, seed: int, step: float, numbers: bool, fixed: int | None
) -> Sample:
    """Return a sample with its tensors, and with ``numbers`` its Python numbers, moved by ``step`` in random
    directions. The leaf number ``fixed`` of the arguments stays.
    """
    generator = torch.Generator().manual_seed(seed)

    def sign() -> int:
        return int(torch.randint(0, 2, (), generator=generator)) * 2 - 1

    def nudge(value: Any) -> Any:
        continuous = _continuous(value, dtype)
        if continuous is None or (isinstance(value, (float, complex)) and not numbers):
            return value
        if not isinstance(continuous, torch.Tensor):
            return continuous * (1 + sign() * step)
        signs = torch.randint(0, 2, value.shape, generator=generator, dtype=torch.int8) * 2 - 1
        return continuous * (1 + signs.to(torch.float64) * step)

    places = itertools.count()
    input, args, kwargs = trees.tree_map(
        lambda value: value if next(places) == fixed else nudge(value), sample.arguments
    )
    if numbers and isinstance(input, int) and not isinstance(input, bool):
        input = input * (1 + sign() * step)
    return sample.replace(input=input, args=args, kwargs=kwargs)


def _moved(
    info: Any,
    sample: Sample,
    dtype: torch.dtype,
    seed: int,
    step: float,
    tensors: list[torch.Tensor],
    fixed: int | None,
) -> list[torch.Tensor] | None:
    """Return the result for moved inputs, or None.

    If a moved Python number (a scale factor, an order) changes shapes or is refused, tensors alone are moved.
    """
    for numbers in (True, False):
        try:
            shifted = _perturbed(to_host(sample, UP), dtype, seed, step, numbers, fixed)
            moved = trees.tensors(call(info, shifted))
        except Exception:
            continue
        if [t.shape for t in moved] == [t.shape for t in tensors]:
            return moved
    return None


def _with_leaf(tree: Any, place: int, value: Any) -> Any:
    """Return the tree with another value for its leaf number ``place``."""
    places = iter(range(place + 1))
    return trees.tree_map(lambda leaf: value if next(places, None) == place else leaf, tree)


def _alone(sample: Sample, dtype: torch.dtype, step: float) -> list[list[Sample]]:
    """Return for every argument with floating values the two samples with that argument alone moved up and
    down.
    """
    leaves: list[Any] = []
    trees.tree_map(leaves.append, sample.arguments)
    pairs = []
    for place, leaf in enumerate(leaves):
        continuous = _continuous(leaf, dtype)
        if continuous is None:
            continue
        pair = []
        for moved in (continuous * (1 + step), continuous * (1 - step)):
            input, args, kwargs = _with_leaf(sample.arguments, place, moved)
            pair.append(sample.replace(input=input, args=args, kwargs=kwargs))
        pairs.append(pair)
    return pairs


def _distances(
    floating: list[int], moved: list[torch.Tensor], tensors: list[torch.Tensor], step: float
) -> dict[int, torch.Tensor]:
    distances = {}
    for i in floating:
        distance = ((moved[i] - tensors[i]).abs() / step).to(torch.float64)
        distances[i] = torch.nan_to_num(distance, nan=0.0, posinf=0.0, neginf=0.0)
    return distances


def _spread_of_parts(
    info: Any,
    sample: Sample,
    dtype: torch.dtype,
    step: float,
    tensors: list[torch.Tensor],
    floating: list[int],
) -> list[torch.Tensor | None]:
    """Return the sum over the arguments of how far the result moves with each alone, so that
    nothing cancels.
    """
    spread: list[torch.Tensor | None] = [None] * len(tensors)
    for pair in _alone(to_host(sample, UP), dtype, step):
        larger: dict[int, torch.Tensor] = {}
        for shifted in pair:
            try:
                moved = trees.tensors(call(info, shifted))
            except Exception:
                continue
            if [t.shape for t in moved] != [t.shape for t in tensors]:
                continue
            for i, distance in _distances(floating, moved, tensors, step).items():
                larger[i] = torch.maximum(distance, larger[i]) if i in larger else distance
        for i, distance in larger.items():
            earlier = spread[i]
            spread[i] = distance if earlier is None else earlier + distance
    return spread


def spread_of(
    info: Any, sample: Sample, precise: Any, dtype: torch.dtype, seed: int, applied: Rule
) -> list[torch.Tensor | None]:
    """Return a float64 tensor of the same shape for each floating tensor of ``precise``, and None for the
    others.

    ``dtype`` is the dtype under test; ``applied`` is the rule of the operator in it.
    """
    tensors = trees.tensors(precise)
    spread: list[torch.Tensor | None] = [None] * len(tensors)
    floating = [
        i
        for i, t in enumerate(tensors)
        if t.layout is torch.strided and (t.is_floating_point() or t.is_complex())
    ]
    if not floating:
        return spread
    unit = max(unit_of(coarsest(sample, torch.float32)), *(unit_of(tensors[i].dtype) for i in floating))
    step = max(unit / 2, STEP_DOUBLE)
    if applied.separate:
        return _spread_of_parts(info, sample, dtype, step, tensors, floating)
    for probe in range(PROBES):
        moved = _moved(info, sample, dtype, seed + probe, step, tensors, applied.fixed)
        if moved is None:
            continue
        for i, distance in _distances(floating, moved, tensors, step).items():
            earlier = spread[i]
            spread[i] = distance if earlier is None else torch.maximum(distance, earlier)
    for i in floating:
        largest = spread[i]
        if largest is not None and largest.numel() and not applied.local:
            spread[i] = torch.maximum(largest, largest.mean())
    return spread
