"""Compare a whole network in the channels_last layout with the same network in the contiguous layout.

The network is a ResNet-18 on the CPU, whose kernels the reference device uses. Weights and input have the
measured layout, so no permutation is needed. The ratio is therefore the most that a compiler pass could gain
by converting a graph to channels_last.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.compile_steady_state import ResNetBlock
from benchmarks.measure import medians_of, print_figure

_BATCH, _SIZE = 8, 64
#: Such a compiler pass would be worth its cost if it made the network 1.1 times faster.
_TARGET = 1 / 1.1


def resnet18() -> nn.Module:
    """Return a ResNet-18 with all channels."""
    widths = (64, 64, 128, 256, 512)
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    for index, outputs in enumerate(widths[1:]):
        layers += [
            ResNetBlock(widths[index], outputs, 1 if index == 0 else 2),
            ResNetBlock(outputs, outputs, 1),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def forward_and_training_calls(
    model: nn.Module, x: torch.Tensor
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a function that runs the forward pass, and a function that runs a training step."""

    def forward() -> None:
        with torch.no_grad():
            model.eval()(x)

    def training_step() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        model.train()(x).square().mean().backward()

    return forward, training_step


def main() -> None:
    """Print the ratios of the times, channels_last / contiguous, in float32 and bfloat16."""
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        contiguous = resnet18().to(dtype)
        x = torch.randn(_BATCH, 3, _SIZE, _SIZE, dtype=dtype)
        permuted = copy.deepcopy(contiguous).to(memory_format=torch.channels_last)
        calls = zip(
            forward_and_training_calls(contiguous, x),
            forward_and_training_calls(permuted, x.contiguous(memory_format=torch.channels_last)),
            ("forward", "training step"),
            strict=True,
        )
        for first, second, name in calls:
            before, after = medians_of([first, second], 15)
            figure = f"ResNet-18 {name}, {str(dtype).removeprefix('torch.')}: channels_last / contiguous"
            print_figure(figure, after / before, _TARGET)


if __name__ == "__main__":
    main()
