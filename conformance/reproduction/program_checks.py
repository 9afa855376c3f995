"""The check of a program, for snippets: code that is copied into them, not run here."""

from __future__ import annotations

import sys
from typing import Any

import torch

DEVICE: Any = None


def check_registers(device_registers: list[torch.Tensor], cpu_registers: list[torch.Tensor]) -> None:
    """End the script with 1 if a register differs from that of the CPU."""
    for number, (actual, expected) in enumerate(zip(device_registers, cpu_registers, strict=True)):
        host = actual.cpu()
        if host.shape != expected.shape or host.dtype != expected.dtype or not torch.equal(host, expected):
            print(f"WRONG: x{number} on {DEVICE} is {host}, and on the CPU it is {expected}")
            sys.exit(1)
    print("ok: all registers are as on the CPU")
