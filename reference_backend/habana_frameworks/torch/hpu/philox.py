"""The generator's state as a (seed, offset) pair, 16 bytes, for programs that compute offsets.

`torch.distributed.tensor` gives each shard of a random tensor its own offset and advances all ranks by the
same amount. The underlying generator has no offset, so each pair maps to one of its seeds: offset 0 to the
seed itself, other offsets to a mix of seed and offset. Equal pairs give equal values, different pairs give
unrelated values, and ranks that run the same calls stay equal.
"""

from __future__ import annotations

import zlib

import torch

_WORD = 2**64

# The last (seed, offset) pair that `set_state` set, and the generator's state directly after it was set.
_pair: tuple[int, int] | None = None
_state_at_pair: bytes = b""


def get_state(generator: torch.Generator) -> torch.Tensor:
    """Return the pair that describes the generator, as uint8[16] on the CPU: seed, offset, little-endian.

    If the generator was used after a pair was set, the result has a later offset that is derived from its
    state. Therefore values drawn inside and outside of the philox context do not repeat each other.
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
    """Set the generator to a pair of seed and offset.

    Args:
        generator: the device's generator.
        state: uint8[16] on the CPU, as `get_state` returns.

    Raises:
        RuntimeError: the tensor has a different number of elements or a different dtype.
    """
    global _pair, _state_at_pair
    if state.dtype != torch.uint8 or state.numel() != 16:
        raise RuntimeError(
            f"an RNG state of {state.numel()} elements of {state.dtype} is not a seed and offset. Inside the "
            "philox context use 16 bytes of uint8, as get_rng_state returns there."
        )
    raw = bytes(state.contiguous().numpy())
    pair = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
    generator.manual_seed(_generator_seed(*pair))
    _pair, _state_at_pair = pair, bytes(generator.get_state().numpy())


def _generator_seed(seed: int, offset: int) -> int:
    if offset == 0:
        return seed
    # The finaliser of splitmix64: every bit of the pair affects every bit of the result.
    mixed = (seed + offset * 0x9E3779B97F4A7C15) % _WORD
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % _WORD
    return mixed ^ (mixed >> 31)


def _pack(seed: int, offset: int) -> torch.Tensor:
    raw = (seed % _WORD).to_bytes(8, "little") + offset.to_bytes(8, "little")
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)
