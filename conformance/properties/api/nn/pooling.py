"""Check pooling: known values, indices, unpooling, output sizes, empty input, memory formats, and errors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

INF, NAN = float("inf"), float("nan")
#: Grounds of parity.
_DIVISOR = "The formula divides by the window size; no page gives the divisor of a window beyond the end"
_WINDOWS = "No page says over which windows adaptive pooling runs"
_SMALLER_SIZE = "No page says that unpooling accepts a size that pooling does not map to the input's size"
#: Pooling functions by number of spatial dimensions. They are untyped, because torch's type stubs lack
#: some types of the functions' arguments.
AVERAGE: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
MAXIMUM: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
ADAPTIVE_AVERAGE: dict[int, Any] = {
    1: F.adaptive_avg_pool1d,
    2: F.adaptive_avg_pool2d,
    3: F.adaptive_avg_pool3d,
}
ADAPTIVE_MAXIMUM: dict[int, Any] = {
    1: F.adaptive_max_pool1d,
    2: F.adaptive_max_pool2d,
    3: F.adaptive_max_pool3d,
}


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.AvgPool2d.html",
)
def average_pooling(lab: Lab) -> None:
    """Average pooling divides the sum over a window by the window size or by ``divisor_override``.
    ``count_include_pad`` selects whether the window size includes the padding.
    """
    x = lab.put([[[0.0, 4.0, 8.0, 12.0, 20.0]]], dtype=lab.dtype)
    lab.expect("windows of two", F.avg_pool1d(x, 2), [[[2.0, 10.0]]])
    with lab.parity(_DIVISOR):
        lab.expect("with ceil_mode", F.avg_pool1d(x, 2, ceil_mode=True), [[[2.0, 10.0, 20.0]]])
    z = x + 2
    lab.expect("padding counts", F.avg_pool1d(z, 2, padding=1), [[[1.0, 8.0, 18.0]]])
    lab.expect("or does not", F.avg_pool1d(z, 2, padding=1, count_include_pad=False), [[[2.0, 8.0, 18.0]]])
    ones = torch.ones(1, 1, 3, 4, 3, device=lab.device, dtype=lab.dtype)
    lab.expect(
        "of ones without padding", F.avg_pool3d(ones, 2, padding=1, count_include_pad=False).unique(), [1.0]
    )
    for dims, call in AVERAGE.items():
        if dims > 1:
            for divisor in (1, 2, 8):
                y = call(lab.integers(2, *(4, 6, 4)[:dims], low=0), 2, divisor_override=divisor)
                lab.same(f"{dims}: by {divisor}", y)
        for options in (
            {"kernel_size": 2},
            {"kernel_size": 4, "stride": 2},
            {"kernel_size": 2, "padding": 1, "stride": 1},
        ):
            for ceil in (True, False):
                z = lab.integers(2, 3, *(5, 6, 7)[:dims], requires_grad=True)
                y = call(z, ceil_mode=ceil, **options)
                lab.same(f"{dims} dimensions: size of {options}, ceil_mode={ceil}", y.shape)
                with lab.parity(_DIVISOR) if ceil else lab.documented():
                    lab.close(f"{dims}: {options}, {ceil}", y, roundings=8)
                    lab.close(
                        f"{dims}: gradient of {options}, {ceil}",
                        torch.autograd.grad(y.sum(), z),
                        roundings=32,
                    )
        y = call(
            lab.integers(1, 2, *(4,) * dims), kernel_size=1, stride=2, ceil_mode=True, count_include_pad=True
        )
        lab.holds(f"{dims}: averages of windows beyond the end are finite", y.isfinite().all())
    windows = F.unfold(z4 := lab.integers(1, 1, 6, 8, low=0), (2, 4), stride=(2, 4)).sum(1)
    lab.same("by windows", F.avg_pool2d(z4, (2, 4), divisor_override=1).flatten(1) == windows)


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.MaxPool2d.html",
)
def maximum_pooling(lab: Lab) -> None:
    """Max pooling returns the maximum of each window and its index in the input. The gradient flows to the
    element at that index.
    """
    row = lab.put([[[1.0, 2.0, 3.0, 4.0]]], dtype=lab.dtype, requires_grad=True)
    y, indices = F.max_pool1d(row, 2, return_indices=True)
    lab.expect("values", y, [[[2.0, 4.0]]])
    lab.expect("places", indices, [[[1, 3]]])
    y.sum().backward()
    lab.expect("gradient", row.grad, [[[0.0, 1.0, 0.0, 1.0]]])
    square = torch.arange(1.0, 17, device=lab.device).view(1, 1, 4, 4).to(lab.dtype)
    y, indices = nn.MaxPool2d(2, return_indices=True)(square)
    lab.expect("of a square", y, [[[[6.0, 8.0], [14.0, 16.0]]]])
    lab.expect("its places", indices, [[[[5, 7], [13, 15]]]])
    y, indices = nn.AdaptiveMaxPool2d(2, return_indices=True)(square)
    with lab.parity(_WINDOWS):
        lab.expect("adaptive", y, [[[[6.0, 8.0], [14.0, 16.0]]]])
        lab.expect("its places too", indices, [[[[5, 7], [13, 15]]]])
    for dims, call in MAXIMUM.items():
        shuffled = lab.permutation(2 * 3 * 6**dims).to(lab.dtype) if lab.dtype != torch.bfloat16 else None
        for options in (
            {"kernel_size": 2},
            {"kernel_size": 3, "stride": 2, "padding": 1},
            {"kernel_size": 2, "dilation": 2, "stride": 1},
        ):
            for ceil in (True, False):
                if shuffled is None:
                    x = lab.floats(2, 3, *(6,) * dims)
                    lab.same(f"{dims}: values of {options}, {ceil}", call(x, ceil_mode=ceil, **options))
                    continue
                x = shuffled.view(2, 3, *(6,) * dims).clone().requires_grad_()
                y, indices = call(x, return_indices=True, ceil_mode=ceil, **options)
                lab.same(f"{dims}: {options}, {ceil}", (y, indices))
                lab.same(
                    f"{dims}: without indices, {options}, {ceil}", call(x.detach(), ceil_mode=ceil, **options)
                )
                lab.same(f"{dims}: gradient of {options}, {ceil}", torch.autograd.grad(y.sum(), x))
                lab.same(
                    f"{dims}: without a batch, {options}, {ceil}",
                    call(x.detach()[0], return_indices=True, ceil_mode=ceil, **options),
                )
        if shuffled is not None:
            x = shuffled.view(2, 3, *(6,) * dims)
            with lab.parity(_WINDOWS):
                lab.same(f"{dims}: adaptive", ADAPTIVE_MAXIMUM[dims](x, 4, return_indices=True))
                lab.same(
                    f"{dims}: adaptive without a batch",
                    ADAPTIVE_MAXIMUM[dims](x[0], 4, return_indices=True)[1],
                )
    lab.expect(
        "one element and padding", F.max_pool1d(lab.put([[1.0]], dtype=lab.dtype), 2, None, 1, 2), [[-INF]]
    )
    lab.expect("steps of one", F.max_pool1d(lab.put([[1.0, 2.0]], dtype=lab.dtype), 2, 1, 1, 2), [[2.0, 1.0]])
    lab.expect(
        "max pooling of a window beyond the end",
        F.max_pool1d(lab.put([[1.0, 2.0]], dtype=lab.dtype), 2, 2, 1, 2, ceil_mode=True),
        [[2.0, 2.0]],
    )
    gaps = lab.integers(4, 9, 8)[::2, ::3, ::2]
    lab.same("with gaps", (F.max_pool1d(gaps, 3, 2, 1), F.max_pool1d(gaps.transpose(1, 2), 2, 2)))
    flat = torch.ones(3, 4, 5, 9, device=lab.device, dtype=lab.dtype, requires_grad=True)
    F.max_pool3d(flat, 1).sum().backward()
    lab.holds("every element has the gradient 1", (flat.grad == 1).all())  # type: ignore[union-attr]


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.MaxPool2d.html",
    basis="parity",
    ground="No page says what a maximum over NaN is, or which of equal elements gets the gradient",
)
def extremes_in_pooling(lab: Lab) -> None:
    """Max pooling returns NaN if a window contains NaN. Minus infinity is an ordinary value. The indices are
    in range.
    """
    for dims in (1, 2, 3):
        for pool_name, call in (
            ("max", lambda x: MAXIMUM[dims](x, 3)),
            ("adaptive", lambda x: ADAPTIVE_MAXIMUM[dims](x, 1)),
        ):
            for value in (NAN, -INF, INF):
                x: Any = torch.full(
                    (1, 1, *(3,) * dims), value, device=lab.device, dtype=lab.dtype, requires_grad=True
                )
                y = call(x)
                lab.same(f"{pool_name}, {dims}, {value}", (y, call(x.detach())))
                y.backward(torch.ones_like(y))
                lab.expect(f"the gradients add up to 1: {pool_name}, {dims}, {value}", x.grad.sum(), 1.0)
        y, where = MAXIMUM[dims](
            torch.full((1, 1, *(1,) * dims), -INF, device=lab.device), 1, return_indices=True
        )
        with lab.documented():
            lab.same(f"of minus infinity, {dims}", (y, where))
        if dims > 1:
            pool = (nn.FractionalMaxPool2d if dims == 2 else nn.FractionalMaxPool3d)(2, output_size=1)
            for value in (NAN, -INF):
                x = torch.full(
                    (1, 1, *(3,) * dims), value, device=lab.device, dtype=lab.dtype, requires_grad=True
                )
                lab.same(f"fractional, {dims}, {value}", pool(x))
    mixed = lab.put([[[1.0, NAN, 3.0, 2.0]]])
    lab.same("beside numbers", F.max_pool1d(mixed, 2))
    whole = lab.put([[[[-1, -2], [-3, -4]]]], dtype=torch.int64)
    for layout in (torch.contiguous_format, torch.channels_last):
        try:
            result = F.max_pool2d(whole.contiguous(memory_format=layout), 2, 2, 1, 2, ceil_mode=True)
            sound = result.tolist() == [[[[-4, -4], [-4, -4]]]]
        except RuntimeError as error:
            # The documentation does not mention pooling of integers, so a refusal is accepted too.
            sound = "implemented" in str(error) or "support" in str(error)
        lab.holds(f"negative integers in {layout} are pooled, or the refusal names the dtype", sound)


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.nn.MaxUnpool2d.html",
)
def unpooling(lab: Lab) -> None:
    """Max unpooling writes the values to the indices that pooling returned. Other elements are zero.
    ``output_size`` may be any size that pooling maps to the size of the input.
    """
    unpool: Any  # accepts a number as kernel size too
    for dims, pool, unpool in (
        (1, F.max_pool1d, F.max_unpool1d),
        (2, F.max_pool2d, F.max_unpool2d),
        (3, F.max_pool3d, F.max_unpool3d),
    ):
        x = lab.permutation(2 * 4**dims).to(lab.dtype).view(1, 2, *(4,) * dims)
        y, where = pool(x, 2, return_indices=True)
        y = y.requires_grad_()
        unpooled = unpool(y, where, 2)
        lab.same(f"{dims}: put back", unpooled)
        lab.same(f"{dims}: with a stride", unpool(y, where, 2, stride=2))
        output_gradient = lab.integers(*unpooled.shape)
        lab.same(f"{dims}: gradient", torch.autograd.grad(unpooled, y, output_gradient))
        odd = lab.permutation(2 * 5**dims).to(lab.dtype).view(1, 2, *(5,) * dims)
        y, where = pool(odd, 2, return_indices=True)
        lab.same(f"{dims}: output_size with batch and channels", unpool(y, where, 2, output_size=odd.shape))
        lab.same(
            f"{dims}: output_size without batch and channels", unpool(y, where, 2, output_size=odd.shape[2:])
        )
        lab.same(f"{dims}: without a batch", unpool(y[0], where[0], 2, output_size=(5,) * dims))
        none = lab.integers(0, 2, *(4,) * dims, requires_grad=True)
        y, where = pool(none, 2, return_indices=True)
        result = unpool(y, where, 2)
        result.sum().backward()
        lab.same(f"{dims}: no samples", (result, none.grad))
    pool2, back2 = nn.MaxPool2d(3, stride=2, return_indices=True), nn.MaxUnpool2d(3, stride=2)
    y, where = pool2(lab.permutation(25).float().view(1, 1, 5, 5))
    for height in (3, 4, 5, 6, 7):
        if 4 <= height <= 6:
            # The pooling maps a height of 5 or 6 to the height of ``y``, but not a height of 4.
            with lab.parity(_SMALLER_SIZE) if height == 4 else lab.documented():
                lab.holds(
                    f"unpooling to a height of {height} returns this height",
                    back2(y, torch.zeros_like(where), output_size=(height, 5)).shape[2] == height,
                )
        else:
            with lab.parity("No page says that an output_size out of range is an error"):
                lab.raises(
                    f"a size of {height}", lambda: back2(y, where, output_size=(height, 5)), ValueError
                )
    layout = torch.channels_last
    image = lab.permutation(2 * 3 * 36).float().view(2, 3, 6, 6).contiguous(memory_format=layout)
    y, where = F.max_pool2d(image, 2, return_indices=True)
    lab.same("channels last", F.max_unpool2d(y, where, 2))  # type: ignore[arg-type]
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "a kernel size with too few dimensions",
            lambda: F.max_unpool3d(
                torch.ones(1, 3, 1, 1, 1, device=lab.device),
                torch.zeros(1, 3, 1, 1, 1, dtype=torch.int64, device=lab.device),
                [1, 1],
            ),
        )
        lab.raises("places of another shape", lambda: F.max_unpool2d(y, where[:1], 2))  # type: ignore[arg-type]
    with lab.parity("No page says that indices of int32 are an error"):
        lab.raises("places of another dtype", lambda: F.max_unpool2d(y, where.int(), 2))  # type: ignore[arg-type]


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.AdaptiveAvgPool2d.html",
)
def adaptive_pooling(lab: Lab) -> None:
    """Adaptive pooling returns a result of the requested size. None preserves the size of a dimension. A size
    of one returns the mean or maximum of the input.
    """
    x = lab.put([[[0.0, 2.0, 4.0, 6.0, 8.0]]], dtype=lab.dtype)
    with lab.parity(_WINDOWS):
        lab.expect("averages", F.adaptive_avg_pool1d(x, 2), [[[2.0, 6.0]]])
        lab.expect("maxima", F.adaptive_max_pool1d(x, 2), [[[4.0, 8.0]]])
    for dims in (1, 2, 3):
        z = lab.integers(2, 3, *(4, 8, 6)[:dims], requires_grad=True)
        for call in (ADAPTIVE_AVERAGE[dims], ADAPTIVE_MAXIMUM[dims]):
            for size in (1, 3, 7):
                y = call(z, size)
                lab.same(f"size of {call.__name__} to {size}", y.shape)
                with lab.parity(_WINDOWS) if size > 1 else lab.documented():
                    lab.close(f"{call.__name__} to {size}", y, roundings=8)
                    if call is ADAPTIVE_AVERAGE[dims]:
                        lab.close(
                            f"gradient of {call.__name__} to {size}",
                            torch.autograd.grad(y.sum(), z),
                            roundings=32,
                        )
            if dims > 1:
                lab.same(f"{call.__name__} with None as a size", call(z, (2,) * (dims - 1) + (None,)).shape)
            lab.same(f"{call.__name__} of no samples", call(lab.integers(0, 3, *(4,) * dims), 2))
        lab.close(
            f"adaptive average pooling to size 1, {dims}", ADAPTIVE_AVERAGE[dims](z, 1).flatten(), roundings=8
        )
        lab.close(f"the mean, {dims}", z.flatten(2).mean(2).flatten(), roundings=8)
        lab.same(
            f"adaptive max pooling to size 1, {dims}",
            ADAPTIVE_MAXIMUM[dims](z, 1).flatten() == z.flatten(2).amax(2).flatten(),
        )
        with lab.parity("No page says that an input without channels is an error"):
            lab.raises(
                f"no channels, {dims}",
                lambda: ADAPTIVE_MAXIMUM[dims](lab.integers(1, 0, *(4,) * dims), 2),
            )
    with lab.parity("No page says that a too large output size is an error"):
        lab.raises(
            "a size too large for any memory", lambda: F.adaptive_max_pool1d(lab.integers(2, 2, 2), 2**62)
        )
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        for call in (F.adaptive_avg_pool2d, F.adaptive_avg_pool3d):
            shape = (1, 4, 4) if call is F.adaptive_avg_pool2d else (1, 4, 4, 4)
            try:
                sound = call(lab.integers(*shape, low=0, dtype=dtype), 2).shape[-2:] == (2, 2)
            except RuntimeError:  # the documentation allows both a result and an error
                sound = True
            lab.holds(f"{call.__name__} of {dtype} returns the requested size or raises an error", sound)


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16"),
    capabilities=("channels_last", "autograd"),
    must_detect=("value",),
    page="generated/torch.nn.MaxPool2d.html",
    ground="The result is defined by the elements, so the memory format cannot change it",
)
def channels_last_pooling(lab: Lab) -> None:
    """Pooling of channels-last input, contiguous or sliced, returns the values and indices of pooling of
    contiguous input.
    """
    image = (
        lab.permutation(2 * 6 * 64).to(lab.dtype).view(2, 6, 8, 8)
        if lab.dtype == torch.float32
        else lab.integers(2, 6, 8, 8, low=0)
    )
    volume = image.view(2, 6, 4, 4, 4)
    unique = lab.dtype == torch.float32
    sources = [("image", image, torch.channels_last), ("volume", volume, torch.channels_last_3d)]
    # In bfloat16, only the image is pooled: the CPU does not implement 3D average pooling of bfloat16.
    for source_name, source, layout in sources if unique else sources[:1]:
        dims = source.dim() - 2
        for cut in (False, True):
            last = source.contiguous(memory_format=layout)
            last = (last[:, ::2] if cut else last).detach().requires_grad_()
            contiguous = last.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
            for name, call in (
                ("max", lambda x: MAXIMUM[dims](x, 3, 2, return_indices=unique)),
                ("adaptive max", lambda x: ADAPTIVE_MAXIMUM[dims](x, 3, return_indices=unique)),
                ("average", lambda x: AVERAGE[dims](x, 2, 2)),
                ("padded average", lambda x: AVERAGE[dims](x, 4, 2, 1, count_include_pad=False)),
                ("adaptive average", lambda x: ADAPTIVE_AVERAGE[dims](x, 2)),
            ):
                result, base = call(last), call(contiguous)
                value, expected = (result[0], base[0]) if isinstance(result, tuple) else (result, base)
                lab.holds(
                    f"{name} of {source_name}, cut={cut}, equals the result of contiguous input",
                    torch.allclose(value, expected, rtol=1e-2),
                )
                with lab.parity(_WINDOWS) if name.startswith("adaptive") else lab.documented():
                    lab.close(f"{name} of {source_name}, cut={cut}", (result, base), roundings=8)
                    if "max" not in name or unique:
                        both = (
                            torch.autograd.grad(value.sum(), last),
                            torch.autograd.grad(expected.sum(), contiguous),
                        )
                        lab.close(f"gradients of {name} of {source_name}, cut={cut}", both, roundings=16)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.FractionalMaxPool2d.html",
    basis="parity",
    ground="No page says how _random_samples determine the windows",
)
def fractional_pooling(lab: Lab) -> None:
    """Fractional max pooling with given random samples is deterministic, also without a batch dimension.
    Impossible sizes raise an error.
    """
    for dims, call in ((2, F.fractional_max_pool2d), (3, F.fractional_max_pool3d)):
        samples = lab.floats(1, 2, dims, low=0.0)
        x = lab.permutation(2 * 7**dims).to(lab.dtype).view(1, 2, *(7,) * dims).requires_grad_()
        y, where = call(x, 2, output_size=3, _random_samples=samples, return_indices=True)
        lab.same(f"{dims}: with samples", (y, where))
        lab.same(f"{dims}: gradient", torch.autograd.grad(y.sum(), x))
        lab.same(f"{dims}: without a batch", call(x[0], 2, output_size=3, _random_samples=samples))
        lab.same(f"{dims}: by a ratio", call(x, 2, output_ratio=(0.5,) * dims, _random_samples=samples))
        with lab.documented():
            lab.same(f"{dims}: no samples", call(lab.integers(0, 2, *(7,) * dims), 2, output_size=3).shape)
            lab.same(f"{dims}: of random places", call(x, 2, output_size=3).shape)
        with lab.documented():
            lab.raises(
                f"{dims}: too large",
                lambda: call(x, 2, output_size=(9,) + (3,) * (dims - 1), _random_samples=samples),
                match="(?i)too large",
            )
        for size in ((), (3,)):
            lab.raises(
                f"{dims}: a size of {size}",
                lambda: call(x, 2, output_size=size, _random_samples=samples),
                match="output_size",
            )
            lab.raises(
                f"{dims}: a kernel of {size}",
                lambda: call(x, size, output_size=3, _random_samples=samples),
                match="kernel_size",
            )
        lab.raises(f"{dims}: no channels", lambda: call(lab.integers(1, 0, *(7,) * dims), 2, output_size=3))
        lab.raises(
            f"{dims}: random samples of another batch size",
            lambda: call(x, 2, output_size=3, _random_samples=samples[:0]),
        )
    with lab.documented():
        lab.raises("neither size nor ratio", lambda: nn.FractionalMaxPool2d(2), ValueError)
        lab.raises("both", lambda: nn.FractionalMaxPool2d(2, output_size=3, output_ratio=0.5), ValueError)
        lab.raises(
            "a ratio of one and a half", lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5), ValueError
        )


@behaviour(
    "nn",
    level="core",
    must_detect=("value", "error"),
    capabilities=("strides", "autograd"),
    page="generated/torch.nn.MaxPool2d.html",
)
def sizes_of_pooling(lab: Lab) -> None:
    """The size of a pooled result depends on kernel size, stride, padding and ``ceil_mode`` as documented. An
    empty batch returns an empty result, and invalid sizes raise an error.
    """
    for dims in (1, 2, 3):
        for call in (MAXIMUM[dims], AVERAGE[dims]):
            x = lab.integers(1, 2, *(5, 6, 7)[:dims])
            for options in (
                {"kernel_size": 1, "stride": 2, "ceil_mode": True},
                {"kernel_size": 2, "stride": 2, "padding": 1},
                {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
                # For a kernel size of 3, the page of MaxPool1d has another formula of the size.
                {"kernel_size": 2, "stride": 2, "ceil_mode": True},
            ):
                lab.same(f"{call.__name__} {options}", call(x, **options).shape)
            lab.same(f"{call.__name__} of no samples", call(lab.integers(0, 2, *(5,) * dims), 3))
            with lab.parity("only the page of MaxPool1d demands a positive stride"):
                lab.raises(
                    f"{call.__name__}: a stride of zero", lambda: call(x, 2, stride=0), match="(?i)stride"
                )
            with lab.parity("No page says that a window larger than the input is an error"):
                lab.raises(f"{call.__name__}: a kernel larger than the input", lambda: call(x, 9))
            lab.raises(f"{call.__name__}: too much padding", lambda: call(x, 2, padding=2), match="(?i)pad")
            if dims > 1:
                with lab.parity("No page says that an input without channels is an error"):
                    lab.raises(
                        f"{call.__name__}: a batch without channels",
                        lambda: call(lab.integers(1, 0, *(0,) * dims), 2),
                    )
    lab.expect(
        "size with windows that all begin inside the input",
        F.max_pool2d(lab.integers(1, 1, 6, 7), 1, stride=2, ceil_mode=True).shape,
        torch.Size([1, 1, 3, 4]),
    )
    odd = lab.integers(7, 1, 5, 3, 2)
    strange = odd.as_strided(odd.shape, (30, 1234, 6, 2, 1))
    lab.same(
        "an unusual stride of a dimension of size 1",
        (F.max_pool3d(strange, (5, 1, 1)), F.avg_pool3d(strange, (4, 1, 1))),
    )
    x = lab.integers(1, 3, 4, 4, 4, requires_grad=True)
    y = F.avg_pool3d(x, 2)
    push = lab.integers(1, 3, 2, 2, 2)
    wide = push.as_strided(push.shape, (48, *push.stride()[1:]))
    lab.same("an output gradient with an unusual stride", torch.autograd.grad(y, x, wide))
    lp = F.lp_pool1d(lab.put([[[3.0, 4.0, 0.0, 2.0]]]), 2.0, 2)
    lab.expect("norm pooling", lp, [[[5.0, 2.0]]], roundings=8)
    lab.close(
        "norm pooling in two dimensions", F.lp_pool2d(lab.floats(1, 2, 4, 4, low=0), 3.0, 2), roundings=32
    )
