"""Random numbers: the generator of the device and its seed.

The generator is on the host; each random operator draws its seed from it when it is issued. Equal seeds give
equal values on hpu, but not the values of another device.

Functions that take a device accept the one of this process (see `internal.settings.modules.is_own_index`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.settings.visible_modules import is_own_index

import torch

from . import philox
from ._utils import _get_device_index
from .initialization import _lazy_init

# One device, one generator. It exists before the device is acquired, so that seeds can be set early.
default_generators: tuple[torch.Generator] = (_C.default_generator(),)

_context: str | None = None


def manual_seed(seed: int) -> torch.Generator:
    """Seed the generator and return it.

    Args:
        seed: any integer that fits 64 bits, signed or not; a negative one counts from 2**64 downwards.

    Raises:
        RuntimeError: the seed does not fit; or the process was forked from one that has the device.
    """
    return _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices of this process, that is, of one. Errors as in `manual_seed`."""
    manual_seed(seed)


def seed() -> int:
    """Seed the generator from the system's source of randomness; returns the seed."""
    return _generator().seed()


def seed_all() -> None:
    """Do what `seed` does for all devices of this process."""
    seed()


def initial_seed() -> int:
    """The seed that the generator was last given."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "hpu") -> torch.Tensor:
    """State of the generator, a uint8 tensor on the CPU in the layout of the CPU's generator.

    Inside ``set_rng_ctx("philox")`` it has 16 bytes: the seed and an offset, 8 bytes each.

    Raises:
        RuntimeError: `device` is not the device of this process; or the process was forked.
    """
    generator = _generator(device)
    if _context == "philox":
        return philox.get_state(generator)
    return generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "hpu") -> None:
    """Set the generator to a state that `get_rng_state` returned in the same context.

    Args:
        new_state: uint8 tensor, on any device.
        device: the device of this process.

    Raises:
        RuntimeError: the tensor is not such a state; or as `get_rng_state`.
    """
    generator = _generator(device)
    new_state = new_state.cpu()
    if _context == "philox":
        philox.set_state(generator, new_state)
    else:
        generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of the generators of all devices of this process: a list of one."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of all generators, as `get_rng_state_all` returned them.

    Raises:
        RuntimeError: there is not exactly one state.
    """
    states = list(new_states)
    if len(states) != 1:
        raise RuntimeError(
            f"set_rng_state_all got {len(states)} states and this process has one device: give one"
        )
    set_rng_state(states[0])


def set_rng_ctx(ctx: str) -> None:
    """Make RNG states seed-and-offset pairs, as `torch.distributed.tensor` requires, until `unset_rng_ctx`.

    Args:
        ctx: "philox".

    Raises:
        ValueError: any other name.
    """
    global _context
    _context = _known(ctx)


def unset_rng_ctx(ctx: str) -> None:
    """End the context of `set_rng_ctx`. Errors as in `set_rng_ctx`."""
    global _context
    _known(ctx)
    _context = None


def _known(ctx: str) -> str:
    if ctx != "philox":
        raise ValueError(f"{ctx!r} is no context for random number generation: use 'philox'")
    return ctx


def _generator(device: Any = None) -> torch.Generator:
    index = _get_device_index(device, optional=True)
    if not is_own_index(index):
        raise RuntimeError(f"device {index} has no generator in this process: use hpu:0, its only device")
    if _C.is_in_bad_fork():
        _lazy_init()
    return default_generators[index if index < len(default_generators) else 0]
