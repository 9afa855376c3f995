"""Check convolutions of empty and strided input, and memory formats of convolution weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import record_close_convolution, with_whole_number_state

FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@behaviour(
    "nn",
    capabilities=("autograd",),
    dtypes=("float32", "complex64"),
    level="core",
    must_detect=("shape", "error"),
    page="generated/torch.nn.Conv2d.html",
    ground="The formula of the output size holds for any batch and channels; no page mentions zero",
)
def convolutions_of_nothing(lab: Lab) -> None:
    """Convolutions of empty batches or zero channels return results of the correct shape. Their gradients are
    zero.
    """
    for name, module, shape in (
        ("no samples", nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4), (0, 4, 4, 4)),
        ("no samples, one dimension", nn.Conv1d(4, 8, 3), (0, 4, 9)),
        ("no samples, three dimensions", nn.Conv3d(4, 8, 3), (0, 4, 4, 4, 4)),
        ("no samples, transposed", nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1), (0, 4, 4, 4)),
        (
            "no samples, transposed groups",
            nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, groups=4),
            (0, 4, 4, 4),
        ),
        ("no channels", nn.Conv1d(0, 8, 2, stride=2), (2, 0, 15)),
        ("no channels, two dimensions", nn.Conv2d(0, 3, 3, stride=2), (2, 0, 7, 9)),
    ):
        with_whole_number_state(lab, module)
        x = lab.integers(*shape, requires_grad=True)
        y = module(x)
        lab.same(f"shape of {name}", y.shape)
        with torch.no_grad():
            lab.same(f"shape of {name} without gradients", module(x).shape)
        (y.real if y.is_complex() else y).sum().backward()
        record_close_convolution(lab, f"gradient of {name}", x.grad)
    lab.expect(
        "a shape by hand",
        (with_whole_number_state(lab, nn.Conv2d(1, 1, 2)).to(lab.device)(lab.integers(1, 1, 3, 3)) * 0).abs()
        + 1,
        [[[[1.0, 1.0], [1.0, 1.0]]]],
    )
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "a channel too many",
            lambda: with_whole_number_state(lab, nn.Conv2d(0, 3, 3))(lab.integers(2, 1, 5, 5)),
        )


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "complex64"),
    capabilities=("non_contiguous", "strides", "autograd"),
    must_detect=("value",),
    page="generated/torch.nn.Conv2d.html",
    ground="The result is defined by the elements, so strides cannot change it",
)
def strided_convolutions(lab: Lab) -> None:
    """Convolutions of strided, expanded or permuted inputs, weights and biases equal the convolutions of
    contiguous tensors.
    """
    for dims, call in FUNCTIONS.items():
        for groups in (1, 3):
            weight = lab.integers(*(3,) * dims).expand(3, 3 // groups, *(3,) * dims).detach().requires_grad_()
            x = lab.integers(1, 3, *(5,) * dims, requires_grad=True)
            for label, function in (("convolution", call), ("transposed", TRANSPOSED[dims])):
                y = function(x, weight, groups=groups)
                record_close_convolution(
                    lab, f"{label}, {dims}, {groups}", (y, function(x, weight.contiguous(), groups=groups))
                )
                record_close_convolution(
                    lab,
                    f"gradients, {label}, {dims}, {groups}",
                    torch.autograd.grad((y.real if y.is_complex() else y).sum(), (x, weight)),
                )
    x = lab.integers(2, 3, 6, 6, 2)[..., 1]
    weight, bias = lab.integers(4, 3, 3, 3, 2)[..., 1], lab.integers(4, 2)[:, 1]
    record_close_convolution(
        lab,
        "with gaps",
        (F.conv2d(x, weight, bias), F.conv2d(x.contiguous(), weight.contiguous(), bias.contiguous())),
    )
    image = lab.integers(1, 9, 8, 3).permute(0, 3, 1, 2)
    for radius in (1, 2, 3):
        record_close_convolution(
            lab,
            f"a permuted image, {radius}",
            F.conv2d(image, lab.integers(3, 1, 1, 2 * radius + 1), groups=3),
        )
    record_close_convolution(
        lab,
        "a 3D convolution along one axis",
        F.conv3d(lab.integers(2, 3, 3, 3, 20), lab.integers(3, 1, 1, 1, 17), groups=3),
    )
    record_close_convolution(
        lab,
        "transposed, padded, in groups",
        F.conv1d(lab.integers(1, 1, 8).transpose(1, 2), lab.integers(8, 1, 16), lab.integers(8), 1, 8, 1, 8),
    )
    single = lab.integers(1, 4, 5, 5)
    odd = single.as_strided(single.shape, (single.stride(0) + 7, *single.stride()[1:]))
    record_close_convolution(
        lab,
        "an unusual stride of a dimension of size 1",
        (F.conv2d(odd, lab.integers(2, 4, 1, 1)), F.conv_transpose2d(odd, lab.integers(4, 2, 1, 1))),
    )


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.utils.memory_format.convert_conv2d_weight_memory_format.html",
)
def memory_formats_of_weights(lab: Lab) -> None:
    """``convert_conv2d_weight_memory_format`` and ``convert_conv3d_weight_memory_format`` change the memory
    format of convolution weights, if the device keeps memory formats, and do not change values.
    """
    x = lab.integers(2, 4, 5, 5)
    for make in (nn.Conv2d, nn.ConvTranspose2d):
        net = nn.Sequential(with_whole_number_state(lab, make(4, 3, 3)), nn.ReLU())
        before = net(x)
        for layout in (torch.channels_last, torch.contiguous_format):
            converted: Any = nn.utils.convert_conv2d_weight_memory_format(net, layout)
            if lab.target.capable("channels_last"):
                lab.holds(
                    f"{make.__name__}: weights in {layout}",
                    converted[0].weight.is_contiguous(memory_format=layout),
                )
            record_close_convolution(lab, f"{make.__name__}: values in {layout}", (converted(x), before))
    volume = nn.Sequential(with_whole_number_state(lab, nn.ConvTranspose3d(2, 3, 2)))
    y = lab.integers(1, 2, 3, 3, 3)
    before = volume(y)
    for layout in (torch.channels_last_3d, torch.contiguous_format):
        converted = nn.utils.convert_conv3d_weight_memory_format(volume, layout)
        if lab.target.capable("channels_last"):
            lab.holds(
                f"a 3D convolution weight has the format {layout}",
                converted[0].weight.is_contiguous(memory_format=layout),
            )
        record_close_convolution(lab, f"values of a 3D convolution in {layout}", (converted(y), before))
