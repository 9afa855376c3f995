"""Identity calls: handmade calls whose result equals an argument, such as products with one or resizing to
the same size.

A kernel that skips such work may wrongly return the argument's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import Build, HandmadeCalls, TensorMaker


def _identity_matrix(make: TensorMaker, *batch: int, size: int = 4) -> torch.Tensor:
    return torch.eye(size).expand(*batch, size, size).to(make.dtype).contiguous()


def _resize_to_same_size_calls(dimensions: int, *options: Any) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        size = (5, 3, 4)[-dimensions:]
        return [[make.distinct(1, 2, *size), list(size), *options]]

    return argument_lists


def _max_pool_backward_calls(dimensions: int) -> Build:
    """Return a function that makes pooling backward calls with windows of one element: their result equals
    the gradient argument.
    """

    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        shape = (1, 2, *(5, 3, 4)[-dimensions:])
        indices = torch.arange(torch.Size(shape[2:]).numel()).reshape(shape[2:]).expand(shape).contiguous()
        return [[make.distinct(*shape), make.distinct(*shape), indices]]

    return argument_lists


def _log_sigmoid_backward_calls(make: TensorMaker) -> list[list[Any]]:
    """Return a logsigmoid backward call at values with the derivative 1: the result equals the gradient
    argument.
    """
    below = torch.full((3, 4), -64.0, dtype=make.dtype)
    return [[make.values(3, 4), below, torch.ops.aten.log_sigmoid_forward(below)[1]]]


def _pool_with_single_elements_calls(dimensions: int) -> Build:
    return lambda make: [[make.distinct(1, 2, *(5, 3, 4)[-dimensions:]), [1] * dimensions]]


def _grid_sample_calls(make: TensorMaker) -> list[list[Any]]:
    rows, columns = (torch.linspace(-1, 1, steps) for steps in (5, 9))
    grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], dim=-1)
    return [[make.distinct(1, 2, 5, 9), grid[None].to(make.dtype), 0, 0, True]]


def _weight_norm_calls(make: TensorMaker) -> list[list[Any]]:
    v = make.values(4, 5)
    return [[v, torch.ops.aten._weight_norm_interface.default(v, torch.ones(4, 1, dtype=v.dtype))[1]]]


def _ormqr_calls(make: TensorMaker) -> list[list[Any]]:
    return [[_identity_matrix(make), torch.zeros(4, dtype=make.dtype), make.values(4, 3)]]


def _topk_of_sorted_calls(make: TensorMaker) -> list[list[Any]]:
    return [[make.distinct(2, 6).sort(descending=True).values, 6]]


_INTERPOLATION = "nn.functional.interpolate"
_MAX_POOL = "nn.functional.adaptive_max_pool"

#: Identity calls by overload name.
IDENTITY_CALLS: Mapping[str, HandmadeCalls] = {
    "mm": HandmadeCalls("mm", lambda m: [[m.values(3, 4), _identity_matrix(m)]]),
    "bmm": HandmadeCalls("bmm", lambda m: [[m.values(2, 3, 4), _identity_matrix(m, 2)]]),
    "addmm": HandmadeCalls(
        "addmm", lambda m: [[torch.zeros(3, 4, dtype=m.dtype), m.values(3, 4), _identity_matrix(m)]]
    ),
    "baddbmm": HandmadeCalls(
        "baddbmm",
        lambda m: [[torch.zeros(2, 3, 4, dtype=m.dtype), m.values(2, 3, 4), _identity_matrix(m, 2)]],
    ),
    "ormqr": HandmadeCalls("ormqr", _ormqr_calls),
    "rsub.Tensor": HandmadeCalls("rsub", lambda m: [[torch.zeros(3, 4, dtype=m.dtype), m.values(3, 4)]]),
    "topk": HandmadeCalls("topk", _topk_of_sorted_calls),
    "special_legendre_polynomial_p": HandmadeCalls(
        "special.legendre_polynomial_p", lambda m: [[m.values(3, 4), torch.ones(3, 4, dtype=m.dtype)]]
    ),
    "_weight_norm_interface": HandmadeCalls("linalg.vector_norm", _weight_norm_calls),
    "grid_sampler_2d": HandmadeCalls("nn.functional.grid_sample", _grid_sample_calls),
    "avg_pool2d": HandmadeCalls("nn.functional.avg_pool2d", _pool_with_single_elements_calls(2)),
    "avg_pool3d": HandmadeCalls("nn.functional.avg_pool3d", _pool_with_single_elements_calls(3)),
    "max_pool2d_with_indices": HandmadeCalls("nn.functional.max_pool2d", _pool_with_single_elements_calls(2)),
    "max_pool3d_with_indices": HandmadeCalls("nn.functional.max_pool3d", _pool_with_single_elements_calls(3)),
    "adaptive_max_pool2d": HandmadeCalls(f"{_MAX_POOL}2d", _resize_to_same_size_calls(2)),
    "adaptive_max_pool3d": HandmadeCalls(f"{_MAX_POOL}3d", _resize_to_same_size_calls(3)),
    "adaptive_max_pool2d_backward": HandmadeCalls(f"{_MAX_POOL}2d", _max_pool_backward_calls(2)),
    "adaptive_max_pool3d_backward": HandmadeCalls(f"{_MAX_POOL}3d", _max_pool_backward_calls(3)),
    "log_sigmoid_backward": HandmadeCalls("nn.functional.logsigmoid", _log_sigmoid_backward_calls),
    "_adaptive_avg_pool2d": HandmadeCalls("nn.functional.adaptive_avg_pool2d", _resize_to_same_size_calls(2)),
    "_adaptive_avg_pool3d": HandmadeCalls("nn.functional.adaptive_avg_pool3d", _resize_to_same_size_calls(3)),
    "upsample_nearest1d": HandmadeCalls(f"{_INTERPOLATION}.nearest", _resize_to_same_size_calls(1)),
    "upsample_nearest2d": HandmadeCalls(f"{_INTERPOLATION}.nearest", _resize_to_same_size_calls(2)),
    "upsample_nearest3d": HandmadeCalls(f"{_INTERPOLATION}.nearest", _resize_to_same_size_calls(3)),
    "_upsample_nearest_exact1d": HandmadeCalls(
        f"{_INTERPOLATION}.nearest-exact", _resize_to_same_size_calls(1)
    ),
    "_upsample_nearest_exact2d": HandmadeCalls(
        f"{_INTERPOLATION}.nearest-exact", _resize_to_same_size_calls(2)
    ),
    "_upsample_nearest_exact3d": HandmadeCalls(
        f"{_INTERPOLATION}.nearest-exact", _resize_to_same_size_calls(3)
    ),
    "upsample_linear1d": HandmadeCalls(f"{_INTERPOLATION}.linear", _resize_to_same_size_calls(1, False)),
    "upsample_bilinear2d": HandmadeCalls(f"{_INTERPOLATION}.bilinear", _resize_to_same_size_calls(2, False)),
    "upsample_bicubic2d": HandmadeCalls(f"{_INTERPOLATION}.bicubic", _resize_to_same_size_calls(2, False)),
    "upsample_trilinear3d": HandmadeCalls(
        f"{_INTERPOLATION}.trilinear", _resize_to_same_size_calls(3, False)
    ),
}
