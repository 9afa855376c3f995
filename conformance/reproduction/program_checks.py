"""The check of a program, for snippets: code that is copied into them, not run here."""

from __future__ import annotations

import sys
from typing import Any

import torch

DEVICE: Any = None


def check_registers(found: list[torch.Tensor], due: list[torch.Tensor]) -> None:
    """End the script with 1 if a register differs from that of the CPU."""
    for number, (got, want) in enumerate(zip(found, due, strict=True)):
        host = got.cpu()
        if host.shape != want.shape or host.dtype != want.dtype or not torch.equal(host, want):
            print(f"WRONG: x{number} on {DEVICE} is {host}, and on the CPU it is {want}")
            sys.exit(1)
    print("ok: all registers are as on the CPU")
