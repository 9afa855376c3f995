"""Random numbers as a function of a seed tensor: the same seed gives the same numbers in every mode.

Each number is a hash of the seed and of its position. 32-bit words are stored in int64; multipliers have 31
bits, so that products do not overflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0x6D5AD4BB, 0x2C4C1B51, 0x31848BAB)
#: Factor of the stream number in the hash: each stream of a seed has different random numbers.
_STREAM = 0x1F123BB5
#: Number of bisection steps for a Poisson number, enough for a search range of less than 2^32 numbers.
_HALVINGS = 33

Dtype = torch.dtype | None
#: The smallest int64.
_LEAST = -(1 << 63)


def random_words(seed: torch.Tensor, size: Sequence[int], stream: int = 0) -> torch.Tensor:
    """Return random 32-bit words as int64."""
    count = math.prod(size)
    position = torch.arange(count, dtype=torch.int64, device=seed.device)
    start = seed.reshape(-1)[0].to(torch.int64)
    key = _hash_words((start & _WORD) ^ (stream * _STREAM & _WORD))
    key = _hash_words(key ^ ((start >> 32) & _WORD))
    low = _hash_words((position & _WORD) ^ key)
    return _hash_words((low + key + (position >> 32)) & _WORD).reshape(list(size))


def uniform(seed: torch.Tensor, size: Sequence[int], stream: int = 0) -> torch.Tensor:
    """Return float32 numbers in [0, 1), multiples of 2^-24."""
    return (random_words(seed, size, stream) >> 8).to(torch.float32) * 2.0**-24


def _uniform_in_dtype(seed: torch.Tensor, size: Sequence[int], dtype: Dtype) -> torch.Tensor:
    """Return uniform numbers in [0, 1) with the precision of the dtype, so that no number is rounded to 1."""
    kind = dtype or torch.get_default_dtype()
    bits = {torch.bfloat16: 8, torch.float16: 11}.get(kind, 24)
    return ((random_words(seed, size) >> (32 - bits)).to(torch.float32) * 2.0**-bits).to(kind)


def normal(seed: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Return standard normal float32 numbers, by the Box-Muller transform."""
    radius = torch.sqrt(-2 * torch.log(1 - uniform(seed, size)))
    return radius * torch.cos(2 * math.pi * uniform(seed, size, 1))


def draw_seeds(count: int, device: torch.device) -> torch.Tensor:
    """Draw int32 seeds from the device's generator."""
    return torch.randint(0, 2**31 - 1, (count,), dtype=torch.int32, device=device)


def habana_seed_generator(seed: torch.Tensor, counter: torch.Tensor, size: int) -> torch.Tensor:
    """Return ``size`` int32 seeds that depend on a seed and a counter."""
    start = seed.reshape(-1)[0].to(torch.int64) + counter.reshape(-1)[0].to(torch.int64) * (1 << 32)
    return (random_words(start.reshape(1), [size], 2) >> 1).to(torch.int32)


def habana_random_seed(input: torch.Tensor) -> torch.Tensor:
    """Draw a seed from the device's generator, int32[1]."""
    return draw_seeds(1, input.device)


def habana_rand(
    seed: torch.Tensor, size: Sequence[int], dtype: Dtype = None, layout: object = None,
    device: object = None, pin_memory: object = None,
) -> torch.Tensor:  # fmt: skip
    """Return uniform numbers in [0, 1)."""
    return _uniform_in_dtype(seed, size, dtype)


def habana_randn(
    seed: torch.Tensor, size: Sequence[int], dtype: Dtype = None, layout: object = None,
    device: object = None, pin_memory: object = None,
) -> torch.Tensor:  # fmt: skip
    """Return standard normal numbers."""
    return normal(seed, size).to(dtype or torch.get_default_dtype())


