"""Check interpolation, ``grid_sample``, padding, folding and shuffling: known values, symmetry, errors."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}


def _basis_context_of_mode(lab: Lab, mode: str) -> contextlib.AbstractContextManager[None]:
    """Return the context for results that an ``interpolate`` mode computes from several elements: basis
    parity for bicubic, and the basis of the behaviour for other modes.
    """
    if mode == "bicubic":
        return lab.parity("The page does not give the kernel of bicubic interpolation")
    return contextlib.nullcontext()


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.interpolate.html",
)
def interpolation(lab: Lab) -> None:
    """Interpolation of a constant returns the constant. Known inputs give known intermediate values. A
    flipped input gives a flipped result. The sizes and the equivalent scale factors give equal results.
    """
    row = lab.put([[[0.0, 2.0, 4.0]]], dtype=lab.dtype)
    lab.expect("nearest", F.interpolate(row, scale_factor=2), [[[0.0, 0.0, 2.0, 2.0, 4.0, 4.0]]])
    lab.expect(
        "linear with corners",
        F.interpolate(row, size=5, mode="linear", align_corners=True),
        [[[0.0, 1.0, 2.0, 3.0, 4.0]]],
        roundings=8,
    )
    lab.expect(
        "linear",
        F.interpolate(row, scale_factor=2, mode="linear"),
        [[[0.0, 0.5, 1.5, 2.5, 3.5, 4.0]]],
        roundings=8,
    )
    lab.expect("nearest down", F.interpolate(row, size=2), [[[0.0, 2.0]]])
    lab.expect(
        "nearest-exact down",
        F.interpolate(
            lab.put([[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]], dtype=lab.dtype), size=3, mode="nearest-exact"
        ),
        [[[1.0, 3.0, 5.0]]],
    )
    lab.expect("area", F.interpolate(row, size=1, mode="area"), [[[2.0]]], roundings=8)
    for dims, modes in MODES.items():
        ones = torch.ones(1, 2, *(3,) * dims, device=lab.device, dtype=lab.dtype)
        # With odd sizes, no sampling position of mode nearest-exact lies halfway between two elements.
        x = lab.floats(2, 2, *(5, 3, 5)[:dims], requires_grad=True)
        for mode in modes:
            corners: tuple[Any, ...] = (None,) if "nearest" in mode else (True, False)
            for align in corners:
                label = f"{mode}, {dims}, {align}"
                for factor in (0.5, 1.0, 1.7, 2.0):
                    y = F.interpolate(ones, scale_factor=factor, mode=mode, align_corners=align)
                    lab.holds(
                        f"interpolation of a constant returns the constant, {label}, {factor}",
                        bool(((y - 1).abs() < 1e-5).all()),
                    )
                y = F.interpolate(x, size=(7, 5, 6)[:dims], mode=mode, align_corners=align)
                with _basis_context_of_mode(lab, mode):
                    lab.close(label, y, roundings=64)
                    lab.close(
                        f"gradient, {label}", torch.autograd.grad(y, x, lab.floats(*y.shape)), roundings=256
                    )
                by_size = F.interpolate(
                    x, size=[2 * size for size in x.shape[2:]], mode=mode, align_corners=align
                )
                by_factor = F.interpolate(x, scale_factor=2.0, mode=mode, align_corners=align)
                lab.holds(
                    f"size and scale_factor give the same result, {label}",
                    torch.allclose(by_size, by_factor, rtol=1e-4, atol=1e-5),
                )
                same = F.interpolate(x, size=x.shape[2:], mode=mode, align_corners=align)
                lab.holds(
                    f"interpolation to the input's size returns the input, {label}",
                    torch.allclose(same, x, rtol=1e-4, atol=1e-5),
                )
                with_recomputed_factor = F.interpolate(
                    x, scale_factor=1.7, mode=mode, align_corners=align, recompute_scale_factor=True
                )
                with _basis_context_of_mode(lab, mode):
                    lab.close(
                        f"with recompute_scale_factor=True, {label}", with_recomputed_factor, roundings=64
                    )
    flat = torch.zeros(1, 1, 3, 3, device=lab.device, dtype=lab.dtype)
    flat[0, 0, 1, 1] = 1
    y = F.interpolate(flat, scale_factor=3, mode="bilinear")
    lab.holds(
        "upsampling a centered point is symmetric",
        torch.allclose(y, y.flip(2), atol=1e-5)
        and torch.allclose(y, y.flip(3), atol=1e-5)
        and torch.allclose(y, y.mT, atol=1e-5),
    )
    last = lab.floats(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    for mode in ("nearest", "bilinear", "bicubic"):
        with _basis_context_of_mode(lab, mode):
            lab.close(f"channels last, {mode}", F.interpolate(last, scale_factor=2, mode=mode), roundings=64)
            lab.close(
                f"contiguous, {mode}",
                F.interpolate(last.contiguous(), scale_factor=2, mode=mode),
                roundings=64,
            )
    for mode in ("bilinear", "bicubic"):
        lab.close(
            f"smoothed, {mode}",
            F.interpolate(lab.floats(1, 2, 8, 6, low=0), size=(3, 4), mode=mode, antialias=True),
            roundings=64,
        )
    tiny = F.interpolate(lab.floats(1, 1, 2, 2), scale_factor=0.6, mode="bilinear")
    lab.same("a small factor", tiny.shape)


@behaviour(
    "nn",
    must_detect=("error",),
    page="generated/torch.nn.functional.interpolate.html",
    ground="The pages state the accepted sizes, shapes and modes; they do not say which error follows",
)
def refusals_of_resampling(lab: Lab) -> None:
    """Interpolation, grid sampling, padding, folding and shuffling raise an error for invalid sizes, modes
    and dtypes.
    """
    x = lab.floats(1, 2, 4, 4)
    lab.raises("neither size nor factor", lambda: F.interpolate(x), ValueError)
    lab.raises("both", lambda: F.interpolate(x, size=3, scale_factor=2), ValueError)
    with lab.parity("No page says that the call is an error"):
        lab.raises("a size of zero", lambda: F.interpolate(x, size=0))
    with lab.parity("The page says only that align_corners has no effect for this mode"):
        lab.raises("corners of nearest", lambda: F.interpolate(x, size=3, align_corners=True), ValueError)
    lab.raises("linear of images", lambda: F.interpolate(x, size=3, mode="linear"), NotImplementedError)
    with lab.parity("No page says that the call is an error"):
        lab.raises("a size too many", lambda: F.interpolate(x, size=(3, 3, 3)), ValueError)
    lab.raises("an unknown mode", lambda: F.interpolate(x, size=3, mode="other"), NotImplementedError)
    lab.raises("antialias with mode nearest", lambda: F.interpolate(x, size=3, antialias=True), ValueError)
    grid = lab.floats(1, 3, 3, 2)
    lab.raises("a grid of another batch size", lambda: F.grid_sample(x, lab.floats(2, 3, 3, 2)))
    lab.raises("a grid with three coordinates for an image", lambda: F.grid_sample(x, lab.floats(1, 3, 3, 3)))
    with lab.parity("No page says that the call is an error"):
        lab.raises("a grid of another dtype", lambda: F.grid_sample(x, grid.half()))
    lab.raises("a grid with a wrong number of dimensions", lambda: F.grid_sample(x, lab.floats(1, 3, 2)))
    lab.raises("grid_sample with an unknown mode", lambda: F.grid_sample(x, grid, mode="other"), ValueError)
    lab.raises(
        "grid_sample with an unknown padding mode",
        lambda: F.grid_sample(x, grid, padding_mode="other"),
        ValueError,
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("an empty image", lambda: F.grid_sample(lab.floats(1, 2, 0, 4), grid))
    lab.raises(
        "bicubic of volumes",
        lambda: F.grid_sample(lab.floats(1, 1, 2, 2, 2), lab.floats(1, 2, 2, 2, 3), mode="bicubic"),
    )
    theta = lab.floats(1, 2, 3)
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "a matrix of integers",
            lambda: F.affine_grid(lab.integers(1, 2, 3, dtype=torch.int64), [1, 1, 2, 2]),
            ValueError,
        )
    lab.raises(
        "affine_grid with a matrix of a wrong shape",
        lambda: F.affine_grid(theta[0], [1, 1, 2, 2]),
        ValueError,
    )
    lab.raises(
        "affine_grid of images with a matrix for volumes",
        lambda: F.affine_grid(lab.floats(1, 3, 4), [1, 1, 2, 2]),
        ValueError,
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "affine_grid with a negative size", lambda: F.affine_grid(theta, [1, 1, 2, -2]), ValueError
        )
    lab.raises("a size of three", lambda: F.affine_grid(theta, [1, 1, 2]), NotImplementedError)
    lab.raises("reflect padding as large as the input", lambda: F.pad(x, (4, 0, 0, 0), mode="reflect"))
    lab.raises(
        "reflection of a scalar",
        lambda: F.pad(lab.put(1.0), (1, 1), mode="reflect"),
        RuntimeError,
        NotImplementedError,
    )
    lab.raises("an odd number of paddings", lambda: F.pad(x, (1, 1, 1)))
    lab.raises("more paddings than dimensions", lambda: F.pad(lab.floats(3), (1, 1, 1, 1)))
    lab.raises(
        "an unknown padding", lambda: F.pad(x, (1, 1), mode="other"), NotImplementedError, RuntimeError
    )
    lab.raises("circular beyond the input", lambda: F.pad(x, (5, 5, 0, 0), mode="circular"))
    with lab.parity("No page says that the call is an error"):
        lab.raises("cut below nothing", lambda: F.pad(x, (-3, -3)))
    lab.raises("blocks that do not fit", lambda: F.fold(lab.floats(1, 6, 10), (4, 5), (2, 2)))
    lab.raises("blocks of another count", lambda: F.fold(lab.floats(1, 12, 11), (4, 5), (2, 2)))
    lab.raises(
        "unfolding two dimensions", lambda: F.unfold(lab.floats(3, 4), (2, 2)), RuntimeError, IndexError
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("a block larger than the image", lambda: F.unfold(x, (6, 6)))
    lab.raises(
        "pixel_shuffle of channels that are not divisible", lambda: F.pixel_shuffle(lab.floats(1, 3, 2, 2), 2)
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("shuffling by nothing", lambda: F.pixel_shuffle(lab.floats(1, 4, 2, 2), 0))
    lab.raises(
        "pixel_unshuffle of sizes that are not divisible",
        lambda: F.pixel_unshuffle(lab.floats(1, 1, 3, 2), 2),
    )
    lab.raises(
        "channel_shuffle with groups that do not divide the channels",
        lambda: F.channel_shuffle(lab.floats(1, 3, 2, 2), 2),
    )
    lab.raises("unflattening to another size", lambda: nn.Unflatten(1, (3, 3))(lab.floats(2, 8)))
    with lab.parity("No page says that the call is an error"):
        lab.raises("unflattening without a size", lambda: nn.Unflatten("a", 5), TypeError)  # type: ignore[arg-type]


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.grid_sample.html",
)
def sampled_grids(lab: Lab) -> None:
    """``grid_sample`` with an affine grid rotates and moves images, with known values for every padding mode.
    NaN coordinates and coordinates far outside of the image do not raise an error.
    """
    square = lab.put([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=lab.dtype)

    def rotated_square(angle: float) -> torch.Tensor:
        matrix = lab.put(
            [[[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]]],
            dtype=lab.dtype,
        )
        return F.grid_sample(
            square, F.affine_grid(matrix, [1, 1, 2, 2], align_corners=True), align_corners=True
        )

    lab.expect("not turned", rotated_square(0.0), square.tolist(), roundings=32)
    lab.expect("turned by a quarter", rotated_square(math.pi / 2), [[[[2.0, 4.0], [1.0, 3.0]]]], roundings=64)
    lab.close("turned by an eighth", rotated_square(math.pi / 4), roundings=64)
    volume = lab.floats(1, 1, 3, 3, 3)
    three = lab.put(torch.eye(4)[None, :3], dtype=lab.dtype)
    lab.close(
        "a volume sampled at its own positions",
        F.grid_sample(
            volume, F.affine_grid(three, [1, 1, 3, 3, 3], align_corners=False), align_corners=False
        ),
        roundings=64,
    )
    for dims in (2, 3):
        image = lab.floats(2, 2, *(4, 5, 3)[:dims], requires_grad=True)
        grid = lab.floats(2, *(3, 4, 2)[:dims], dims, low=-1.3, high=1.3, requires_grad=True)
        for mode in ("bilinear", "nearest", "bicubic") if dims == 2 else ("bilinear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                for align in (True, False):
                    y = F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=align)
                    label = f"{mode}, {padding}, {align}, {dims}"
                    lab.close(label, y, roundings=256)
                    output_gradient = lab.floats(*y.shape)
                    lab.close(
                        f"gradient of the image, {label}",
                        torch.autograd.grad(y, image, output_gradient),
                        roundings=512,
                    )
    far = lab.put([[[[1e6, 0.0], [-1e6, -1e6]]]], dtype=lab.dtype)
    lab.expect(
        "zeros at coordinates far outside", F.grid_sample(square, far, align_corners=True), [[[[0.0, 0.0]]]]
    )
    lab.expect(
        "the border value at coordinates far outside",
        F.grid_sample(square, far, padding_mode="border", align_corners=True),
        [[[[3.0, 1.0]]]],
    )
    strange = lab.put([[[[math.nan, 0.0], [math.inf, -math.inf], [0.0, math.nan]]]], dtype=lab.dtype)
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            lab.same(
                f"shape at NaN, {mode}, {padding}",
                F.grid_sample(square, strange, mode=mode, padding_mode=padding, align_corners=True).shape,
            )
    middle = lab.put([[[[0.0, 0.0]]]], dtype=lab.dtype)
    lab.expect(
        "the value at the center is the mean",
        F.grid_sample(square, middle, align_corners=False),
        [[[[2.5]]]],
        roundings=8,
    )


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "complex64", "int64"),
    must_detect=("value",),
    page="generated/torch.nn.functional.pad.html",
)
def paddings(lab: Lab) -> None:
    """Padding in the modes constant, reflect, replicate and circular copies the correct elements. Negative
    amounts crop.
    """
    row = lab.put([[[1, 2, 3, 4]]], dtype=lab.dtype)
    lab.expect("zeros", F.pad(row, (1, 2)), [[[0, 1, 2, 3, 4, 0, 0]]])
    lab.expect("another value", F.pad(row, (1, 0), value=7), [[[7, 1, 2, 3, 4]]])
    with lab.parity("the page mentions negative amounts only for circular padding, not for constant padding"):
        lab.expect("cut", F.pad(row, (-1, 1)), [[[2, 3, 4, 0]]])
    lab.expect("in a circle", F.pad(row, (2, 1), mode="circular"), [[[3, 4, 1, 2, 3, 4, 1]]])
    if lab.dtype != torch.int64:
        lab.expect("reflected", F.pad(row, (2, 1), mode="reflect"), [[[3, 2, 1, 2, 3, 4, 3]]])
        lab.expect("replicated", F.pad(row, (2, 1), mode="replicate"), [[[1, 1, 1, 2, 3, 4, 4]]])
    for dims in (2, 3):
        x = lab.integers(2, 2, *(4, 5, 3)[:dims])
        amounts = (1, 2, 2, 1, 1, 1)[: 2 * dims]
        for mode in (
            ("constant", "circular")
            if lab.dtype == torch.int64
            else ("constant", "reflect", "replicate", "circular")
        ):
            lab.same(f"{mode}, {dims}", F.pad(x, amounts, mode=mode))
    image = lab.integers(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    padded = F.pad(image, (1, 1))
    lab.same("channels last", padded)
    with lab.parity("No page says that padding keeps the memory format"):
        lab.holds("padding keeps channels_last", padded.is_contiguous(memory_format=torch.channels_last))
    unpadded = F.pad(row, (0, 0))
    lab.same("nothing to pad", unpadded)
    with lab.parity("No page says that padding by nothing makes a copy"):
        lab.apart("the tensor and the result without padding", row, unpadded)
    lab.same("a list", F.pad(row, [1, 1]))


@behaviour(
    "nn",
    level="core",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.Fold.html",
)
def folding_and_shuffling(lab: Lab) -> None:
    """``unfold`` extracts blocks, and ``fold`` adds blocks. ``pixel_shuffle`` moves channels to space, and
    ``pixel_unshuffle`` moves them back.
    """
    x = lab.integers(2, 3, 4, 5, requires_grad=True)
    for options in (
        {"kernel_size": 2},
        {"kernel_size": (2, 3), "stride": 2, "padding": 1},
        {"kernel_size": 2, "dilation": 2},
    ):
        blocks = F.unfold(x, **options)
        lab.same(f"blocks, {options}", blocks)
        back = F.fold(blocks, (4, 5), **options)
        lab.same(f"added up, {options}", back)
        lab.same(f"gradient, {options}", torch.autograd.grad(back.square().sum(), x))
        with lab.parity("The page of unfold says that only inputs with four dimensions are supported"):
            lab.same(f"without a batch, {options}", F.fold(F.unfold(x[0], **options), (4, 5), **options))
    y = lab.integers(1, 8, 2, 3)
    lab.same("shuffled", F.pixel_shuffle(y, 2))
    lab.same("and back", (F.pixel_unshuffle(F.pixel_shuffle(y, 2), 2), y))
    lab.same("of more dimensions", F.pixel_shuffle(lab.integers(2, 2, 4, 3, 3), 2))
    lab.expect(
        "known",
        F.pixel_shuffle(lab.put([[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]), 2),
        [[[[1.0, 2.0], [3.0, 4.0]]]],
    )
    groups = F.channel_shuffle(lab.put([[[1.0], [2.0], [3.0], [4.0]]]), 2)
    lab.expect("channels shuffled", groups, [[[1.0], [3.0], [2.0], [4.0]]])
    for layout in (torch.contiguous_format, torch.channels_last):
        lab.same(
            f"channels shuffled in {layout}",
            F.channel_shuffle(lab.integers(2, 6, 3, 2).contiguous(memory_format=layout), 3),
        )
    images = lab.integers(2, 3, 2)
    lab.same("one group", F.channel_shuffle(images, 1) + 0)
    lab.same("flattened", (nn.Flatten()(x), nn.Flatten(2)(x), nn.Flatten(0, 1)(x)))
    lab.same("unflattened", (nn.Unflatten(1, (2, 4))(y), nn.Unflatten(-1, (3, 1))(y)))
