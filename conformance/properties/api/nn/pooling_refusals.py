"""Check pooling to an output size of zero, and pooling windows as wide as the input or wider."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from conformance.behaviours.behaviour import FLOATS, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("error",),
    page="generated/torch.nn.AdaptiveAvgPool2d.html",
    ground="The result has the requested size; no page mentions zero",
)
def pooling_to_nothing(lab: Lab) -> None:
    """Adaptive and fractional pooling to a size of zero returns a result without elements. The backward pass
    of adaptive pooling to a size of zero raises an error.
    """
    call: Any  # a pooling function of one, two or three dimensions
    for name, call, shape, size in (
        ("mean of a line", F.adaptive_avg_pool1d, (2, 3, 8), (0,)),
        ("mean of a plane", F.adaptive_avg_pool2d, (2, 3, 8, 8), (0, 2)),
        ("mean of a volume", F.adaptive_avg_pool3d, (2, 3, 8, 4, 4), (0, 2, 2)),
        ("maximum of a line", F.adaptive_max_pool1d, (2, 3, 8), (0,)),
        ("maximum of a plane", F.adaptive_max_pool2d, (2, 3, 8, 8), (0, 2)),
        ("maximum of a volume", F.adaptive_max_pool3d, (2, 3, 8, 4, 4), (0, 2, 2)),
    ):
        x = lab.integers(*shape, requires_grad=True)
        out = call(x, size)
        lab.same(f"shape, {name}", (out.shape, out.dtype))
        with lab.parity("No page says that the backward pass of an empty result is an error"):
            lab.raises(f"gradient, {name}", lambda: out.sum().backward(), match="non-zero size")
    plane, volume = lab.integers(2, 3, 8, 8), lab.integers(2, 3, 8, 4, 4)
    lab.same("fractional, of a plane", F.fractional_max_pool2d(plane, 2, output_size=(0, 2)).shape)
    lab.same("fractional, of a volume", F.fractional_max_pool3d(volume, 2, output_size=(0, 2, 2)).shape)


@behaviour("nn", dtypes=FLOATS, must_detect=("value", "error"), page="generated/torch.nn.MaxPool2d.html")
def wide_windows(lab: Lab) -> None:
    """A pooling window as wide as its input returns the mean or maximum of the whole input. A wider window
    raises an error.
    """
    x = lab.integers(1, 2, 60, 60)
    lab.expect("maximum", F.max_pool2d(x, 60), x.cpu().amax((2, 3), keepdim=True))
    whole = lab.put([[1.0, 2.0], [3.0, 6.0]], dtype=lab.dtype).repeat(8, 8).view(1, 1, 16, 16)
    lab.expect("mean", F.avg_pool2d(whole, 16), [[[[3.0]]]], roundings=4)
    lab.expect("mean over all", F.adaptive_avg_pool2d(whole, 1), [[[[3.0]]]], roundings=4)
    volume = whole.view(1, 1, 4, 8, 8)
    lab.expect("maximum of a volume", F.max_pool3d(volume, (4, 8, 8)), [[[[[6.0]]]]])
    with lab.parity("No page says that a window larger than the input is an error"):
        lab.raises("a window wider than its input", lambda: F.max_pool2d(x, 61))
