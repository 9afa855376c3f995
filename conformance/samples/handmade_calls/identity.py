"""Calls of overloads that return an argument's values, of products with one and resizing to the same size.

A kernel that leaves out such work may return the argument's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import Build, Built, Maker


def _identity(make: Maker, *batch: int, size: int = 4) -> torch.Tensor:
    return torch.eye(size).expand(*batch, size, size).to(make.dtype).contiguous()


def _of_images(dimensions: int, *options: Any) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        size = (5, 3, 4)[-dimensions:]
        return [[make.distinct(1, 2, *size), list(size), *options]]

    return build


def _into_images(dimensions: int) -> Build:
    """The gradient of a pooling of windows of one element, which is that of the result."""

    def build(make: Maker) -> list[list[Any]]:
        shape = (1, 2, *(5, 3, 4)[-dimensions:])
        places = torch.arange(torch.Size(shape[2:]).numel()).reshape(shape[2:]).expand(shape).contiguous()
        return [[make.distinct(*shape), make.distinct(*shape), places]]

    return build


def _far_below_zero(make: Maker) -> list[list[Any]]:
    """Numbers at which the derivative of logsigmoid is 1."""
    below = torch.full((3, 4), -64.0, dtype=make.dtype)
    return [[make.values(3, 4), below, torch.ops.aten.log_sigmoid_forward(below)[1]]]


def _of_windows(dimensions: int) -> Build:
    return lambda make: [[make.distinct(1, 2, *(5, 3, 4)[-dimensions:]), [1] * dimensions]]


def _sampled(make: Maker) -> list[list[Any]]:
    rows, columns = (torch.linspace(-1, 1, steps) for steps in (5, 9))
    grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], dim=-1)
    return [[make.distinct(1, 2, 5, 9), grid[None].to(make.dtype), 0, 0, True]]


def _weight_norm(make: Maker) -> list[list[Any]]:
    v = make.values(4, 5)
    return [[v, torch.ops.aten._weight_norm_interface.default(v, torch.ones(4, 1, dtype=v.dtype))[1]]]


def _rotated(make: Maker) -> list[list[Any]]:
    return [[_identity(make), torch.zeros(4, dtype=make.dtype), make.values(4, 3)]]


def _sorted(make: Maker) -> list[list[Any]]:
    return [[make.distinct(2, 6).sort(descending=True).values, 6]]


_INTERPOLATION = "nn.functional.interpolate"
_MAX_POOL = "nn.functional.adaptive_max_pool"

#: The calls, by the overload's name.
NEUTRAL: Mapping[str, Built] = {
    "mm": Built("mm", lambda m: [[m.values(3, 4), _identity(m)]]),
    "bmm": Built("bmm", lambda m: [[m.values(2, 3, 4), _identity(m, 2)]]),
    "addmm": Built("addmm", lambda m: [[torch.zeros(3, 4, dtype=m.dtype), m.values(3, 4), _identity(m)]]),
    "baddbmm": Built(
        "baddbmm", lambda m: [[torch.zeros(2, 3, 4, dtype=m.dtype), m.values(2, 3, 4), _identity(m, 2)]]
    ),
    "ormqr": Built("ormqr", _rotated),
    "rsub.Tensor": Built("rsub", lambda m: [[torch.zeros(3, 4, dtype=m.dtype), m.values(3, 4)]]),
    "topk": Built("topk", _sorted),
    "special_legendre_polynomial_p": Built(
        "special.legendre_polynomial_p", lambda m: [[m.values(3, 4), torch.ones(3, 4, dtype=m.dtype)]]
    ),
    "_weight_norm_interface": Built("linalg.vector_norm", _weight_norm),
    "grid_sampler_2d": Built("nn.functional.grid_sample", _sampled),
    "avg_pool2d": Built("nn.functional.avg_pool2d", _of_windows(2)),
    "avg_pool3d": Built("nn.functional.avg_pool3d", _of_windows(3)),
    "max_pool2d_with_indices": Built("nn.functional.max_pool2d", _of_windows(2)),
    "max_pool3d_with_indices": Built("nn.functional.max_pool3d", _of_windows(3)),
    "adaptive_max_pool2d": Built(f"{_MAX_POOL}2d", _of_images(2)),
    "adaptive_max_pool3d": Built(f"{_MAX_POOL}3d", _of_images(3)),
    "adaptive_max_pool2d_backward": Built(f"{_MAX_POOL}2d", _into_images(2)),
    "adaptive_max_pool3d_backward": Built(f"{_MAX_POOL}3d", _into_images(3)),
    "log_sigmoid_backward": Built("nn.functional.logsigmoid", _far_below_zero),
    "_adaptive_avg_pool2d": Built("nn.functional.adaptive_avg_pool2d", _of_images(2)),
    "_adaptive_avg_pool3d": Built("nn.functional.adaptive_avg_pool3d", _of_images(3)),
    "upsample_nearest1d": Built(f"{_INTERPOLATION}.nearest", _of_images(1)),
    "upsample_nearest2d": Built(f"{_INTERPOLATION}.nearest", _of_images(2)),
    "upsample_nearest3d": Built(f"{_INTERPOLATION}.nearest", _of_images(3)),
    "_upsample_nearest_exact1d": Built(f"{_INTERPOLATION}.nearest-exact", _of_images(1)),
    "_upsample_nearest_exact2d": Built(f"{_INTERPOLATION}.nearest-exact", _of_images(2)),
    "_upsample_nearest_exact3d": Built(f"{_INTERPOLATION}.nearest-exact", _of_images(3)),
    "upsample_linear1d": Built(f"{_INTERPOLATION}.linear", _of_images(1, False)),
    "upsample_bilinear2d": Built(f"{_INTERPOLATION}.bilinear", _of_images(2, False)),
    "upsample_bicubic2d": Built(f"{_INTERPOLATION}.bicubic", _of_images(2, False)),
    "upsample_trilinear3d": Built(f"{_INTERPOLATION}.trilinear", _of_images(3, False)),
}
