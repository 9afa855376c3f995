"""Make `torch.manual_seed`, `torch.seed` and `torch.random.fork_rng` include hpu.

Seeding uses the hook that torch calls for out-of-tree devices (`torch.random._seed_custom_device`). Therefore
`torch.manual_seed` and `torch.seed` stay the same objects, which Dynamo recognises by identity, and
references imported earlier seed hpu too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, device_module

import torch

from .wrap_function import replace_function


def patch_manual_seed() -> None:
    """Make `torch.manual_seed` and `torch.seed` seed hpu too."""
    replace_function(torch.random, "_seed_custom_device", _wrap_seed_custom_device)


def patch_fork_rng() -> None:
    """Make `torch.random.fork_rng` save the state of the hpu generator by default."""
    replace_function(torch.random, "fork_rng", _wrap_fork_rng)


def _wrap_seed_custom_device(original: Callable[[int], None]) -> Callable[[int], None]:
    def seed_custom_device(seed: int) -> None:
        original(seed)
        # Workers of a data loader also seed torch, but they cannot use the device.
        if not device_module()._is_in_bad_fork():
            device_module().manual_seed_all(seed)

    return seed_custom_device


def _wrap_fork_rng(
    original: Callable[..., AbstractContextManager[None]],
) -> Callable[..., AbstractContextManager[None]]:
    def fork_rng(
        devices: Any = None,
        enabled: bool = True,
        _caller: str = "fork_rng",
        _devices_kw: str = "devices",
        device_type: str | None = DEVICE_TYPE,
    ) -> AbstractContextManager[None]:
        device_type = device_type or DEVICE_TYPE
        if devices is None and device_type == DEVICE_TYPE:
            devices = [] if device_module()._is_in_bad_fork() else [0]
        return original(devices, enabled, _caller, _devices_kw, device_type)

    return fork_rng
