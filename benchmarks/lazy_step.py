"""Measure a training step of a host-bound MLP in lazy mode / the same step on the CPU in eager mode.

Lazy mode is a state of the process, and the backend officially offers it only on a fork-like build. The
benchmark starts lazy mode through the backend's C++ module ``_C``, which works on any build, in a separate
process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.measure import best_of, print_figure


def make_training_step(device: str, finish: Callable[[], None]) -> Callable[[], None]:
    """Return a training step: forward, backward and SGD with momentum on eight float32 layers of width 32.

    Args:
        device: ``hpu`` or ``cpu``.
        finish: a function that is called after the backward pass and after the optimizer's step.
    """
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(16, 32).to(device), torch.randn(16, 32).to(device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        finish()
        optimizer.step()
        finish()

    return step


def measure() -> None:
    """Switch this process to lazy mode, measure the steps, and print the ratio."""
    from habana_frameworks.torch import _C

    torch.set_num_threads(1)
    host = make_training_step("cpu", lambda: None)
    for _ in range(5):
        host()
    _C.lazy_start(1)
    device = make_training_step("hpu", lambda: _C.lazy_flush(False))
    times = best_of([host, device], calls=100, rounds=15)
    torch.hpu.synchronize()
    stats = _C.recipe_cache_stats()
    print(f"lazy step: {times[0] * 1e6:.0f} us on cpu, {times[1] * 1e6:.0f} us lazy; {stats}")
    print_figure("lazy training step, host-bound MLP / cpu eager", times[1] / times[0], 0.7)


def main() -> None:
    """Run `measure` in a new process."""
    subprocess.run([sys.executable, "-c", "import benchmarks.lazy_step as b; b.measure()"], check=True)


if __name__ == "__main__":
    main()
