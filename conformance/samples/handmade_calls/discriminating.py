"""Calls whose results depend on each argument more than those of the calls that operators make.

They stand before these calls: whoever holds a layout or an option in the first call that takes it sees there
what reading something else would give.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import Build, Built, Maker
from conformance.samples.handmade_calls.fractional_pooling import fractional_pooling

aten = torch.ops.aten


def _fractional(dimensions: int, *, into: bool = False) -> Build:
    """Windows that lie elsewhere for other random numbers, which are so round that no dtype moves one.

    bfloat16 holds all values of the input, so that their indices are fixed.
    """

    def build(make: Maker) -> list[list[Any]]:
        size, pooled = ((13, 15), [5, 5]) if dimensions == 2 else ((7, 7, 5), [3, 3, 3])
        samples = (torch.arange(2 * dimensions) * 3 % 4 / 4).reshape(1, 2, dimensions).to(make.dtype)
        return fractional_pooling(make, size, pooled, samples, into=into)

    return build


def _half_of_them(limit: float) -> Build:
    """Values of which about half lie within the limit."""
    return lambda make: [[make.values(4, 6), make.values(4, 6, low=-2 * limit, high=2 * limit), limit]]


def _distances(make: Maker) -> list[list[Any]]:
    return [[make.values(3, 4, 5), make.values(3, 6, 5), 2.0, 2]]


def _distances_into(make: Maker) -> list[list[Any]]:
    x, y = make.values(3, 4, 5), make.values(3, 6, 5)
    return [[make.values(3, 4, 6), x, y, 2.0, aten._cdist_forward.default(x, y, 2.0, None)]]


def _found_and_not(make: Maker) -> list[list[Any]]:
    """Each row of the second tensor finds other elements, and what layouts leave around a tensor finds some.

    The first tensor has 3, 96 and -96 among its elements, the second one does not.
    """
    elements = torch.cat([torch.arange(21), torch.tensor([96, -96, 3])]).to(make.dtype).reshape(4, 6)
    rows, row = [[1, 5, 7, 11], [2, 4, 8, 13], [0, 6, 9, 17]], [5, 7, 11, 13, 17]
    return [[elements, torch.tensor(found).to(make.dtype)] for found in (row, rows)]


def _matrix(make: Maker) -> list[list[Any]]:
    return [[make.distinct(5, 6)]]


def _into_a_part(make: Maker) -> list[list[Any]]:
    x = make.distinct(5, 6)
    return [[x, make.values(2, 6), 0, 1, 3, 1], [x, make.values(5, 3), 1, 0, 6, 2]]


def _scattered(make: Maker) -> list[list[Any]]:
    """Places of which each row names others, so that no two are the same."""
    x, places = make.values(5, 6), torch.tensor([[0, 3, 1, 5], [2, 4, 0, 1], [5, 1, 3, 2]])
    return [[x, 1, places, 2, {"reduce": "multiply"}], [x, 1, places, 2, {"reduce": "add"}]]


def _as_many(make: Maker) -> list[list[Any]]:
    """Repetitions that come to the same number in another order."""
    some, others = (torch.tensor(times).to(make.dtype) for times in ([2, 0, 3, 1], [1, 3, 0, 2]))
    return [[some, {"output_size": 6}], [others]]


def _searched(make: Maker) -> list[list[Any]]:
    """A number that is found between others, and one that is one of them, of which both sides differ."""
    row = torch.arange(0, 40, 2).to(make.dtype)
    return [[row, 17, {"out_int32": True}], [row, 8, {"right": True}], [row, 8, {"side": "right"}], [row, 8]]


def _aligned(make: Maker, *, tensors: bool = False) -> list[list[Any]]:
    """Sequences of full length; shorter ones with another blank, the last one too short for its target if
    infinite losses are zeroes: no document says what the gradients of others are.
    """
    steps = make.values(41, 3, 6).log_softmax(-1)
    targets = torch.tensor([[1, 2, 5, 4], [4, 4, 1, 2], [5, 2, 1, 5]])
    flat = torch.tensor([0, 1, 4, 2, 2, 5, 1])
    long: list[Any] = [[41, 41, 41], [4, 4, 4]]
    short: list[Any] = [[40, 7, 2], [2, 2, 3]]
    enough: list[Any] = [[40, 7, 9], [2, 2, 3]]
    if tensors:
        long, short, enough = ([torch.tensor(one) for one in both] for both in (long, short, enough))
    return [[steps, targets, *long], [steps, flat, *short, 3, True], [steps, flat, *enough, 3]]


def _aligned_into(make: Maker, *, tensors: bool = False) -> list[list[Any]]:
    calls = []
    for steps, targets, *rest in _aligned(make, tensors=tensors):
        lengths, options = rest[:2], [*rest[2:], *(0, False)[len(rest) - 2 :]]
        loss, alpha = aten._ctc_loss(steps, targets, *map(list, lengths), *options)
        for row, (steps_of, labels) in enumerate(zip(*map(list, lengths), strict=True)):
            alpha[row, int(steps_of) :] = 0  # which the kernel has not written
            alpha[row, :, 2 * int(labels) + 1 :] = 0
        calls.append([make.values(3, low=-2, high=2), steps, targets, *lengths, loss, alpha, *options])
    return calls


def _scaled(make: Maker) -> list[list[Any]]:
    """Products with a bias, with scales of rows and columns, in float32, and of a result in 8 bits.

    But for one with seven columns, torch's Meta kernels let every device have them.
    """
    x = make.values(5, 16)
    y = make.values(16, 16).to(torch.float8_e4m3fn).t()
    one, other, bias = torch.tensor(1.5), torch.tensor(0.25), (torch.arange(16.0) - 7).bfloat16()
    rows, columns = torch.arange(1.0, 6).reshape(5, 1) / 2, torch.arange(1.0, 17).reshape(1, 16) / 8
    return [
        [x, y, one, other, bias, None, torch.bfloat16],
        [x, y, rows, columns, bias, None, torch.bfloat16],
        [x, y, one, other, None, None, torch.float32],
        [x, y[:, :7].contiguous(), one, other],
        [x, y, one, other],
    ]


def _scaled_by_recipe(make: Maker) -> list[list[Any]]:
    """The same with lists of scales: of whole tensors, and of rows and columns."""
    calls = []
    for x, y, one, other, bias, _, dtype in _scaled(make)[:2]:
        recipe = [0] if one.dim() == 0 else [1]
        calls.append([x, y, [one], recipe, [0], [other], recipe, [0], bias, dtype])
    return [*calls, [*calls[0][:8], None, torch.float32]]


def _without_a_row(make: Maker) -> list[list[Any]]:
    """Sums of rows by bags, one of the rows left out."""
    indices, offsets = torch.tensor([4, 1, 0, 3, 1, 2, 4]), torch.tensor([0, 3, 3])
    return [[make.values(5, 3), indices, offsets, False, 0, False, make.values(7), False, 1]]


def _weights_without_one(make: Maker) -> list[list[Any]]:
    (given,) = _without_a_row(make)
    bags = aten._embedding_bag(*given)[1]
    return [[make.values(3, 3), *given[:3], bags, 0, 1]]


def _embedded_without_one(make: Maker) -> list[list[Any]]:
    return [[make.values(6, 3), torch.tensor([4, 1, 0, 3, 1, 2]), 5, 1, False]]


def _solved_from_the_right(make: Maker) -> list[list[Any]]:
    return [[make.matrix(4, 4), make.values(3, 4), {"left": False}]]


def _normalised_without_statistics(make: Maker) -> list[list[Any]]:
    return [[make.values(2, 3, 4), make.positive(3), make.values(3), True, 0.1, 1e-5]]


def _resized_by_other_scales(make: Maker) -> list[list[Any]]:
    """Scales that are not the quotient of the sizes, and choose other elements than it."""
    return [[make.values(1, 2, 5, 7), [5, 7], [1, 2, 3, 4], 1.25, 1.5]]


def _normalised_as_learned(make: Maker) -> list[list[Any]]:
    """The gradient of a normalisation by running statistics, which differ from those of the batch."""
    kept = [make.values(3), make.positive(3), make.values(3), make.positive(3)]
    mask, reserve = [True, True, True], torch.empty(0, dtype=torch.uint8)
    return [
        [make.values(2, 3, 4), make.values(2, 3, 4), make.positive(3), *kept, False, 1e-5, mask, reserve],
    ]


def _drawn(make: Maker) -> list[list[Any]]:
    """Draws with a number for a probability, which operators leave at its default in place."""
    return [[make.values(4, 6), 0.25], [make.values(24), 0.75]]


def _into_segments(make: Maker) -> list[list[Any]]:
    """Segments of each row that offsets and lengths name, which differ between rows."""
    data = make.positive(3, 6, 2)
    offsets = torch.tensor([[0, 2, 3, 6], [0, 1, 5, 6], [0, 3, 4, 6]])
    calls = []
    for reduce, named in (("sum", {"offsets": offsets}), ("max", {"lengths": offsets.diff()})):
        output = aten.segment_reduce(data, reduce, axis=1, **named)
        calls.append([make.values(*output.shape, low=-2, high=2), output, data, reduce, {**named, "axis": 1}])
    return calls


#: The calls, by the overload's name.
TELLING: Mapping[str, Built] = {
    "fractional_max_pool2d": Built("nn.functional.fractional_max_pool2d", _fractional(2)),
    "fractional_max_pool2d_backward": Built("nn.functional.fractional_max_pool2d", _fractional(2, into=True)),
    "fractional_max_pool3d": Built("nn.functional.fractional_max_pool3d", _fractional(3)),
    "fractional_max_pool3d_backward": Built("nn.functional.fractional_max_pool3d", _fractional(3, into=True)),
    "hardshrink_backward": Built("nn.functional.hardshrink", _half_of_them(0.5)),
    "softshrink_backward": Built("nn.functional.softshrink", _half_of_them(0.5)),
    "_cdist_forward": Built("cdist", _distances),
    "_cdist_backward": Built("cdist", _distances_into),
    "isin.Tensor_Tensor": Built("isin", _found_and_not),
    "alias": Built("alias_copy", _matrix),
    "alias_copy": Built("alias_copy", _matrix),
    "lift_fresh": Built("clone", _matrix),
    "t_copy": Built("t_copy", _matrix),
    "slice_scatter": Built("slice_scatter", _into_a_part),
    "scatter.value_reduce": Built("scatter", _scattered),
    "repeat_interleave.Tensor": Built("repeat_interleave", _as_many),
    "searchsorted.Scalar": Built("searchsorted", _searched),
    "_embedding_bag_forward_only": Built("nn.functional.embedding_bag", _without_a_row),
    "_embedding_bag_per_sample_weights_backward": Built("nn.functional.embedding_bag", _weights_without_one),
    "embedding_dense_backward": Built("nn.functional.embedding", _embedded_without_one),
    "_linalg_solve_ex": Built("linalg.solve_ex", _solved_from_the_right),
    "_native_batch_norm_legit.no_stats": Built("nn.functional.instance_norm", _normalised_without_statistics),
    "_upsample_nearest_exact2d_backward": Built(
        "nn.functional.interpolate.nearest-exact", _resized_by_other_scales
    ),
    "batch_norm_backward": Built("nn.functional.batch_norm", _normalised_as_learned),
    "bernoulli.p": Built("nn.functional.dropout", _drawn),
    "_ctc_loss": Built("nn.functional.ctc_loss", _aligned),
    "_ctc_loss.Tensor": Built("nn.functional.ctc_loss", functools.partial(_aligned, tensors=True)),
    "_ctc_loss_backward": Built("nn.functional.ctc_loss", _aligned_into),
    "_ctc_loss_backward.Tensor": Built(
        "nn.functional.ctc_loss", functools.partial(_aligned_into, tensors=True)
    ),
    "_segment_reduce_backward": Built("_segment_reduce.offsets", _into_segments),
    "_scaled_mm": Built("torch._scaled_mm", _scaled),
    "_scaled_mm_v2": Built("torch._scaled_mm_v2", _scaled_by_recipe),
}
