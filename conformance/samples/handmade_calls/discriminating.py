"""Discriminating calls: handmade calls whose result changes if any single argument is misread.

These calls precede the recorded calls in the list of an overload. A check that uses only the first suitable
call therefore uses a discriminating call.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import Build, HandmadeCalls, TensorMaker
from conformance.samples.handmade_calls.fractional_pooling import fractional_pooling_calls

aten = torch.ops.aten


def _fractional_max_pool_calls(dimensions: int, *, backward: bool = False) -> Build:
    """Return a function that makes pooling calls whose windows move if a kernel misreads the random numbers.

    The random numbers are multiples of 1/4, so no dtype rounds them. The input values are distinct, and
    bfloat16 represents all of them exactly. Each window therefore has a unique largest element, and the
    returned indices are specified.
    """

    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        size, pooled = ((13, 15), [5, 5]) if dimensions == 2 else ((7, 7, 5), [3, 3, 3])
        samples = (torch.arange(2 * dimensions) * 3 % 4 / 4).reshape(1, 2, dimensions).to(make.dtype)
        return fractional_pooling_calls(make, size, pooled, samples, backward=backward)

    return argument_lists


def _values_around_limit_calls(limit: float) -> Build:
    """Return a function that makes a call whose values are about half within and half beyond ``limit``."""
    return lambda make: [[make.values(4, 6), make.values(4, 6, low=-2 * limit, high=2 * limit), limit]]


def _cdist_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(3, 4, 5), make.values(3, 6, 5), 2.0, 2]]


def _cdist_backward_calls(make: TensorMaker) -> list[list[Any]]:
    x, y = make.values(3, 4, 5), make.values(3, 6, 5)
    return [[make.values(3, 4, 6), x, y, 2.0, aten._cdist_forward.default(x, y, 2.0, None)]]


def _isin_calls(make: TensorMaker) -> list[list[Any]]:
    """Return isin calls in which each row of test elements matches different elements.

    Checks of argument layouts fill the memory around a tensor with 3, 96 and -96. ``elements`` contains these
    numbers, and ``test_elements`` does not: a kernel that reads this memory finds wrong matches.
    """
    elements = torch.cat([torch.arange(21), torch.tensor([96, -96, 3])]).to(make.dtype).reshape(4, 6)
    test_rows, test_row = [[1, 5, 7, 11], [2, 4, 8, 13], [0, 6, 9, 17]], [5, 7, 11, 13, 17]
    return [[elements, torch.tensor(test_elements).to(make.dtype)] for test_elements in (test_row, test_rows)]


def _distinct_matrix_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.distinct(5, 6)]]


def _slice_scatter_calls(make: TensorMaker) -> list[list[Any]]:
    x = make.distinct(5, 6)
    return [[x, make.values(2, 6), 0, 1, 3, 1], [x, make.values(5, 3), 1, 0, 6, 2]]


def _scatter_with_reduction_calls(make: TensorMaker) -> list[list[Any]]:
    """Return scatter calls whose index rows differ, with distinct indices in each row."""
    x, indices = make.values(5, 6), torch.tensor([[0, 3, 1, 5], [2, 4, 0, 1], [5, 1, 3, 2]])
    return [[x, 1, indices, 2, {"reduce": "multiply"}], [x, 1, indices, 2, {"reduce": "add"}]]


def _repeat_interleave_calls(make: TensorMaker) -> list[list[Any]]:
    """Return repeat_interleave calls whose repetition counts have the same sum but a different order."""
    repetitions, reordered_repetitions = (
        torch.tensor(times).to(make.dtype) for times in ([2, 0, 3, 1], [1, 3, 0, 2])
    )
    return [[repetitions, {"output_size": 6}], [reordered_repetitions]]


def _searchsorted_calls(make: TensorMaker) -> list[list[Any]]:
    """Return searchsorted calls with a number between two elements, and with a number that equals an element.
    For the second number, the results with side left and right differ.
    """
    row = torch.arange(0, 40, 2).to(make.dtype)
    return [[row, 17, {"out_int32": True}], [row, 8, {"right": True}], [row, 8, {"side": "right"}], [row, 8]]


def _ctc_loss_calls(make: TensorMaker, *, tensors: bool = False) -> list[list[Any]]:
    """Return ctc_loss calls: full-length sequences, then shorter sequences with a different ``blank``.

    With ``zero_infinity``, the last sequence is too short for its target. In the other calls, all
    sequences are long enough, because the gradient of an infinite loss is undocumented.
    """
    steps = make.values(41, 3, 6).log_softmax(-1)
    targets = torch.tensor([[1, 2, 5, 4], [4, 4, 1, 2], [5, 2, 1, 5]])
    flat = torch.tensor([0, 1, 4, 2, 2, 5, 1])
    long: list[Any] = [[41, 41, 41], [4, 4, 4]]
    short: list[Any] = [[40, 7, 2], [2, 2, 3]]
    long_enough: list[Any] = [[40, 7, 9], [2, 2, 3]]
    if tensors:
        long, short, long_enough = (
            [torch.tensor(length_list) for length_list in lengths] for lengths in (long, short, long_enough)
        )
    return [[steps, targets, *long], [steps, flat, *short, 3, True], [steps, flat, *long_enough, 3]]


def _ctc_loss_backward_calls(make: TensorMaker, *, tensors: bool = False) -> list[list[Any]]:
    calls = []
    for steps, targets, *rest in _ctc_loss_calls(make, tensors=tensors):
        lengths, options = rest[:2], [*rest[2:], *(0, False)[len(rest) - 2 :]]
        loss, alpha = aten._ctc_loss(steps, targets, *map(list, lengths), *options)
        for row, (steps_of, labels) in enumerate(zip(*map(list, lengths), strict=True)):
            alpha[row, int(steps_of) :] = 0  # the forward kernel leaves these elements unwritten
            alpha[row, :, 2 * int(labels) + 1 :] = 0
        calls.append([make.values(3, low=-2, high=2), steps, targets, *lengths, loss, alpha, *options])
    return calls


def _scaled_mm_calls(make: TensorMaker) -> list[list[Any]]:
    """Return calls of scaled products: with a bias, with row and column scales, with a float32 result, and
    with an 8-bit result.

    torch's Meta kernels accept all calls on every device, except the product with seven columns.
    """
    x = make.values(5, 16)
    y = make.values(16, 16).to(torch.float8_e4m3fn).t()
    left_scale, right_scale, bias = torch.tensor(1.5), torch.tensor(0.25), (torch.arange(16.0) - 7).bfloat16()
    rows, columns = torch.arange(1.0, 6).reshape(5, 1) / 2, torch.arange(1.0, 17).reshape(1, 16) / 8
    return [
        [x, y, left_scale, right_scale, bias, None, torch.bfloat16],
        [x, y, rows, columns, bias, None, torch.bfloat16],
        [x, y, left_scale, right_scale, None, None, torch.float32],
        [x, y[:, :7].contiguous(), left_scale, right_scale],
        [x, y, left_scale, right_scale],
    ]


def _scaled_mm_v2_calls(make: TensorMaker) -> list[list[Any]]:
    """Return calls of scaled products with lists of scales: for whole tensors, and for rows and columns."""
    calls = []
    for x, y, left_scale, right_scale, bias, _, dtype in _scaled_mm_calls(make)[:2]:
        recipe = [0] if left_scale.dim() == 0 else [1]
        calls.append([x, y, [left_scale], recipe, [0], [right_scale], recipe, [0], bias, dtype])
    return [*calls, [*calls[0][:8], None, torch.float32]]


def _embedding_bag_with_padding_calls(make: TensorMaker) -> list[list[Any]]:
    """Return an embedding_bag call with mode sum, sample weights and a padding row."""
    indices, offsets = torch.tensor([4, 1, 0, 3, 1, 2, 4]), torch.tensor([0, 3, 3])
    return [[make.values(5, 3), indices, offsets, False, 0, False, make.values(7), False, 1]]


def _sample_weights_backward_with_padding_calls(make: TensorMaker) -> list[list[Any]]:
    (arguments,) = _embedding_bag_with_padding_calls(make)
    bags = aten._embedding_bag(*arguments)[1]
    return [[make.values(3, 3), *arguments[:3], bags, 0, 1]]


def _embedding_backward_with_padding_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(6, 3), torch.tensor([4, 1, 0, 3, 1, 2]), 5, 1, False]]


def _solve_from_the_right_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.matrix(4, 4), make.values(3, 4), {"left": False}]]


def _batch_norm_without_statistics_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(2, 3, 4), make.positive(3), make.values(3), True, 0.1, 1e-5]]


def _upsample_backward_with_scales_calls(make: TensorMaker) -> list[list[Any]]:
    """Return an upsampling backward call with explicit scales.

    The scales differ from the quotients of the sizes. A kernel that uses the quotients reads wrong elements.
    """
    return [[make.values(1, 2, 5, 7), [5, 7], [1, 2, 3, 4], 1.25, 1.5]]


def _batch_norm_backward_in_evaluation_calls(make: TensorMaker) -> list[list[Any]]:
    """Return a backward call of batch normalisation in evaluation mode. The running statistics differ from
    the statistics of the batch.
    """
    statistics = [make.values(3), make.positive(3), make.values(3), make.positive(3)]
    mask, reserve = [True, True, True], torch.empty(0, dtype=torch.uint8)
    return [
        [
            make.values(2, 3, 4),
            make.values(2, 3, 4),
            make.positive(3),
            *statistics,
            False,
            1e-5,
            mask,
            reserve,
        ],
    ]


def _bernoulli_with_probability_calls(make: TensorMaker) -> list[list[Any]]:
    """Return bernoulli calls with an explicit probability, because the recorded in-place calls use the
    default.
    """
    return [[make.values(4, 6), 0.25], [make.values(24), 0.75]]


def _segment_reduce_backward_calls(make: TensorMaker) -> list[list[Any]]:
    """Return segment_reduce backward calls whose offsets or lengths differ between rows."""
    data = make.positive(3, 6, 2)
    offsets = torch.tensor([[0, 2, 3, 6], [0, 1, 5, 6], [0, 3, 4, 6]])
    calls = []
    for reduce, segments in (("sum", {"offsets": offsets}), ("max", {"lengths": offsets.diff()})):
        output = aten.segment_reduce(data, reduce, axis=1, **segments)
        calls.append(
            [make.values(*output.shape, low=-2, high=2), output, data, reduce, {**segments, "axis": 1}]
        )
    return calls


#: Discriminating calls by overload name.
DISCRIMINATING_CALLS: Mapping[str, HandmadeCalls] = {
    "fractional_max_pool2d": HandmadeCalls(
        "nn.functional.fractional_max_pool2d", _fractional_max_pool_calls(2)
    ),
    "fractional_max_pool2d_backward": HandmadeCalls(
        "nn.functional.fractional_max_pool2d", _fractional_max_pool_calls(2, backward=True)
    ),
    "fractional_max_pool3d": HandmadeCalls(
        "nn.functional.fractional_max_pool3d", _fractional_max_pool_calls(3)
    ),
    "fractional_max_pool3d_backward": HandmadeCalls(
        "nn.functional.fractional_max_pool3d", _fractional_max_pool_calls(3, backward=True)
    ),
    "hardshrink_backward": HandmadeCalls("nn.functional.hardshrink", _values_around_limit_calls(0.5)),
    "softshrink_backward": HandmadeCalls("nn.functional.softshrink", _values_around_limit_calls(0.5)),
    "_cdist_forward": HandmadeCalls("cdist", _cdist_calls),
    "_cdist_backward": HandmadeCalls("cdist", _cdist_backward_calls),
    "isin.Tensor_Tensor": HandmadeCalls("isin", _isin_calls),
    "alias": HandmadeCalls("alias_copy", _distinct_matrix_calls),
    "alias_copy": HandmadeCalls("alias_copy", _distinct_matrix_calls),
    "lift_fresh": HandmadeCalls("clone", _distinct_matrix_calls),
    "t_copy": HandmadeCalls("t_copy", _distinct_matrix_calls),
    "slice_scatter": HandmadeCalls("slice_scatter", _slice_scatter_calls),
    "scatter.value_reduce": HandmadeCalls("scatter", _scatter_with_reduction_calls),
    "repeat_interleave.Tensor": HandmadeCalls("repeat_interleave", _repeat_interleave_calls),
    "searchsorted.Scalar": HandmadeCalls("searchsorted", _searchsorted_calls),
    "_embedding_bag_forward_only": HandmadeCalls(
        "nn.functional.embedding_bag", _embedding_bag_with_padding_calls
    ),
    "_embedding_bag_per_sample_weights_backward": HandmadeCalls(
        "nn.functional.embedding_bag", _sample_weights_backward_with_padding_calls
    ),
    "embedding_dense_backward": HandmadeCalls(
        "nn.functional.embedding", _embedding_backward_with_padding_calls
    ),
    "_linalg_solve_ex": HandmadeCalls("linalg.solve_ex", _solve_from_the_right_calls),
    "_native_batch_norm_legit.no_stats": HandmadeCalls(
        "nn.functional.instance_norm", _batch_norm_without_statistics_calls
    ),
    "_upsample_nearest_exact2d_backward": HandmadeCalls(
        "nn.functional.interpolate.nearest-exact", _upsample_backward_with_scales_calls
    ),
    "batch_norm_backward": HandmadeCalls(
        "nn.functional.batch_norm", _batch_norm_backward_in_evaluation_calls
    ),
    "bernoulli.p": HandmadeCalls("nn.functional.dropout", _bernoulli_with_probability_calls),
    "_ctc_loss": HandmadeCalls("nn.functional.ctc_loss", _ctc_loss_calls),
    "_ctc_loss.Tensor": HandmadeCalls(
        "nn.functional.ctc_loss", functools.partial(_ctc_loss_calls, tensors=True)
    ),
    "_ctc_loss_backward": HandmadeCalls("nn.functional.ctc_loss", _ctc_loss_backward_calls),
    "_ctc_loss_backward.Tensor": HandmadeCalls(
        "nn.functional.ctc_loss", functools.partial(_ctc_loss_backward_calls, tensors=True)
    ),
    "_segment_reduce_backward": HandmadeCalls("_segment_reduce.offsets", _segment_reduce_backward_calls),
    "_scaled_mm": HandmadeCalls("torch._scaled_mm", _scaled_mm_calls),
    "_scaled_mm_v2": HandmadeCalls("torch._scaled_mm_v2", _scaled_mm_v2_calls),
}
