"""Measure the first compiled training step: hpu_backend / Inductor on the CPU.

Each measurement runs in a new process with empty caches.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.measure import geometric_mean, print_figure

ROUNDS = 3
MODELS = ("resnet18", "transformer")
DEVICES = {"cpu": "inductor", "hpu": "hpu_backend"}


def first_step(name: str, device: str) -> float:
    """Return the seconds of a model's first compiled step, forward and backward, in this process."""
    import torch

    if device == "hpu":
        import habana_frameworks.torch  # noqa: F401  registers the device

    from benchmarks import compile_steady_state as models

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = getattr(models, name)()
    step = models.make_training_step(model.to(device), x.to(device), DEVICES[device])
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def first_step_in_new_process(name: str, device: str) -> float:
    """Return the seconds of `first_step` in a new process with empty caches.

    Raises:
        subprocess.CalledProcessError: the process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
        # The device sets this variable when it is loaded. The child process would treat an inherited value as
        # a choice of the user.
        environment.pop("TORCHINDUCTOR_COMPILE_THREADS", None)
        command = [sys.executable, "-m", "benchmarks.compile_time", name, device]
        root = Path(__file__).resolve().parent.parent
        output = subprocess.run(
            command, env=environment, cwd=root, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    return float(output.split()[-1])


def main() -> None:
    """Measure the compilations of all models in alternation, and print the ratios."""
    ratios = []
    for name in MODELS:
        seconds: dict[str, list[float]] = {device: [] for device in DEVICES}
        for _ in range(ROUNDS):
            for device, times in seconds.items():
                times.append(first_step_in_new_process(name, device))
        cpu, hpu = (statistics.median(seconds[device]) for device in DEVICES)
        ratios.append(hpu / cpu)
        print_figure(
            f"first compiled step of {name}: {cpu:.1f} s on cpu, {hpu:.1f} s on hpu, ratio", ratios[-1], 1.1
        )
    print_figure("first compiled step, hpu / cpu, geometric mean", geometric_mean(ratios), 1.1)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(first_step(*sys.argv[1:]))
    else:
        main()
