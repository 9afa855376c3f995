"""Check convolutions: padding, groups, output sizes, gradients, empty input, and errors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import (
    gradients_by_name,
    record_close_convolution,
    with_whole_number_state,
)

FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
MODULES = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


@behaviour(
    "nn",
    dtypes=("float32", "complex64"),
    level="core",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.conv2d.html",
)
def same_and_valid_padding(lab: Lab) -> None:
    """``padding="valid"`` adds no padding. ``padding="same"`` preserves the size. If the total padding is
    odd, the additional element is at the end. Values and gradients are correct.
    """
    for dims, call in FUNCTIONS.items():
        for kernel, dilation in ((3, 1), (4, 1), (2, 2), (4, 3), (1, 1)):
            x = lab.integers(1, 2, *(7, 6, 5)[:dims], requires_grad=True)
            w = lab.integers(3, 2, *(kernel, 3, 2)[:dims], requires_grad=True)
            label = f"{dims} dimensions, kernel {kernel}, dilation {dilation}"
            same = call(x, w, padding="same", dilation=dilation)
            lab.holds(f"padding same keeps the size: {label}", same.shape[2:] == x.shape[2:])
            total_padding = [dilation * (size - 1) for size in w.shape[2:]]
            padding_by_side = [side for pad in reversed(total_padding) for side in (pad // 2, pad - pad // 2)]
            record_close_convolution(
                lab, f"padded by hand: {label}", call(F.pad(x, padding_by_side), w, dilation=dilation)
            )
            odd = any(pad % 2 for pad in total_padding)
            with (
                lab.parity("No page says on which side the additional element of odd padding lies")
                if odd
                else lab.documented()
            ):
                record_close_convolution(lab, f"same: {label}", same)
                record_close_convolution(
                    lab,
                    f"gradients: {label}",
                    torch.autograd.grad(same.real.sum() if same.is_complex() else same.sum(), (x, w)),
                )
        x, w = (
            lab.integers(2, 2, *(5,) * dims, requires_grad=True),
            lab.integers(3, 2, *(2,) * dims, requires_grad=True),
        )
        result = call(x, w, padding="valid")
        record_close_convolution(lab, f"valid: {dims}", (result, call(x, w)))
        record_close_convolution(
            lab,
            f"gradients of valid: {dims}",
            torch.autograd.grad((result.real if result.is_complex() else result).sum(), (x, w)),
        )
        lab.raises(
            f"padding same with a stride: {dims} dimensions", lambda: call(x, w, padding="same", stride=2)
        )
        lab.raises(f"an unknown word: {dims}", lambda: call(x, w, padding="full"))


@behaviour(
    "nn",
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.nn.Conv2d.html",
    ground="The padding modes are the modes of torch.nn.functional.pad",
)
def padding_of_convolution_modules(lab: Lab) -> None:
    """For each ``padding_mode`` (zeros, reflect, replicate, circular), a convolution module equals ``F.pad``
    followed by the convolution. Impossible padding raises an error.
    """
    for dims, make in MODULES.items():
        x = lab.integers(1, 2, *(6, 5, 4)[:dims])
        for mode, padding in (
            ("zeros", 1),
            ("reflect", 1),
            ("replicate", 2),
            ("circular", 2),
            ("zeros", "same"),
            ("circular", "same"),
        ):
            module = with_whole_number_state(lab, make(2, 2, 3, padding=padding, padding_mode=mode))  # type: ignore[arg-type]
            record_close_convolution(lab, f"{dims} dimensions, {mode}, {padding}", module(x))
            if mode != "zeros":
                amount = 1 if padding == "same" else padding
                by_hand = FUNCTIONS[dims](
                    F.pad(x, [amount] * 2 * dims, mode=mode),  # type: ignore[arg-type]
                    module.weight,
                    module.bias,
                )
                record_close_convolution(lab, f"{dims} dimensions, {mode}, {padding}, by hand", by_hand)
        lab.raises(f"{dims}: an unknown word", lambda: make(2, 2, 3, padding="full"), ValueError)
        lab.raises(f"{dims}: an unknown mode", lambda: make(2, 2, 3, padding_mode="blue"), ValueError)  # type: ignore[arg-type]
        lab.raises(
            f"{dims} dimensions: padding same with a stride",
            lambda: make(2, 2, 3, padding="same", stride=2),
            ValueError,
        )
        lab.raises(f"{dims}: no groups", lambda: make(2, 2, 3, groups=0), ValueError)
        with lab.parity("No page says that a negative number of groups is an error"):
            lab.raises(f"{dims}: negative groups", lambda: make(2, 2, 3, groups=-1), ValueError)
        lab.raises(
            f"{dims} dimensions: input channels that groups do not divide",
            lambda: make(3, 4, 3, groups=2),
            ValueError,
        )
        lab.raises(
            f"{dims} dimensions: output channels that groups do not divide",
            lambda: make(4, 3, 3, groups=2),
            ValueError,
        )
    with lab.parity("The page of ConvTranspose2d does not describe padding_mode"):
        lab.raises(
            "a transposed convolution with reflect padding",
            lambda: nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect"),
            ValueError,
        )


@behaviour(
    "nn",
    level="training",
    dtypes=("float32", "float64", "complex64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.Conv2d.html",
)
def grouped_convolutions(lab: Lab) -> None:
    """A grouped convolution equals one convolution per group, in values and gradients. This includes
    depthwise convolutions.
    """
    for dims, groups, inputs, outputs, bias in (
        (2, 2, 4, 4, True),
        (2, 2, 4, 16, False),
        (3, 2, 4, 8, True),
        (3, 2, 4, 8, False),
        (2, 3, 3, 6, True),
        (1, 4, 4, 4, False),
        (3, 2, 2, 4, True),
    ):
        module = with_whole_number_state(lab, MODULES[dims](inputs, outputs, 3, groups=groups, bias=bias))
        x = lab.integers(2, inputs, *(5,) * dims, requires_grad=True)
        y = module(x)
        output_gradient = lab.integers(*y.shape)
        y.backward(output_gradient)
        label = f"{dims} dimensions, {inputs} to {outputs} channels in {groups} groups"
        record_close_convolution(lab, f"result: {label}", y)
        record_close_convolution(lab, f"gradients: {label}", (x.grad, gradients_by_name(module)))
        parts = []
        for group in range(groups):
            rows = slice(group * outputs // groups, (group + 1) * outputs // groups)
            columns = slice(group * inputs // groups, (group + 1) * inputs // groups)
            parts.append(
                FUNCTIONS[dims](
                    x.detach()[:, columns],
                    module.weight.detach()[rows],
                    None if module.bias is None else module.bias.detach()[rows],
                )
            )
        record_close_convolution(lab, f"group by group: {label}", torch.cat(parts, 1))
    with torch.no_grad():
        record_close_convolution(lab, "without gradients", module(x))
    wide = lab.integers(2, 2, 4, 20, requires_grad=True)
    weight = lab.integers(2, 1, 3, 5, requires_grad=True)
    record_close_convolution(
        lab,
        "strides that differ",
        torch.autograd.grad(
            F.conv2d(wide, weight, stride=(1, 10), groups=2), (wide, weight), lab.integers(2, 2, 2, 2)
        ),
    )


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd", "double_backward"),
    must_detect=("value",),
    page="generated/torch.nn.functional.conv2d.html",
)
def convolution_gradients(lab: Lab) -> None:
    """First and second gradients of convolutions are correct for strides, paddings, dilations and groups.
    ``torch.nn.grad`` returns the same gradients.
    """
    for dims, call in FUNCTIONS.items():
        gradient_functions = [getattr(torch.nn.grad, f"conv{dims}d_{label}") for label in ("input", "weight")]  # type: ignore[attr-defined]
        for stride, padding, dilation, groups in ((1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (2, 0, 1, 2)):
            options: dict[str, Any] = {
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "groups": groups,
            }
            x: Any = lab.integers(2, 2, *(7,) * dims, requires_grad=True)
            w = lab.integers(4, 2 // groups, *(3,) * dims, requires_grad=True)
            y = call(x, w, **options)
            output_gradient = lab.integers(*y.shape, requires_grad=True)
            results = torch.autograd.grad(y, (x, w), output_gradient, create_graph=True)
            label = f"{dims}: {options}"
            record_close_convolution(lab, f"gradients, {label}", results)
            record_close_convolution(
                lab,
                f"gradient of the input by torch.nn.grad, {label}",
                gradient_functions[0](x.shape, w, output_gradient, **options),
            )
            record_close_convolution(
                lab,
                f"gradient of the weight by torch.nn.grad, {label}",
                gradient_functions[1](x, w.shape, output_gradient, **options),
            )
            if dims < 3:
                record_close_convolution(
                    lab,
                    f"second gradients, {label}",
                    torch.autograd.grad([gradient.sum() for gradient in results], (x, w, output_gradient)),
                )
    module: Any = with_whole_number_state(lab, nn.Conv2d(2, 3, 3))
    x = lab.integers(2, 2, 5, 5, requires_grad=True)
    y = module(x)
    many = lab.integers(2, 2, 3, 3, 3)[:, 1]
    y.backward(many, retain_graph=True)
    strided = x.grad.clone()
    x.grad = None
    y.backward(many.contiguous())
    record_close_convolution(lab, "a strided gradient", (strided, x.grad))
    channels = module.to(memory_format=torch.channels_last)
    z = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    channels.zero_grad()
    channels(z).backward(many)
    record_close_convolution(lab, "channels last", (z.grad, gradients_by_name(channels)))
    tbc = (
        lab.integers(5, 2, 3, requires_grad=True),
        lab.integers(2, 3, 4, requires_grad=True),
        lab.integers(4, requires_grad=True),
    )
    y = F.conv_tbc(*tbc, pad=1)
    record_close_convolution(lab, "of time, batch, channels", (y, torch.autograd.grad(y.sum(), tbc)))


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("error",),
    page="notes/autograd.html",
    ground="The note mentions the error of a second backward pass without retain_graph",
)
def backward_of_a_convolution_twice(lab: Lab) -> None:
    """A second backward pass through a freed graph of a convolution raises an error. Calling a convolution
    module with None raises an error.
    """
    module = with_whole_number_state(lab, nn.Conv2d(2, 3, 3))
    y = module(lab.integers(2, 2, 5, 5)).sum()
    y.backward()
    lab.raises("backward twice", lambda: y.backward(), match="retain_graph", text_is_documented=True)
    with lab.parity("No page says that calling a module with None is an error"):
        lab.raises("no input", lambda: module(None), TypeError)


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16", "complex64"),
    must_detect=("error", "message"),
    page="generated/torch.nn.Conv2d.html",
    basis="parity",
    ground="No page says that these sizes, strides, paddings, dilations or dtypes raise an error",
)
def refusals_of_convolutions(lab: Lab) -> None:
    """Convolutions raise an error for kernels that are too large, for strides and dilations that are not
    positive, and for negative padding. Wrong channels, dtypes or numbers of dimensions raise an error too.
    """
    for dims, make in MODULES.items():
        size = (4,) * dims
        lab.raises(
            f"{dims} dimensions: a kernel larger than the input",
            lambda: with_whole_number_state(lab, make(2, 2, 6))(lab.integers(1, 2, *size)),
            match="(?i)kernel size",
        )
        lab.raises(
            f"{dims}: nor when dilated",
            lambda: with_whole_number_state(lab, make(2, 2, 3, dilation=2, stride=2))(
                lab.integers(1, 2, *size)
            ),
        )
        for stride in (-1, 0):
            lab.raises(
                f"{dims}: a stride of {stride}",
                lambda: with_whole_number_state(lab, make(2, 2, 3, stride=stride))(lab.integers(1, 2, *size)),
                match="(?i)stride",
            )
        lab.raises(
            f"{dims}: negative padding",
            lambda: FUNCTIONS[dims](lab.integers(1, 2, *size), lab.integers(2, 2, *(2,) * dims), padding=-1),
            match="(?i)padding",
        )
        lab.raises(
            f"{dims}: a dilation of zero",
            lambda: FUNCTIONS[dims](lab.integers(1, 2, *size), lab.integers(2, 2, *(2,) * dims), dilation=0),
            match="(?i)dilation",
        )
        module = with_whole_number_state(lab, make(2, 2, 3))
        lab.raises(f"{dims}: other channels", lambda: module(lab.integers(1, 3, *size)), match="(?i)channels")
        for extra in ((), (1, 1, 1)):
            shape = size[: dims - 1] + extra if not extra else (1, 2, *size, *extra[:2])
            lab.raises(
                f"{dims}: {len(shape)} dimensions",
                lambda: module(lab.integers(*shape)) if shape else module(lab.integers(1).sum()),
            )
        other_dtype = torch.float16 if lab.dtype != torch.float16 else torch.float32
        lab.raises(f"{dims}: another dtype", lambda: module(lab.integers(1, 2, *size, dtype=other_dtype)))
        lab.raises(
            f"{dims}: a bias of another size",
            lambda: FUNCTIONS[dims](
                lab.integers(1, 2, *size),
                lab.integers(2, 2, *(2,) * dims),
                lab.integers(5),
            ),
        )
        with lab.documented():
            lab.same(
                f"{dims} dimensions: a kernel as large as the input",
                with_whole_number_state(lab, make(1, 1, 4))(lab.integers(2, 1, *size)).shape,
            )
            lab.same(
                f"{dims}: with padding",
                with_whole_number_state(lab, make(1, 1, 6, padding=1))(lab.integers(2, 1, *size)).shape,
            )


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.nn.ConvTranspose2d.html",
)
def sizes_of_transposed_convolutions(lab: Lab) -> None:
    """A transposed convolution maps the output shape of a convolution to the input shape of this convolution.
    ``output_size`` selects one of the sizes that the stride allows.
    """
    module = with_whole_number_state(lab, nn.ConvTranspose2d(2, 3, 3, stride=3, padding=0, output_padding=2))
    x = lab.integers(2, 2, 4, 4)
    lab.same("its own size", module(x).shape)
    for height in range(10, 16):
        size = (height, 13)
        if 12 <= height <= 14:
            record_close_convolution(lab, f"size {size}", module(x, output_size=size))
        else:
            with lab.parity("No page says that an output_size out of range is an error"):
                lab.raises(f"size {size}", lambda: module(x, output_size=size), ValueError)
    lab.same("an output_size with batch and channels", module(x, output_size=(2, 3, 12, 14)).shape)
    for kernel, stride, padding, dilation in ((2, 1, 0, 1), (3, 2, 1, 1), (3, 3, 2, 2), (2, 3, 1, 3)):
        options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
        y = lab.integers(1, 2, 13, 14)
        forth, back = (
            with_whole_number_state(lab, nn.Conv2d(2, 1, kernel, **options)),
            with_whole_number_state(lab, nn.ConvTranspose2d(1, 2, kernel, **options)),
        )
        record_close_convolution(lab, f"there and back, {options}", back(forth(y), output_size=y.shape))
    for dims, make in ((1, nn.ConvTranspose1d), (2, nn.ConvTranspose2d), (3, nn.ConvTranspose3d)):
        plane = with_whole_number_state(lab, make(2, 2, 4, stride=4, padding=1))
        small = lab.integers(2, *(3,) * dims)
        record_close_convolution(
            lab, f"{dims}: without a batch", plane(small, output_size=(2, *(12,) * dims))
        )
        full = with_whole_number_state(lab, make(2, 2, 2))
        record_close_convolution(
            lab,
            f"{dims}: a full size",
            full(lab.integers(1, 2, *(1,) * dims), output_size=(1, 2, *(2,) * dims)),
        )
        grouped = with_whole_number_state(
            lab, make(4, 4, 3, groups=2, stride=2, output_padding=1, dilation=2)
        )
        z = lab.integers(1, 4, *(3,) * dims, requires_grad=True)
        y = grouped(z)
        y.sum().backward()
        record_close_convolution(
            lab, f"{dims}: groups, output padding, dilation", (y, z.grad, gradients_by_name(grouped))
        )