def habana_randint(
    seed: torch.Tensor, low: int, high: int, size: Sequence[int], dtype: Dtype = torch.int64,
    layout: object = None, device: object = None, pin_memory: object = None,
) -> torch.Tensor:  # fmt: skip
    """Return integers from ``low`` to below ``high``.

    Raises:
        RuntimeError: ``low`` is not below ``high``.
    """
    span = high - low
    if span <= 0:
        raise RuntimeError(f"habana_randint draws from low to below high, but {low} is not below {high}")
    if span < 1 << 63:
        wide = (random_words(seed, size) << 31) | (random_words(seed, size, 1) >> 1)
        return (low + torch.remainder(wide, span)).to(dtype or torch.int64)
    # Draw an unsigned 64-bit number. If the number is not below the span, subtract the span. int64 sums wrap
    # around to the correct result.
    wide = (random_words(seed, size) << 32) | random_words(seed, size, 1)
    beyond = (wide ^ _LEAST) >= span + _LEAST
    return (torch.where(beyond, wide - (span - (1 << 64)), wide) + low).to(dtype or torch.int64)


def habana_bernoulli(seed: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return 1 with the probability in each element of ``self``, otherwise 0."""
    return (uniform(seed, self.shape) < self).to(self.dtype)


def habana_bernoulli_p(seed: torch.Tensor, self: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    """Return 1 with the probability ``p``, otherwise 0, in the shape of ``self``."""
    return (uniform(seed, self.shape) < p).to(self.dtype)


def habana_bernoulli_Tensor(seed: torch.Tensor, self: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """Return 1 with the probability in each element of ``p``, otherwise 0, in the shape of ``self``."""
    return (uniform(seed, self.shape) < p).to(self.dtype)


def habana_bernoulli_Size(
    seed: torch.Tensor, size: Sequence[int], p: float, dtype: Dtype = None, layout: object = None,
    device: object = None, pin_memory: object = None,
) -> torch.Tensor:  # fmt: skip
    """Return 1 with the probability ``p``, otherwise 0."""
    return (uniform(seed, size) < p).to(dtype or torch.get_default_dtype())


def custom_bernoulli_Size(
    size: Sequence[int], p: float, dtype: Dtype = None, layout: object = None,
    device: torch.device | None = None, pin_memory: object = None,
) -> torch.Tensor:  # fmt: skip
    """Return 1 with the probability ``p``, otherwise 0, drawn from the device's generator."""
    drawn = torch.rand(list(size), device=device or torch.device(DEVICE_TYPE))
    return (drawn < p).to(dtype or torch.get_default_dtype())


def habana_uniform(
    seed: torch.Tensor, self: torch.Tensor, from_: float = 0.0, to: float = 1.0
) -> torch.Tensor:
    """Return uniform numbers in [from_, to), in the shape of ``self``."""
    values = (from_ + (to - from_) * uniform(seed, self.shape)).to(self.dtype)
    return torch.where(
        values >= to, torch.full_like(values, from_), values
    )  # rounding can raise a number to `to`, which is not in the range


def habana_poisson(seed: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return a Poisson number for each mean in ``self``, by inversion of the distribution function."""
    mean = self.double()
    drawn = uniform(seed, self.shape).double()
    low = torch.zeros_like(mean)
    high = torch.ceil(mean + 40 * torch.sqrt(mean + 1) + 40)
    for _ in range(_HALVINGS):
        middle = torch.floor((low + high) / 2)
        # P(X <= middle) is the regularized upper incomplete gamma function.
        enough = torch.special.gammaincc(middle + 1, mean) > drawn
        low, high = torch.where(enough, low, middle + 1), torch.where(enough, middle, high)
        low = torch.minimum(low, high)
    return torch.where(mean == 0, torch.zeros_like(high), high).to(self.dtype)


def habana_poisson_meta(seed: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return an empty tensor with the shape of the result of `habana_poisson`."""
    return torch.empty_like(self)


def habana_multinomial(
    seed: torch.Tensor, self: torch.Tensor, num_samples: int, replacement: bool = False
) -> torch.Tensor:
    """Draw indices of the last dimension. The elements of ``self`` are the weights of the indices.

    Without replacement, the indices of the largest log(weight) + Gumbel noise (Yellott, 1977) are returned.
    """
    weights = self.float()
    if replacement:
        total = torch.cumsum(weights, -1)
        drawn = uniform(seed, [*self.shape[:-1], num_samples]) * total[..., -1:]
        indices = torch.searchsorted(total, drawn, right=True)
        return indices.clamp(max=self.size(-1) - 1)
    noise = -torch.log(-torch.log(uniform(seed, self.shape).clamp(2.0**-24, 1 - 2.0**-24)))
    return torch.topk(torch.log(weights) + noise, num_samples, -1).indices


def habana_randperm(
    seed: torch.Tensor, n: int, dtype: Dtype = torch.int64, layout: object = None, device: object = None,
    pin_memory: object = None,
) -> torch.Tensor:  # fmt: skip
    """Return a permutation of 0 to n - 1."""
    keys = (random_words(seed, [n]) << 31) | (random_words(seed, [n], 1) >> 1)
    return torch.argsort(keys, stable=True).to(dtype or torch.int64)


def habana_native_dropout(
    seed: torch.Tensor, input: torch.Tensor, p: float, train: bool | None = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result of dropout, and the mask of retained elements."""
    if train is False:
        return input.clone(), torch.ones(input.shape, dtype=torch.bool, device=input.device)
    if p >= 1:
        return torch.zeros_like(input), torch.zeros(input.shape, dtype=torch.bool, device=input.device)
    retained = uniform(seed, input.shape) >= p
    return input * retained * (1 / (1 - p)), retained


def habana_rand_st(seed: torch.Tensor, shape_tensor: torch.Tensor, dtype: Dtype = None, layout: object = None,
    device: object = None, pin_memory: object = None) -> torch.Tensor:  # fmt: skip
    """Call `habana_rand` with the shape of ``shape_tensor``."""
    return habana_rand(seed, shape_tensor.shape, dtype)


def habana_randn_st(seed: torch.Tensor, shape_tensor: torch.Tensor, dtype: Dtype = None,
    layout: object = None, device: object = None, pin_memory: object = None) -> torch.Tensor:  # fmt: skip
    """Call `habana_randn` with the shape of ``shape_tensor``."""
    return habana_randn(seed, shape_tensor.shape, dtype)


def habana_randint_st(seed: torch.Tensor, low: int, high: int, shape_tensor: torch.Tensor,
    dtype: Dtype = torch.int64, layout: object = None, device: object = None,
    pin_memory: object = None) -> torch.Tensor:  # fmt: skip
    """Call `habana_randint` with the shape of ``shape_tensor``."""
    return habana_randint(seed, low, high, shape_tensor.shape, dtype)


def habana_randperm_ht(seed: torch.Tensor, h2d_tensor: torch.Tensor, shape_tensor: torch.Tensor,
    dtype: Dtype = torch.int64, layout: object = None, device: object = None,
    pin_memory: object = None) -> torch.Tensor:  # fmt: skip
    """Call `habana_randperm` with the number of elements of ``shape_tensor``."""
    return habana_randperm(seed, shape_tensor.numel(), dtype)


def randperm_out(n: int, seed: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Do the same as `habana_randperm`, and write the result to ``out``."""
    return out.copy_(habana_randperm(seed, n, out.dtype))


def randperm_out_ds_ht(ht: torch.Tensor, seed: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Call `randperm_out` with the number of elements of ``output``."""
    return randperm_out(output.numel(), seed, output)


def _hash_words(bits: torch.Tensor) -> torch.Tensor:
    """Hash 32-bit words, which are stored in int64. The hash is one-to-one."""
    first, second, third = _MULTIPLIERS
    bits = (bits ^ (bits >> 17)) * first & _WORD
    bits = (bits ^ (bits >> 11)) * second & _WORD
    bits = (bits ^ (bits >> 15)) * third & _WORD
    return bits ^ (bits >> 14)
