"""The check of a random program, copied into snippets. The suite does not run it."""

from __future__ import annotations

import sys
from typing import Any

import torch

DEVICE: Any = None


def check_registers(device_registers: list[torch.Tensor], cpu_registers: list[torch.Tensor]) -> None:
    """Exit with 1 if a register differs from the CPU's register."""
    for number, (actual, expected) in enumerate(zip(device_registers, cpu_registers, strict=True)):
        host = actual.cpu()
        if host.shape != expected.shape or host.dtype != expected.dtype or not torch.equal(host, expected):
            print(f"WRONG: x{number} on {DEVICE} is {host}, and on the CPU it is {expected}")
            sys.exit(1)
    print("ok: all registers equal the CPU's registers")
