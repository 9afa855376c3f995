"""Hooks of the target ``torch_xla``, whose device ``torch.accelerator`` does not know."""

from __future__ import annotations

import importlib


def synchronize() -> None:
    """Run the operators that the device has recorded so far, and wait for their results."""
    importlib.import_module("torch_xla").sync(wait=True)
