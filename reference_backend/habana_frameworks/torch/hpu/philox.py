"""Represent the state of the device's random number generator as a pair (seed, offset).

`torch.distributed.tensor` requires such a pair: it gives each shard of a random tensor its own offset. The
device's generator has a seed but no offset. Therefore each pair is mapped to a seed of the generator: with
offset 0 to the seed of the pair, otherwise to a mix of seed and offset. Equal pairs give equal random
numbers, and different pairs give unrelated random numbers.
"""

from __future__ import annotations

import zlib

import torch

_WORD = 2**64

# The last (seed, offset) pair that `set_state` set, and the generator's state directly after it was set.
_pair: tuple[int, int] | None = None
_state_at_pair: bytes = b""


def get_state(generator: torch.Generator) -> torch.Tensor:
    """Return the pair (seed, offset) of the generator: 16 bytes, little-endian, as a uint8 CPU tensor.

    If random numbers were drawn after the pair was set, the result has another offset, which is derived from
    the generator's state. Therefore later pairs do not repeat the numbers that were already drawn.
    """
    state = bytes(generator.get_state().numpy())
    if _pair is not None and state == _state_at_pair:
        return _pack(*_pair)
    seed = generator.initial_seed()
    if _pair is not None and seed == _generator_seed(*_pair):
        seed, offset = _pair
    else:
        offset = 0
        if state == bytes(torch.Generator().manual_seed(seed).get_state().numpy()):
            return _pack(seed, 0)
    # Offsets are multiples of 4, as for philox generators.
    return _pack(seed, (offset + 4 * (1 + zlib.crc32(state))) % 2**63)


def set_state(generator: torch.Generator, state: torch.Tensor) -> None:
    """Set the generator to a pair (seed, offset).

    Args:
        generator: the device's random number generator.
        state: the pair as 16 bytes, in a uint8 CPU tensor, as `get_state` returns.

    Raises:
        RuntimeError: the tensor has a different number of elements or a different dtype.
    """
    global _pair, _state_at_pair
    if state.dtype != torch.uint8 or state.numel() != 16:
        raise RuntimeError(
            f"an RNG state of {state.numel()} elements of {state.dtype} is not a seed and offset. Inside the "
            "philox context use 16 bytes of uint8, as get_rng_state returns inside this context."
        )
    raw = bytes(state.contiguous().numpy())
    pair = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
    generator.manual_seed(_generator_seed(*pair))
    _pair, _state_at_pair = pair, bytes(generator.get_state().numpy())


def _generator_seed(seed: int, offset: int) -> int:
    if offset == 0:
        return seed
    # The mixing function of the generator splitmix64: every bit of the pair affects every bit of the result.
    mixed = (seed + offset * 0x9E3779B97F4A7C15) % _WORD
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % _WORD
    return mixed ^ (mixed >> 31)


def _pack(seed: int, offset: int) -> torch.Tensor:
    raw = (seed % _WORD).to_bytes(8, "little") + offset.to_bytes(8, "little")
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)
