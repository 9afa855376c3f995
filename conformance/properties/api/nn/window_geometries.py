"""Check convolutions and pooling with windows that are drawn per seed: kernel sizes, strides, paddings,
dilations, groups and numbers of channels.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.model import seeds
from conformance.properties.api._exact_modules import ROUNDINGS, record_close_convolution

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOLS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
#: Largest kernel sizes by number of dimensions. Networks for images and speech use kernels of up to 11.
_LARGEST_KERNEL = {1: 11, 2: 7, 3: 4}
_COUNT = 6


@dataclasses.dataclass(frozen=True)
class SlidingWindow:
    """A sliding window, with one number per dimension in each field."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    #: The size of an input with several positions of the window.
    size: tuple[int, ...]

    def __str__(self) -> str:
        return f"kernel {self.kernel}, stride {self.stride}, padding {self.padding}, dilation {self.dilation}"


def _draw_windows(purpose: str, dims: int) -> Iterator[SlidingWindow]:
    """Yield ``_COUNT`` windows that depend only on the purpose and on the seed of the run.

    The padding is at most half the kernel's size, as pooling demands.
    """
    draw = random.Random(seeds.seed_for(f"windows of {purpose} in {dims} dimensions"))
    for number in range(_COUNT):
        # Every second window is equal in all dimensions, because many kernels support only such windows.
        count = 1 if number % 2 else dims
        # Kernels of size 1 and 3 are the most common ones, and devices often have special algorithms for
        # these sizes.
        kernel = [draw.choice((1, 3, draw.randint(1, _LARGEST_KERNEL[dims]))) for _ in range(count)]
        stride = [draw.randint(1, 4) for _ in range(count)]
        dilation = [draw.randint(1, 3) for _ in range(count)]
        padding = [draw.randint(0, size // 2) for size in kernel]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        size = [r + s * draw.randint(0, 3) + draw.randint(0, 2) for r, s in zip(reach, stride, strict=True)]
        repeat = dims // count
        yield SlidingWindow(*(tuple(field * repeat) for field in (kernel, stride, padding, dilation, size)))


def _draw_groups_and_channels(draw: random.Random, max_channels: int) -> tuple[int, int, int]:
    """Return a number of groups, and the numbers of input and output channels of each group.

    About a third of the results are depthwise: one input channel for each group. Other groups have at
    most ``max_channels`` input channels.
    """
    groups = draw.choice((1, 1, 2, draw.randint(3, 8)))
    per_group = (
        1 if groups > 1 and draw.random() < 0.5 else draw.choice((1, 3, 8, draw.randint(2, max_channels)))
    )
    return groups, per_group, draw.randint(1, 5)


def _compute_drawn_convolutions(
    lab: Lab, dims: int, *, requires_grad: bool
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield a label, the result, the input and the weight of each drawn convolution of whole numbers."""
    draw = random.Random(seeds.seed_for(f"channels in {dims} dimensions"))
    for number, window in enumerate(_draw_windows("convolutions", dims)):
        groups, inputs, outputs = _draw_groups_and_channels(draw, 20 if dims < 3 else 8)
        transposed = number % 3 == 2
        if transposed and dims == 3:  # the result would have up to 50 million elements
            window = dataclasses.replace(window, stride=tuple(min(stride, 2) for stride in window.stride))
        x = lab.integers(2, groups * inputs, *window.size, requires_grad=requires_grad)
        channels = (groups * inputs, outputs) if transposed else (groups * outputs, inputs)
        weight = lab.integers(*channels, *window.kernel, low=-2, high=3, requires_grad=requires_grad)
        function: Any = (_TRANSPOSED if transposed else _CONVOLUTIONS)[dims]
        y = function(
            x,
            weight,
            lab.integers(groups * outputs),
            stride=window.stride,
            padding=window.padding,
            dilation=window.dilation,
            groups=groups,
        )
        kind = "transposed, " if transposed else ""
        yield f"{kind}{window}, {groups} groups of {inputs} to {outputs} channels", y, x, weight


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16"),
    must_detect=("value",),
    page="generated/torch.nn.functional.conv2d.html",
)
def convolutions_with_drawn_windows(lab: Lab) -> None:
    """Convolutions and transposed convolutions are correct for kernels of up to 11 elements (7 in two
    dimensions, 4 in three), strides of up to 4, dilations of up to 3, paddings of up to half the kernel, and
    drawn groups and channels.
    """
    for dims in (1, 2, 3):
        for label, y, _, _ in _compute_drawn_convolutions(lab, dims, requires_grad=False):
            # A device may truncate partial sums to 16 bits a few times.
            roundings = ROUNDINGS if lab.dtype == torch.float32 else 8.0
            lab.close(f"{dims} dimensions: {label}", y, roundings=roundings, matrix=True)


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.conv2d.html",
)
def gradients_of_drawn_windows(lab: Lab) -> None:
    """Gradients of the input and of the weight of convolutions with drawn windows are correct."""
    for dims in (1, 2, 3):
        for label, y, x, weight in _compute_drawn_convolutions(lab, dims, requires_grad=True):
            gradients = torch.autograd.grad(y, (x, weight), lab.integers(*y.shape, low=-2, high=3))
            record_close_convolution(lab, f"{dims} dimensions: {label}", gradients)


@behaviour(
    "nn",
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.functional.max_pool2d.html",
)
def pooling_with_drawn_windows(lab: Lab) -> None:
    """Maximum and average pooling are correct for windows of up to 11 elements (7 in two dimensions, 4 in
    three), strides of up to 4 and paddings of up to half the window, with sizes rounded down or up.
    """
    for dims in (1, 2, 3):
        for number, window in enumerate(_draw_windows("pooling", dims)):
            x = lab.integers(2, 3, *window.size, low=-9, high=10)
            rounded_up = number % 2 == 1
            lab.same(
                f"maximum in {dims} dimensions: {window}",
                _MAX_POOLS[dims](
                    x, window.kernel, window.stride, window.padding, window.dilation, ceil_mode=rounded_up
                ),
            )
            lab.close(
                f"average in {dims} dimensions: {window}",
                _AVG_POOLS[dims](
                    x,
                    window.kernel,
                    window.stride,
                    window.padding,
                    ceil_mode=rounded_up,
                    count_include_pad=number % 3 == 0,
                ),
            )
