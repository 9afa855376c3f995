"""Large calls of overloads whose small ones cannot be enlarged: sizes go together, or places must differ.

Each has a result of more than 65,536 elements, of fewer if the overload is slow, or of a number that is no
multiple of 16.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import BUILT, Build, Built, Maker
from conformance.samples.handmade_calls.fractional_pooling import fractional_pooling

aten = torch.ops.aten

_COUNT = 65_540


def _places(make: Maker, *, count: int = _COUNT) -> torch.Tensor:
    """Places that all differ, in no order."""
    return (torch.arange(count) * 7919) % count


def _scattered(last: str, *options: Any) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        value: Any = make.values(_COUNT) if last == "src" else 1
        return [[make.values(_COUNT), 0, _places(make), value, *options]]

    return build


def _along_a_dimension(make: Maker) -> list[list[Any]]:
    return [[make.values(_COUNT, 2), 1]]


def _many_sequences(make: Maker, *, tensors: bool = False) -> list[list[Any]]:
    steps, count = make.values(3, _COUNT, 3).log_softmax(-1), _COUNT
    lengths: list[Any] = [[3] * count, [1] * count]
    if tensors:
        lengths = [torch.tensor(one) for one in lengths]
    return [[steps, torch.arange(count).reshape(count, 1) % 2 + 1, *lengths]]


def _matrices(count: int, size: int = 3) -> Build:
    return lambda make: [[make.matrix(count, size, size)]]


def _wide_matrix(make: Maker) -> list[list[Any]]:
    return [[make.matrix(260, 260)]]


def _unpacked(make: Maker) -> list[list[Any]]:
    factors, pivots = torch.linalg.lu_factor(make.matrix(260, 260))
    return [[factors, pivots]]


def _fractional(dimensions: int, *, into: bool = False) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        size, pooled = ((90, 90), [70, 70]) if dimensions == 2 else ((20, 21, 22), [17, 17, 17])
        samples = make.values(1, 2, dimensions, low=0, high=1)
        return fractional_pooling(make, size, pooled, samples, into=into)

    return build


def _adaptive(make: Maker) -> list[list[Any]]:
    return [[make.distinct(1, 1, 45, 45, 45), [41, 41, 41]]]


def _adaptive_into(make: Maker) -> list[list[Any]]:
    x = make.distinct(1, 1, 45, 45, 45)
    pooled, indices = aten.adaptive_max_pool3d.default(x, [41, 41, 41])
    return [[make.values(*pooled.shape), x, indices]]


def _padded(make: Maker) -> list[list[Any]]:
    return [[make.values(1, 1, 44, 44, 44), make.values(1, 1, 42, 42, 42), [1] * 6]]


def _resized_into(make: Maker) -> list[list[Any]]:
    return [[make.values(1, 1, 200, 190), [200, 190], [1, 1, 260, 256], False]]


def _margin_into(make: Maker) -> list[list[Any]]:
    x, target = make.values(33_000, 2), torch.tensor([[0, -1]]).repeat(33_000, 1)
    _, is_target = aten.multilabel_margin_loss_forward.default(x, target, 1)
    return [[make.values(1).reshape(()), x, target, 1, is_target]]


def _bags(make: Maker) -> list[list[Any]]:
    indices, bags = torch.tensor([0, 2, 7999, 1, 2]), torch.tensor([0, 0, 1, 2, 2])
    sizes, none = torch.tensor([2, 1, 2]), torch.zeros(0, dtype=torch.int64)
    return [[make.values(3, 9), indices, bags, sizes, none, 8000, False, 0, None]]


def _one_bag(make: Maker) -> list[list[Any]]:
    return [[make.values(1100, 3), torch.arange(1100), torch.tensor([0])]]


def _weights_of_bags(make: Maker) -> list[list[Any]]:
    weight, indices = make.values(50, 3), torch.arange(_COUNT) % 50
    offsets, options = torch.arange(0, _COUNT, 4), (False, 0, False, make.values(_COUNT))
    _, bags, _, _ = aten._embedding_bag.default(weight, indices, offsets, *options)
    return [[make.values(len(offsets), 3), weight, indices, offsets, bags, 0]]


def _distances_into(make: Maker) -> list[list[Any]]:
    x, y = make.values(60, 80), make.values(40, 80)
    return [[make.values(60, 40), x, y, 2.0, aten._cdist_forward.default(x, y, 2.0, None)]]


def _pairs_into(make: Maker) -> list[list[Any]]:
    x = make.values(260, 256)
    distances = aten._pdist_forward.default(x, 2.0)
    return [[make.values(*distances.shape), x, 2.0, distances]]


def _weight_norm_into(make: Maker) -> list[list[Any]]:
    v, g = make.values(260, 256), make.positive(260, 1)
    _, norms = aten._weight_norm_interface.default(v, g, 0)
    return [[make.values(260, 256), v, g, norms, 0]]


def _convolved(make: Maker) -> list[list[Any]]:
    pair = [1, 1]
    x, weight = make.values(1, 2, 185, 181), make.values(2, 2, 3, 3)
    return [[x, weight, make.values(2), pair, pair, pair, False, [0, 0], 1, False, False, False, False]]


def _sobol(name: str) -> Build:
    def build(make: Maker) -> list[list[Any]]:
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

    return build


def _stacked(make: Maker) -> list[list[Any]]:
    return [[[make.values(_COUNT // 2), make.values(_COUNT // 2)], 0]]


def _running(make: Maker) -> list[list[Any]]:
    x = make.values(5, 13_108)
    return [[x, torch.zeros_like(x), torch.zeros(x.shape, dtype=torch.int64), 0]]


def _tail(make: Maker) -> list[list[Any]]:
    x = torch.zeros(3, 7)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[:, 2] = True
    output = aten._masked_softmax.default(make.values(*x.shape), mask, 1, 2)
    return [[make.values(3, 7), output, mask, 1]]


_INTERPOLATION = "nn.functional.interpolate"
_FRACTIONAL = "nn.functional.fractional_max_pool"
_SCATTER, _REDUCTION = "scatter", "scatter_reduce.sum"


def _like_built(name: str, build: Build) -> Built:
    return Built(BUILT[name].like, build)


#: The calls, by the overload's name.
LARGE: Mapping[str, Built] = {
    "scatter.src": Built(_SCATTER, _scattered("src")),
    "scatter.value": Built(_SCATTER, _scattered("value")),
    "scatter.reduce": Built(_SCATTER, _scattered("src", {"reduce": "add"})),
    "scatter.value_reduce": Built(_SCATTER, _scattered("value", {"reduce": "multiply"})),
    "scatter_add": Built("scatter_add", _scattered("src")),
    "put": Built("put", lambda m: [[m.values(_COUNT), _places(m), m.values(_COUNT)]]),
    "index_copy": Built("index_copy", lambda m: [[m.values(_COUNT), 0, _places(m), m.values(_COUNT)]]),
    "prod.dim_int": Built("prod", _along_a_dimension),
    "max.dim": Built("max.reduction_with_dim", _along_a_dimension),
    "min.dim": Built("min.reduction_with_dim", _along_a_dimension),
    "any.dim": Built("any", _along_a_dimension),
    "all.dim": Built("all", _along_a_dimension),
    "_cummax_helper": _like_built("_cummax_helper", _running),
    "_cummin_helper": _like_built("_cummin_helper", _running),
    "glu": Built("nn.functional.glu", _along_a_dimension),
    "_stack": Built("stack", _stacked),
    "linalg_lu": Built("linalg.lu", _wide_matrix),
    "lu_unpack": Built("lu_unpack", _unpacked),
    "_linalg_solve_ex": Built("linalg.solve", lambda m: [[m.matrix(24, 24), m.values(24, 2750)]]),
    "_linalg_eigh": _like_built("_linalg_eigh", _matrices(22_000)),
    "_linalg_eigvals": _like_built("_linalg_eigvals", _matrices(400)),
    "linalg_eigvals": _like_built("linalg_eigvals", _matrices(400)),
    "_linalg_slogdet": Built("linalg.slogdet", _matrices(4200, 2)),
    "fractional_max_pool2d": Built(f"{_FRACTIONAL}2d", _fractional(2)),
    "fractional_max_pool3d": Built(f"{_FRACTIONAL}3d", _fractional(3)),
    "fractional_max_pool2d_backward": Built(f"{_FRACTIONAL}2d", _fractional(2, into=True)),
    "fractional_max_pool3d_backward": Built(f"{_FRACTIONAL}3d", _fractional(3, into=True)),
    "adaptive_max_pool3d": _like_built("adaptive_max_pool3d", _adaptive),
    "adaptive_max_pool3d_backward": _like_built("adaptive_max_pool3d_backward", _adaptive_into),
    "reflection_pad3d_backward": Built("nn.functional.pad.reflect", _padded),
    "_upsample_bicubic2d_aa_backward": Built(f"{_INTERPOLATION}.bicubic", _resized_into),
    "_upsample_bilinear2d_aa_backward": Built(f"{_INTERPOLATION}.bilinear", _resized_into),
    "upsample_nearest1d": Built(
        f"{_INTERPOLATION}.nearest", lambda m: [[m.values(1, 2, 400), [_COUNT // 2]]]
    ),
    "upsample_nearest3d": Built(
        f"{_INTERPOLATION}.nearest", lambda m: [[m.values(1, 1, 8, 8, 8), [41, 41, 41]]]
    ),
    "multilabel_margin_loss_backward": Built("nn.functional.multilabel_margin_loss", _margin_into),
    "_embedding_bag": Built("nn.functional.embedding_bag", _one_bag),
    "_embedding_bag_dense_backward": _like_built("_embedding_bag_dense_backward", _bags),
    "_embedding_bag_per_sample_weights_backward": Built("nn.functional.embedding_bag", _weights_of_bags),
    "_cdist_backward": Built("cdist", _distances_into),
    "_pdist_backward": Built("nn.functional.pdist", _pairs_into),
    "_weight_norm_interface_backward": _like_built("_weight_norm_interface_backward", _weight_norm_into),
    "_convolution": _like_built("_convolution", _convolved),
    "_masked_softmax_backward": _like_built("_masked_softmax_backward", _tail),
    "_ctc_loss": Built("nn.functional.ctc_loss", _many_sequences),
    "_ctc_loss.Tensor": Built("nn.functional.ctc_loss", functools.partial(_many_sequences, tensors=True)),
    "_functional_assert_async.msg": Built("clone", lambda m: [[m.positive(1), "no", m.values(_COUNT)]]),
    "_unique": _like_built("_unique", lambda m: [[m.distinct(1100), True, True]]),
    "eye.m_out": Built("eye", lambda m: [[260, 256, {"out": torch.ones(260, 256, dtype=m.dtype)}]]),
    "histogram.bin_ct": _like_built("histogram.bin_ct", lambda m: [[m.values(500), 65_541]]),
    "_histogramdd_from_bin_cts": _like_built(
        "_histogramdd_from_bin_cts", lambda m: [[m.values(500, 2), [260, 256]]]
    ),
    "_histogramdd_from_bin_tensors": _like_built(
        "_histogramdd_from_bin_tensors",
        lambda m: [[m.values(50, 2), [torch.linspace(-4, 4, n).to(m.dtype) for n in (261, 257)]]],
    ),
    "_sobol_engine_initialize_state_": _like_built("_sobol_engine_initialize_state_", _sobol("initialize")),
    "_sobol_engine_scramble_": _like_built("_sobol_engine_scramble_", _sobol("scramble")),
    "_sobol_engine_ff_": _like_built("_sobol_engine_ff_", _sobol("ff")),
    "_sobol_engine_draw": _like_built("_sobol_engine_draw", _sobol("draw")),
}
