"""Random numbers: the generator of the device and its seed.

The generator is a host object. When the host issues a random operator, it draws a seed for the operator from
the generator. Equal seeds give equal values on hpu, but other values than on other devices.

Functions with a device parameter accept the device of this process (see
`visible_modules.is_own_device_index`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.settings.visible_modules import is_own_device_index

import torch

from . import philox
from ._utils import _get_device_index
from .initialization import _lazy_init

# The generator exists before the device is acquired, so that a program can set the seed early.
default_generators: tuple[torch.Generator] = (_C.default_generator(),)

_context: str | None = None


def manual_seed(seed: int) -> torch.Generator:
    """Seed the generator of the device and return the generator.

    Args:
        seed: an integer that fits in 64 bits, signed or unsigned. A negative seed n means 2**64 + n.

    Raises:
        RuntimeError: the seed does not fit in 64 bits; or the process was forked from a process that has
            acquired the device.
    """
    return _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices of this process, which has one device.

    Raises:
        RuntimeError: as for `manual_seed`.
    """
    manual_seed(seed)


def seed() -> int:
    """Seed the generator from the system's entropy source and return the seed."""
    return _generator().seed()


def seed_all() -> None:
    """Seed the generators of all devices of this process from the system's entropy source."""
    seed()


def initial_seed() -> int:
    """Return the seed that the generator last received."""
    return _generator().initial_seed()


def get_rng_state(device: Any = DEVICE_TYPE) -> torch.Tensor:
    """Return the state of the generator, a uint8 CPU tensor in the format of the CPU generator.

    Inside ``set_rng_ctx("philox")`` the state has 16 bytes: the seed and an offset, 8 bytes each.

    Raises:
        RuntimeError: `device` is not the device of this process; or the process was forked.
    """
    generator = _generator(device)
    if _context == "philox":
        return philox.get_state(generator)
    return generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = DEVICE_TYPE) -> None:
    """Set the generator to a state that `get_rng_state` returned in the same context.

    Args:
        new_state: uint8 tensor, on any device.
        device: the device of this process.

    Raises:
        RuntimeError: the tensor is not a valid state; or as for `get_rng_state`.
    """
    generator = _generator(device)
    new_state = new_state.cpu()
    if _context == "philox":
        philox.set_state(generator, new_state)
    else:
        generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return a list of generator states, with one entry because the process has one device."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of all generators to states that `get_rng_state_all` returned.

    Raises:
        RuntimeError: the number of states is not one.
    """
    states = list(new_states)
    if len(states) != 1:
        raise RuntimeError(
            f"set_rng_state_all got {len(states)} states, but this process has one device. Pass one state."
        )
    set_rng_state(states[0])


def set_rng_ctx(ctx: str) -> None:
    """Make `get_rng_state` and `set_rng_state` use (seed, offset) pairs until `unset_rng_ctx` is called.

    `torch.distributed.tensor` requires such pairs.

    Args:
        ctx: "philox".

    Raises:
        ValueError: the name is not "philox".
    """
    global _context
    _context = _checked_context(ctx)


def unset_rng_ctx(ctx: str) -> None:
    """End the context that `set_rng_ctx` began: RNG states are full generator states again.

    Raises:
        ValueError: as for `set_rng_ctx`.
    """
    global _context
    _checked_context(ctx)
    _context = None


def _checked_context(ctx: str) -> str:
    if ctx != "philox":
        raise ValueError(f"{ctx!r} is not a context for random number generation. Use 'philox'.")
    return ctx


def _generator(device: Any = None) -> torch.Generator:
    index = _get_device_index(device, optional=True)
    if not is_own_device_index(index):
        raise RuntimeError(
            f"device {index} has no generator in this process. Use {DEVICE_TYPE}:0, its only device."
        )
    if _C.is_in_bad_fork():
        _lazy_init()
    return default_generators[index if index < len(default_generators) else 0]
