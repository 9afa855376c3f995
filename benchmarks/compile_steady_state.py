"""Measure compiled training steps (forward and backward) after compilation: hpu_backend / Inductor on the
CPU.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.measure import best_of, geometric_mean, print_figure


class ResNetBlock(nn.Module):
    """The basic block of a ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output, float32[N, outputs, H', W'], for float32[N, inputs, H, W]."""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18() -> tuple[nn.Module, torch.Tensor]:
    """Return a ResNet-18 with a quarter of the channels, and its input, float32[4, 3, 64, 64]."""
    widths = (16, 16, 32, 64, 128)
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        layers += [ResNetBlock(inputs, outputs, 1 if index == 0 else 2), ResNetBlock(outputs, outputs, 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), torch.randn(4, 3, 64, 64)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Return an encoder layer of width 128, and its input, float32[4, 64, 128]."""
    return nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True), torch.randn(4, 64, 128)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Return an MLP of a size that is common for MNIST, and its input, float32[64, 784]."""
    layers = nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    return nn.Sequential(*layers), torch.randn(64, 784)


def small_mlp() -> tuple[nn.Module, torch.Tensor]:
    """Return an MLP of 6 layers of width 64, whose steps are host-bound, and its input, float32[32, 64]."""
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(32, 64)


#: Model function -> (number of steps per measured batch, largest allowed ratio hpu_backend / Inductor).
MODELS: dict[Callable[[], tuple[nn.Module, torch.Tensor]], tuple[int, float]] = {
    resnet18: (5, 1.0),
    transformer: (20, 1.0),
    mlp: (50, 1.0),
    small_mlp: (50, 0.95),
}


def make_training_step(model: nn.Module, x: torch.Tensor, backend: str) -> Callable[[], object]:
    """Compile a model with a backend; return a function that runs forward and backward on the input `x`."""
    compiled = torch.compile(model, backend=backend)

    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        compiled(x).square().mean().backward()

    return step


def main() -> None:
    """Measure the training steps of all models, and print the ratios."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ratios = []
    for make, (calls, target) in MODELS.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, x = make()
        host = make_training_step(model, x, "inductor")
        device = make_training_step(copy.deepcopy(model).to("hpu"), x.to("hpu"), "hpu_backend")
        for _ in range(3):
            host()
            device()
        cpu, hpu = best_of([host, device], calls, rounds=25)
        ratios.append(hpu / cpu)
        figure = f"compiled {make.__name__}: {cpu * 1e3:.2f} ms on cpu, {hpu * 1e3:.2f} ms on hpu, ratio"
        print_figure(figure, ratios[-1], target)
    print_figure("compiled training step, hpu / cpu, geometric mean", geometric_mean(ratios), 1.0)


if __name__ == "__main__":
    main()
