"""Check resampling in rare cases: small and large scales, exact positions, reduced precision, errors, and
empty tensors.
"""

from __future__ import annotations

import contextlib
import math

import torch
import torch.nn.functional as F
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.Upsample.html",
    ground=(
        "The page of interpolate names the nearest rule of OpenCV; the mean follows from align_corners=False"
    ),
)
def resampling_by_small_scales(lab: Lab) -> None:
    """Bilinear resampling of a 2x2 image to half its size returns the mean. Nearest resampling to fewer
    elements reads only elements of the input. The gradient of nearest resampling is nonzero only for the
    elements that were read.
    """
    image = torch.arange(1.0, 5.0, device=lab.device).reshape(1, 1, 2, 2)
    lab.expect("bilinear", nn.Upsample(scale_factor=0.5, mode="bilinear")(image), [[[[2.5]]]])
    for output_size in (1, 3, 14, 44):
        leaf = torch.ones(1, 1, 45, device=lab.device, requires_grad=True)
        result = F.interpolate(leaf, size=(output_size,), mode="nearest")
        lab.same(f"45 to {output_size}", result.detach())
        result.sum().backward()
        lab.same(f"gradient of resizing 45 elements to {output_size}", leaf.grad)
        read_positions = [math.floor(position * 45 / output_size) for position in range(output_size)]
        lab.expect(
            f"positions that resizing 45 elements to {output_size} reads",
            leaf.grad,
            [[[float(p in read_positions) for p in range(45)]]],
        )


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.functional.interpolate.html",
    ground="The page says that the mode matches the nearest neighbours of PIL and Scikit-Image",
)
def exact_nearest_positions(lab: Lab) -> None:
    """``nearest-exact`` resampling reads the element at the center of each output element, for upsampling and
    downsampling, by scale and by size.
    """
    for scale in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0):
        size = 20
        x = torch.arange(size, dtype=torch.float32, device=lab.device).reshape(1, 1, size)
        count = math.floor(size * scale)
        centers = [(position + 0.5) / scale for position in range(count)]
        # A center may lie on the border of two elements. If the scale is a power of two, the division is
        # exact, and the result is the second element. Other divisions round, so that either element is
        # correct and the position is not checked.
        clear = [p for p in range(count) if scale in (0.25, 0.5) or centers[p] % 1]
        read_positions = [float(min(math.floor(centers[p]), size - 1)) for p in clear]
        by_scale = F.interpolate(x, scale_factor=scale, mode="nearest-exact", recompute_scale_factor=False)
        by_size = F.interpolate(x, size=count, mode="nearest-exact")
        for name, result in ((f"by {scale}", by_scale), (f"to {count}", by_size)):
            lab.same(f"shape, {name}", result.shape)
            numbers = result.flatten().tolist()
            lab.expect(name, [numbers[p] for p in clear], read_positions)


@behaviour(
    "nn",
    dtypes=("bfloat16", "float16"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.interpolate.html",
    basis="consistency",
    ground="The result in reduced precision and the float32 result of the same numbers must agree",
)
def resampling_in_reduced_precision(lab: Lab) -> None:
    """Resampling in reduced precision returns the results and gradients of float32, rounded to the dtype."""
    for mode, shape in (
        ("nearest", (1, 2, 6)),
        ("linear", (1, 2, 6)),
        ("nearest", (1, 2, 6, 5)),
        ("nearest-exact", (1, 2, 6, 5)),
        ("bilinear", (1, 2, 6, 5)),
        ("bicubic", (1, 2, 6, 5)),
        ("trilinear", (1, 2, 4, 3, 5)),
    ):
        for format in (torch.contiguous_format, torch.channels_last):
            if format is torch.channels_last and len(shape) != 4:
                continue
            x = lab.integers(*shape).contiguous(memory_format=format).requires_grad_()
            result = F.interpolate(x, scale_factor=2, mode=mode)
            basis: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if mode == "bicubic":
                basis = lab.parity("The page does not give the kernel of bicubic interpolation")
            with basis:
                lab.close(f"{mode} of {shape}, {format}", result.detach(), roundings=8)
            wide = x.detach().float().requires_grad_()
            expected = F.interpolate(wide, scale_factor=2, mode=mode)
            tolerance = 16 * torch.finfo(lab.dtype).eps
            agree = torch.allclose(result.detach().float(), expected.detach(), rtol=tolerance, atol=tolerance)
            lab.holds(f"{mode} of {shape}, {format} equals the float32 result", agree)
            weights = lab.integers(*result.shape, low=1, high=3)
            (gradient,) = torch.autograd.grad(result, x, weights)
            (wide_gradient,) = torch.autograd.grad(expected, wide, weights.float())
            agree = torch.allclose(gradient.float(), wide_gradient, rtol=tolerance, atol=4 * tolerance)
            basis = (
                lab.parity("The page warns that float16 gradients of these modes may be inaccurate on CUDA")
                if lab.dtype == torch.float16 and "nearest" not in mode
                else contextlib.nullcontext()
            )
            with basis:
                lab.holds(f"the gradient of {mode} of {shape}, {format} equals the float32 gradient", agree)


@behaviour(
    "nn",
    must_detect=("error",),
    page="generated/torch.nn.functional.interpolate.html",
    basis="parity",
    ground="No page says that negative or huge scale factors are an error",
)
def refused_resampling(lab: Lab) -> None:
    """Scale factors that are negative, or so large that the output size overflows, raise an error."""
    x = torch.ones(1, 1, 16, 16, device=lab.device)
    for scale in (1e20, -1e20):
        for mode in ("bilinear", "bicubic", "nearest"):
            lab.raises(f"{mode} by {scale}", lambda s=scale, m=mode: F.interpolate(x, scale_factor=s, mode=m))  # type: ignore[misc]


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.ChannelShuffle.html")
def shuffled_channels_of_none(lab: Lab) -> None:
    """``channel_shuffle`` of an empty tensor returns an empty tensor of the same shape. With one group it
    preserves all elements.
    """
    none = lab.floats(0, 9, 4, 4)
    lab.same("of none", nn.ChannelShuffle(3)(none))
    lab.holds(
        "channel_shuffle keeps the shape of an empty tensor", nn.ChannelShuffle(3)(none).shape == none.shape
    )
    x = lab.integers(1, 6, 2, 2)
    lab.holds("channel_shuffle with one group returns its input", torch.equal(F.channel_shuffle(x, 1), x))
    lab.same("of three groups", F.channel_shuffle(x, 3) * 1)
