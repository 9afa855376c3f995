"""Large handmade calls, for overloads whose small calls cannot be enlarged: sizes depend on each other, or
indices must be distinct.

Each result has more than 65,536 elements, or fewer if the overload is slow. Some of these numbers of elements
are not multiples of 16.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import HANDMADE_CALLS, Build, HandmadeCalls, TensorMaker
from conformance.samples.handmade_calls.fractional_pooling import fractional_pooling_calls

aten = torch.ops.aten

_COUNT = 65_540


def _distinct_indices(make: TensorMaker, *, count: int = _COUNT) -> torch.Tensor:
    """Return distinct indices in a fixed mixed order."""
    return (torch.arange(count) * 7919) % count


def _scatter_calls(last: str, *options: Any) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        value: Any = make.values(_COUNT) if last == "src" else 1
        return [[make.values(_COUNT), 0, _distinct_indices(make), value, *options]]

    return argument_lists


def _last_dimension_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(_COUNT, 2), 1]]


def _ctc_loss_calls(make: TensorMaker, *, tensors: bool = False) -> list[list[Any]]:
    steps, count = make.values(3, _COUNT, 3).log_softmax(-1), _COUNT
    lengths: list[Any] = [[3] * count, [1] * count]
    if tensors:
        lengths = [torch.tensor(length_list) for length_list in lengths]
    return [[steps, torch.arange(count).reshape(count, 1) % 2 + 1, *lengths]]


def _matrices_calls(count: int, size: int = 3) -> Build:
    return lambda make: [[make.matrix(count, size, size)]]


def _large_matrix_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.matrix(260, 260)]]


def _lu_unpack_calls(make: TensorMaker) -> list[list[Any]]:
    factors, pivots = torch.linalg.lu_factor(make.matrix(260, 260))
    return [[factors, pivots]]


def _fractional_max_pool_calls(dimensions: int, *, backward: bool = False) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        size, pooled = ((90, 90), [70, 70]) if dimensions == 2 else ((20, 21, 22), [17, 17, 17])
        samples = make.values(1, 2, dimensions, low=0, high=1)
        return fractional_pooling_calls(make, size, pooled, samples, backward=backward)

    return argument_lists


def _adaptive_max_pool3d_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.distinct(1, 1, 45, 45, 45), [41, 41, 41]]]


def _adaptive_max_pool3d_backward_calls(make: TensorMaker) -> list[list[Any]]:
    x = make.distinct(1, 1, 45, 45, 45)
    pooled, indices = aten.adaptive_max_pool3d.default(x, [41, 41, 41])
    return [[make.values(*pooled.shape), x, indices]]


def _reflection_pad3d_backward_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(1, 1, 44, 44, 44), make.values(1, 1, 42, 42, 42), [1] * 6]]


def _upsample_backward_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(1, 1, 200, 190), [200, 190], [1, 1, 260, 256], False]]


def _multilabel_margin_loss_backward_calls(make: TensorMaker) -> list[list[Any]]:
    x, target = make.values(33_000, 2), torch.tensor([[0, -1]]).repeat(33_000, 1)
    _, is_target = aten.multilabel_margin_loss_forward.default(x, target, 1)
    return [[make.values(1).reshape(()), x, target, 1, is_target]]


def _embedding_bag_dense_backward_calls(make: TensorMaker) -> list[list[Any]]:
    indices, bags = torch.tensor([0, 2, 7999, 1, 2]), torch.tensor([0, 0, 1, 2, 2])
    sizes, none = torch.tensor([2, 1, 2]), torch.zeros(0, dtype=torch.int64)
    return [[make.values(3, 9), indices, bags, sizes, none, 8000, False, 0, None]]


def _embedding_bag_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.values(1100, 3), torch.arange(1100), torch.tensor([0])]]


def _sample_weights_backward_calls(make: TensorMaker) -> list[list[Any]]:
    weight, indices = make.values(50, 3), torch.arange(_COUNT) % 50
    offsets, options = torch.arange(0, _COUNT, 4), (False, 0, False, make.values(_COUNT))
    _, bags, _, _ = aten._embedding_bag.default(weight, indices, offsets, *options)
    return [[make.values(len(offsets), 3), weight, indices, offsets, bags, 0]]


def _cdist_backward_calls(make: TensorMaker) -> list[list[Any]]:
    x, y = make.values(60, 80), make.values(40, 80)
    return [[make.values(60, 40), x, y, 2.0, aten._cdist_forward.default(x, y, 2.0, None)]]


def _pdist_backward_calls(make: TensorMaker) -> list[list[Any]]:
    x = make.values(260, 256)
    distances = aten._pdist_forward.default(x, 2.0)
    return [[make.values(*distances.shape), x, 2.0, distances]]


def _weight_norm_backward_calls(make: TensorMaker) -> list[list[Any]]:
    v, g = make.values(260, 256), make.positive(260, 1)
    _, norms = aten._weight_norm_interface.default(v, g, 0)
    return [[make.values(260, 256), v, g, norms, 0]]


def _convolution_calls(make: TensorMaker) -> list[list[Any]]:
    pair = [1, 1]
    x, weight = make.values(1, 2, 185, 181), make.values(2, 2, 3, 3)
    return [[x, weight, make.values(2), pair, pair, pair, False, [0, 0], 1, False, False, False, False]]


def _sobol_calls(name: str) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        if make.dtype != torch.int64:
            return []
        rows = 2200 if name == "draw" else 1100
        state = torch.zeros(rows, 30, dtype=torch.int64)
        if name == "initialize":
            return [[state, rows]]
        aten._sobol_engine_initialize_state_.default(state, rows)
        if name == "scramble":
            return [[state, make.values(rows, 30, 30, low=0, high=1).tril(), rows]]
        quasi = make.values(rows, low=0, high=2**20)
        if name == "ff":
            return [[quasi, 5, state, rows, 2]]
        return [[quasi, 31, state, rows, 2, torch.float32]]

    return argument_lists


def _stack_calls(make: TensorMaker) -> list[list[Any]]:
    return [[[make.values(_COUNT // 2), make.values(_COUNT // 2)], 0]]


def _running_extreme_calls(make: TensorMaker) -> list[list[Any]]:
    x = make.values(5, 13_108)
    return [[x, torch.zeros_like(x), torch.zeros(x.shape, dtype=torch.int64), 0]]


def _masked_softmax_backward_calls(make: TensorMaker) -> list[list[Any]]:
    x = torch.zeros(3, 7)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[:, 2] = True
    output = aten._masked_softmax.default(make.values(*x.shape), mask, 1, 2)
    return [[make.values(3, 7), output, mask, 1]]


_INTERPOLATION = "nn.functional.interpolate"
_FRACTIONAL = "nn.functional.fractional_max_pool"
_SCATTER, _REDUCTION = "scatter", "scatter_reduce.sum"


def _handmade_calls_with_operator_of(name: str, build: Build) -> HandmadeCalls:
    return HandmadeCalls(HANDMADE_CALLS[name].operator, build)


#: Large calls by overload name.
LARGE_CALLS: Mapping[str, HandmadeCalls] = {
    "scatter.src": HandmadeCalls(_SCATTER, _scatter_calls("src")),
    "scatter.value": HandmadeCalls(_SCATTER, _scatter_calls("value")),
    "scatter.reduce": HandmadeCalls(_SCATTER, _scatter_calls("src", {"reduce": "add"})),
    "scatter.value_reduce": HandmadeCalls(_SCATTER, _scatter_calls("value", {"reduce": "multiply"})),
    "scatter_add": HandmadeCalls("scatter_add", _scatter_calls("src")),
    "put": HandmadeCalls("put", lambda m: [[m.values(_COUNT), _distinct_indices(m), m.values(_COUNT)]]),
    "index_copy": HandmadeCalls(
        "index_copy", lambda m: [[m.values(_COUNT), 0, _distinct_indices(m), m.values(_COUNT)]]
    ),
    "prod.dim_int": HandmadeCalls("prod", _last_dimension_calls),
    "max.dim": HandmadeCalls("max.reduction_with_dim", _last_dimension_calls),
    "min.dim": HandmadeCalls("min.reduction_with_dim", _last_dimension_calls),
    "any.dim": HandmadeCalls("any", _last_dimension_calls),
    "all.dim": HandmadeCalls("all", _last_dimension_calls),
    "_cummax_helper": _handmade_calls_with_operator_of("_cummax_helper", _running_extreme_calls),
    "_cummin_helper": _handmade_calls_with_operator_of("_cummin_helper", _running_extreme_calls),
    "glu": HandmadeCalls("nn.functional.glu", _last_dimension_calls),
    "_stack": HandmadeCalls("stack", _stack_calls),
    "linalg_lu": HandmadeCalls("linalg.lu", _large_matrix_calls),
    "lu_unpack": HandmadeCalls("lu_unpack", _lu_unpack_calls),
    "_linalg_solve_ex": HandmadeCalls("linalg.solve", lambda m: [[m.matrix(24, 24), m.values(24, 2750)]]),
    "_linalg_eigh": _handmade_calls_with_operator_of("_linalg_eigh", _matrices_calls(22_000)),
    "_linalg_eigvals": _handmade_calls_with_operator_of("_linalg_eigvals", _matrices_calls(400)),
    "linalg_eigvals": _handmade_calls_with_operator_of("linalg_eigvals", _matrices_calls(400)),
    "_linalg_slogdet": HandmadeCalls("linalg.slogdet", _matrices_calls(4200, 2)),
    "fractional_max_pool2d": HandmadeCalls(f"{_FRACTIONAL}2d", _fractional_max_pool_calls(2)),
    "fractional_max_pool3d": HandmadeCalls(f"{_FRACTIONAL}3d", _fractional_max_pool_calls(3)),
    "fractional_max_pool2d_backward": HandmadeCalls(
        f"{_FRACTIONAL}2d", _fractional_max_pool_calls(2, backward=True)
    ),
    "fractional_max_pool3d_backward": HandmadeCalls(
        f"{_FRACTIONAL}3d", _fractional_max_pool_calls(3, backward=True)
    ),
    "adaptive_max_pool3d": _handmade_calls_with_operator_of(
        "adaptive_max_pool3d", _adaptive_max_pool3d_calls
    ),
    "adaptive_max_pool3d_backward": _handmade_calls_with_operator_of(
        "adaptive_max_pool3d_backward", _adaptive_max_pool3d_backward_calls
    ),
    "reflection_pad3d_backward": HandmadeCalls("nn.functional.pad.reflect", _reflection_pad3d_backward_calls),
    "_upsample_bicubic2d_aa_backward": HandmadeCalls(f"{_INTERPOLATION}.bicubic", _upsample_backward_calls),
    "_upsample_bilinear2d_aa_backward": HandmadeCalls(f"{_INTERPOLATION}.bilinear", _upsample_backward_calls),
    "upsample_nearest1d": HandmadeCalls(
        f"{_INTERPOLATION}.nearest", lambda m: [[m.values(1, 2, 400), [_COUNT // 2]]]
    ),
    "upsample_nearest3d": HandmadeCalls(
        f"{_INTERPOLATION}.nearest", lambda m: [[m.values(1, 1, 8, 8, 8), [41, 41, 41]]]
    ),
    "multilabel_margin_loss_backward": HandmadeCalls(
        "nn.functional.multilabel_margin_loss", _multilabel_margin_loss_backward_calls
    ),
    "_embedding_bag": HandmadeCalls("nn.functional.embedding_bag", _embedding_bag_calls),
    "_embedding_bag_dense_backward": _handmade_calls_with_operator_of(
        "_embedding_bag_dense_backward", _embedding_bag_dense_backward_calls
    ),
    "_embedding_bag_per_sample_weights_backward": HandmadeCalls(
        "nn.functional.embedding_bag", _sample_weights_backward_calls
    ),
    "_cdist_backward": HandmadeCalls("cdist", _cdist_backward_calls),
    "_pdist_backward": HandmadeCalls("nn.functional.pdist", _pdist_backward_calls),
    "_weight_norm_interface_backward": _handmade_calls_with_operator_of(
        "_weight_norm_interface_backward", _weight_norm_backward_calls
    ),
    "_convolution": _handmade_calls_with_operator_of("_convolution", _convolution_calls),
    "_masked_softmax_backward": _handmade_calls_with_operator_of(
        "_masked_softmax_backward", _masked_softmax_backward_calls
    ),
    "_ctc_loss": HandmadeCalls("nn.functional.ctc_loss", _ctc_loss_calls),
    "_ctc_loss.Tensor": HandmadeCalls(
        "nn.functional.ctc_loss", functools.partial(_ctc_loss_calls, tensors=True)
    ),
    "_functional_assert_async.msg": HandmadeCalls(
        "clone", lambda m: [[m.positive(1), "no", m.values(_COUNT)]]
    ),
    "_unique": _handmade_calls_with_operator_of("_unique", lambda m: [[m.distinct(1100), True, True]]),
    "eye.m_out": HandmadeCalls("eye", lambda m: [[260, 256, {"out": torch.ones(260, 256, dtype=m.dtype)}]]),
    "histogram.bin_ct": _handmade_calls_with_operator_of(
        "histogram.bin_ct", lambda m: [[m.values(500), 65_541]]
    ),
    "_histogramdd_from_bin_cts": _handmade_calls_with_operator_of(
        "_histogramdd_from_bin_cts", lambda m: [[m.values(500, 2), [260, 256]]]
    ),
    "_histogramdd_from_bin_tensors": _handmade_calls_with_operator_of(
        "_histogramdd_from_bin_tensors",
        lambda m: [[m.values(50, 2), [torch.linspace(-4, 4, n).to(m.dtype) for n in (261, 257)]]],
    ),
    "_sobol_engine_initialize_state_": _handmade_calls_with_operator_of(
        "_sobol_engine_initialize_state_", _sobol_calls("initialize")
    ),
    "_sobol_engine_scramble_": _handmade_calls_with_operator_of(
        "_sobol_engine_scramble_", _sobol_calls("scramble")
    ),
    "_sobol_engine_ff_": _handmade_calls_with_operator_of("_sobol_engine_ff_", _sobol_calls("ff")),
    "_sobol_engine_draw": _handmade_calls_with_operator_of("_sobol_engine_draw", _sobol_calls("draw")),
}
