"""Measure one forward pass over all float32 samples of op_db, hpu / cpu.

The creation and the transfer of samples are not measured.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_map

from benchmarks.measure import print_figure
from conformance.subjects.torch_databases import subjects


def to_device(value: Any) -> Any:
    """Return a tensor as an hpu tensor, a device as the hpu device, and any other value unchanged."""
    if isinstance(value, torch.Tensor):
        return value.to("hpu")
    return torch.device("hpu") if isinstance(value, torch.device) else value


def seconds_of_calls(operator: Any, calls: list[tuple[Any, Any]]) -> float:
    """Call an operator with each (args, kwargs); return the total wall seconds."""
    start = time.perf_counter()
    for args, kwargs in calls:
        operator(*args, **kwargs)
    return time.perf_counter() - start


def main() -> None:
    """Measure all operators on both devices, and print the ratio of the total times."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    host_seconds = device_seconds = 0.0
    samples = operators = left_out = 0
    for subject in subjects("operator"):
        info = subject.info
        if torch.float32 not in info.dtypes:
            continue
        host, device = [], []
        for sample in info.sample_inputs("cpu", torch.float32):
            host.append(((sample.input, *sample.args), sample.kwargs))
            device.append(tree_map(to_device, host[-1]))
        # The first pass is not timed. Operators that raise an error are omitted, such as tensor_split, which
        # needs an argument on the CPU.
        try:
            seconds_of_calls(info.op, device)
            seconds_of_calls(info.op, host)
        except Exception:
            left_out += 1
            continue
        operators += 1
        samples += len(host)
        pairs = [(seconds_of_calls(info.op, host), seconds_of_calls(info.op, device)) for _ in range(3)]
        host_seconds += min(pair[0] for pair in pairs)
        device_seconds += min(pair[1] for pair in pairs)
    print(f"{operators} operators, {samples} samples, {left_out} operators omitted")
    print_figure(
        f"op_db forward: {host_seconds:.2f} s on cpu, {device_seconds:.2f} s on hpu, ratio",
        device_seconds / host_seconds,
        1.1,
    )


if __name__ == "__main__":
    main()
