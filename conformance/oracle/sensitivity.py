"""Compute the sensitivity of an operator's result: how far the result moves when the inputs move by half a
unit.

The allowed error grows with the sensitivity (:mod:`conformance.framework.tolerances`). The sensitivity is a
float64 tensor with the shape of the result, in units of a relative change of the inputs.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.tolerances import Rule, unit_of
from conformance.oracle.mean_rounding import sizes_of_scaled_means
from conformance.oracle.precision import FLOAT64_PROBE_STEP, HIGH_PRECISION_DTYPES, PROBE_COUNT
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample

#: The allowed error of a mean, in units of the mean. A kernel rounds the mean, the factor, the product and
#: the offset, each by at most half a unit.
UNITS_OF_MEAN = 2.0


def call_operator(info: Any, sample: Sample) -> Any:
    """Return the results of the operator for a sample, computed without an autograd graph."""
    with torch.no_grad():
        return sample.call(info.op)


def coarsest_dtype(sample: Sample, dtype: torch.dtype) -> torch.dtype:
    """Return the floating dtype with the largest unit among the arguments; ``dtype`` if no argument is
    floating.
    """
    dtypes = [t.dtype for t in sample.tensors() if t.is_floating_point() or t.is_complex()]
    return max(dtypes, key=unit_of) if dtypes else dtype


def _as_continuous(value: Any, dtype: torch.dtype) -> Any:
    """Return an argument as a value that can be multiplied by a factor near one, or None.

    Integer tensors of the dtype under test are moved too, as float64 tensors, because an operator may round
    when it converts them. If the integers are indices, the operator refuses the float64 tensors, and the
    sensitivity is None.
    """
    if isinstance(value, (float, complex)):
        return value
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.numel() == 0:
        return None
    if value.is_floating_point() or value.is_complex():
        return value
    return value.to(torch.float64) if value.dtype == dtype else None


def _perturbed_sample(
    sample: Sample,
    dtype: torch.dtype,
    seed: int,
    step: float,
    move_python_numbers: bool,
    unmoved_leaf_index: int | None,
) -> Sample:
    """Return the sample with its tensors moved by ``step`` in random directions.

    With ``move_python_numbers``, Python numbers move too. The argument leaf at position
    ``unmoved_leaf_index`` does not move.
    """
    generator = torch.Generator().manual_seed(seed)

    def sign() -> int:
        return int(torch.randint(0, 2, (), generator=generator)) * 2 - 1

    def nudge(value: Any) -> Any:
        continuous = _as_continuous(value, dtype)
        if continuous is None or (isinstance(value, (float, complex)) and not move_python_numbers):
            return value
        if not isinstance(continuous, torch.Tensor):
            return continuous * (1 + sign() * step)
        signs = torch.randint(0, 2, value.shape, generator=generator, dtype=torch.int8) * 2 - 1
        return continuous * (1 + signs.to(torch.float64) * step)

    leaf_numbers = itertools.count()
    input, args, kwargs = trees.tree_map(
        lambda value: value if next(leaf_numbers) == unmoved_leaf_index else nudge(value), sample.arguments
    )
    if move_python_numbers and isinstance(input, int) and not isinstance(input, bool):
        input = input * (1 + sign() * step)
    return sample.replace(input=input, args=args, kwargs=kwargs)


def _results_for_moved_inputs(
    info: Any,
    sample: Sample,
    dtype: torch.dtype,
    seed: int,
    step: float,
    tensors: list[torch.Tensor],
    unmoved_leaf_index: int | None,
) -> list[torch.Tensor] | None:
    """Return the result tensors for moved inputs, or None if no call succeeds.

    If the call with moved Python numbers (a scale factor, an order) fails or changes a shape, a second call
    moves the tensors only.
    """
    for numbers in (True, False):
        try:
            shifted = _perturbed_sample(
                to_host(sample, HIGH_PRECISION_DTYPES), dtype, seed, step, numbers, unmoved_leaf_index
            )
            moved_tensors = trees.tensors(call_operator(info, shifted))
        except Exception:
            continue
        if [t.shape for t in moved_tensors] == [t.shape for t in tensors]:
            return moved_tensors
    return None


def _with_leaf(tree: Any, position: int, value: Any) -> Any:
    """Return the tree with the leaf at ``position`` replaced by ``value``."""
    positions = iter(range(position + 1))
    return trees.tree_map(lambda leaf: value if next(positions, None) == position else leaf, tree)


def _samples_with_one_argument_moved(sample: Sample, dtype: torch.dtype, step: float) -> list[list[Sample]]:
    """Return two samples for each argument with floating values.

    In the first sample only this argument is moved up, in the second only this argument is moved down.
    """
    leaves: list[Any] = []
    trees.tree_map(leaves.append, sample.arguments)
    pairs = []
    for position, leaf in enumerate(leaves):
        # A whole number as input is a value, such as an end of ``linspace``. Whole numbers in later arguments
        # may be sizes.
        is_value = position == 0 and type(leaf) is int and leaf is sample.input
        continuous = float(leaf) if is_value else _as_continuous(leaf, dtype)
        if continuous is None:
            continue
        pair = []
        for moved in (continuous * (1 + step), continuous * (1 - step)):
            input, args, kwargs = _with_leaf(sample.arguments, position, moved)
            pair.append(sample.replace(input=input, args=args, kwargs=kwargs))
        pairs.append(pair)
    return pairs


def _movement_by_result(
    floating: list[int], moved_tensors: list[torch.Tensor], tensors: list[torch.Tensor], step: float
) -> dict[int, torch.Tensor]:
    """Return how far each floating result moved, divided by ``step``, by the position of the result."""
    distances = {}
    for i in floating:
        distance = ((moved_tensors[i] - tensors[i]).abs() / step).to(torch.float64)
        distances[i] = torch.nan_to_num(distance, nan=0.0, posinf=0.0, neginf=0.0)
    return distances


def _sensitivity_summed_over_arguments(
    info: Any,
    sample: Sample,
    dtype: torch.dtype,
    step: float,
    tensors: list[torch.Tensor],
    floating: list[int],
) -> list[torch.Tensor | None]:
    """Return the sensitivity as the sum of the movements that the arguments cause. Each argument is moved
    alone, so that movements cannot cancel.
    """
    sensitivity: list[torch.Tensor | None] = [None] * len(tensors)
    for pair in _samples_with_one_argument_moved(to_host(sample, HIGH_PRECISION_DTYPES), dtype, step):
        larger: dict[int, torch.Tensor] = {}
        for shifted in pair:
            try:
                # The samples share the arguments that were not moved, and the operator may write to these
                # arguments.
                moved_tensors = trees.tensors(call_operator(info, to_host(shifted)))
            except Exception:
                continue
            if [t.shape for t in moved_tensors] != [t.shape for t in tensors]:
                continue
            for i, distance in _movement_by_result(floating, moved_tensors, tensors, step).items():
                larger[i] = torch.maximum(distance, larger[i]) if i in larger else distance
        for i, distance in larger.items():
            earlier = sensitivity[i]
            sensitivity[i] = distance if earlier is None else earlier + distance
    return sensitivity


def sensitivity_of(
    info: Any, sample: Sample, high_precision: Any, dtype: torch.dtype, seed: int, tolerance_rule: Rule
) -> list[torch.Tensor | None]:
    """Return the sensitivity of each floating tensor of ``high_precision``: a float64 tensor of the same
    shape. For other tensors, and if no call with moved inputs succeeds, the sensitivity is None.

    ``dtype`` is the dtype under test. ``tolerance_rule`` is the rule of the operator in this dtype.
    """
    tensors = trees.tensors(high_precision)
    sensitivity: list[torch.Tensor | None] = [None] * len(tensors)
    floating = [
        i
        for i, t in enumerate(tensors)
        if t.layout is torch.strided and (t.is_floating_point() or t.is_complex())
    ]
    if not floating:
        return sensitivity
    unit = max(unit_of(coarsest_dtype(sample, torch.float32)), *(unit_of(tensors[i].dtype) for i in floating))
    step = max(unit / 2, FLOAT64_PROBE_STEP)
    if tolerance_rule.separate:
        return _sensitivity_summed_over_arguments(info, sample, dtype, step, tensors, floating)
    for probe in range(PROBE_COUNT):
        moved_tensors = _results_for_moved_inputs(
            info, sample, dtype, seed + probe, step, tensors, tolerance_rule.fixed
        )
        if moved_tensors is None:
            continue
        for i, distance in _movement_by_result(floating, moved_tensors, tensors, step).items():
            earlier = sensitivity[i]
            sensitivity[i] = distance if earlier is None else torch.maximum(distance, earlier)
    for i in floating:
        largest = sensitivity[i]
        if largest is not None and largest.numel() and not tolerance_rule.local:
            sensitivity[i] = torch.maximum(largest, largest.mean())
    if tolerance_rule.name == "normalisation":
        _add_rounded_means(
            sensitivity, tensors, sizes_of_scaled_means(info.op, sample), tolerance_rule.k, unit
        )
    return sensitivity


def _add_rounded_means(
    sensitivity: list[torch.Tensor | None],
    tensors: list[torch.Tensor],
    sizes: torch.Tensor | None,
    k: float,
    unit: float,
) -> None:
    """Add the effect of rounded means to the sensitivity of the results that have the shape of ``sizes``.

    The allowed error is ``k`` units of the sensitivity. Kernels keep means in float32 or wider, so for 16-bit
    dtypes the added error is counted in units of float32.
    """
    if sizes is None:
        return
    units = UNITS_OF_MEAN / k * min(1.0, unit_of(torch.float32) / unit)
    for i, result in enumerate(tensors):
        earlier = sensitivity[i]
        if earlier is not None and result.shape == sizes.shape:
            sensitivity[i] = earlier + sizes * units
