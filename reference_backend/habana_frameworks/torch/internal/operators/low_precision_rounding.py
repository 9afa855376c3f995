"""Rounding to 8-bit and 4-bit numbers."""

from __future__ import annotations

from habana_frameworks.torch import _C

import torch

from ..settings import bridge_config
from ..settings.hardware_limits import simulated_device_model

E4M3 = torch.float8_e4m3fn
E5M2 = torch.float8_e5m2
FP8 = (E4M3, E5M2)
#: Largest finite e4m3 number of this package's operators. On GAUDI2, the default model, e4m3 has an infinity,
#: so the largest finite number is 240, not 448. The number is read at import, because Dynamo cannot trace a
#: call of the core.
_LARGEST_E4M3 = 240.0 if simulated_device_model() == "GAUDI2" else float(_C.largest_e4m3())
#: Number of mantissa bits, and exponent of the smallest normal number, by format.
_SHAPES = {E4M3: (3, -6), E5M2: (2, -14), torch.bfloat16: (7, -126), torch.float16: (10, -14)}
#: Dtypes by their number in torch, for schemas with dtype numbers.
_NUMBERS = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
    6: torch.float32, 7: torch.float64, 11: torch.bool, 15: torch.bfloat16, 23: E5M2, 24: E4M3,
}  # fmt: skip
#: Number of elements that share a scale in the MX formats of the Open Compute Project.
MX_BLOCK = 32
#: Values of 4-bit NormalFloat: quantiles of a normal distribution, from appendix E of arXiv 2305.14314.
NORMAL_FLOAT = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
#: Largest number of e2m1, and its exponent.
_E2M1_LARGEST, _E2M1_EXPONENT = 6.0, 2


def to_compute_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to float32, the dtype in which operators compute. float64 stays float64."""
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def largest_finite_number(dtype: torch.dtype) -> float:
    """Return the largest finite number of an fp8 dtype on this device."""
    return _LARGEST_E4M3 if dtype == E4M3 else float(torch.finfo(dtype).max)


def to_fp8(values: torch.Tensor, dtype: torch.dtype, stochastic: bool = False) -> torch.Tensor:
    """Round float32 to fp8. Larger magnitudes and infinity become the largest number; NaN stays NaN.

    Values are rounded to nearest, ties to even. If ``stochastic``, they are rounded up or down at random, so
    that the mean is the value. If ``PT_HPU_STOCHASTIC_ROUNDING_MODE`` is 1, stochastic rounding also
    converts magnitudes below half of the smallest positive fp8 number to zero.
    """
    if stochastic:
        return round_stochastically(values, dtype, torch.rand_like(values))
    limit = largest_finite_number(dtype)
    return values.clamp(-limit, limit).to(dtype)


def round_stochastically(values: torch.Tensor, dtype: torch.dtype, drawn: torch.Tensor) -> torch.Tensor:
    """Round float32 up or down by ``drawn``, uniform in [0, 1), so that the mean is the value.

    Raises:
        RuntimeError: stochastic rounding to this dtype is not supported.
    """
    if dtype not in _SHAPES:
        names = ", ".join(str(supported).removeprefix("torch.") for supported in _SHAPES)
        raise RuntimeError(f"stochastic rounding supports {names}, but the dtype is {dtype}")
    limit = largest_finite_number(dtype)
    bits, smallest = _SHAPES[dtype]
    flushes = dtype in FP8 and bridge_config.value_of("PT_HPU_STOCHASTIC_ROUNDING_MODE") == 1
    bounded = values.clamp(-limit, limit)
    return (
        _round_to_mantissa_stochastically(bounded, bits, smallest, drawn, flushes)
        .clamp(-limit, limit)
        .to(dtype)
    )


def dtype_from_scalar_type_number(number: int) -> torch.dtype:
    """Return the dtype that has this number in torch's list of scalar types.

    Raises:
        RuntimeError: the device does not convert to a dtype with this number.
    """
    if int(number) not in _NUMBERS:
        raise RuntimeError(f"{number} is not the number of a supported dtype. Use one of {sorted(_NUMBERS)}.")
    return _NUMBERS[int(number)]


def to_e2m1(values: torch.Tensor, stochastic: bool = False) -> torch.Tensor:
    """Round float32 to the numbers 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, as float32."""
    bounded = values.clamp(-_E2M1_LARGEST, _E2M1_LARGEST)
    if stochastic:
        drawn = torch.rand_like(values)
        return _round_to_mantissa_stochastically(bounded, 1, 0, drawn).clamp(-_E2M1_LARGEST, _E2M1_LARGEST)
    unit = _unit_in_last_place(bounded, 1, 0)
    return torch.round(bounded / unit) * unit


def mx_block_scale(amax: torch.Tensor) -> torch.Tensor:
    """Return the power of two by which a block with the largest magnitude ``amax`` is divided to fit e2m1.

    See the specification of MX formats 1.0, section 6.3.
    """
    return _power_of_two((_exponent(amax) - _E2M1_EXPONENT).clamp(min=-126))


def _round_to_mantissa_stochastically(
    values: torch.Tensor, bits: int, smallest: int, drawn: torch.Tensor, flushes: bool = False
) -> torch.Tensor:
    unit = _unit_in_last_place(values, bits, smallest)
    steps = values / unit
    low = torch.floor(steps)
    # Compare the fraction with the random number. floor(steps + drawn) would be inexact, because float32
    # rounds the sum.
    rounded = (low + (steps - low > drawn)) * unit
    if flushes:
        tiny = 2.0 ** (smallest - bits - 1)
        rounded = torch.where(values.abs() < tiny, torch.zeros_like(values), rounded)
    return torch.where(values.isnan(), values, rounded)


def _unit_in_last_place(values: torch.Tensor, bits: int, smallest: int) -> torch.Tensor:
    """Return the distance between neighbouring numbers of a format with ``bits`` mantissa bits, per value."""
    return _power_of_two((_exponent(values).clamp(min=smallest) - bits).clamp(min=-126))


def _exponent(values: torch.Tensor) -> torch.Tensor:
    """Return the exponents of float32 numbers as int32: 0 for 1.0, and -127 for subnormal numbers and 0."""
    return ((values.detach().float().contiguous().view(torch.int32) >> 23) & 255) - 127


def _power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """Return exact powers of two, for int32 exponents from -126 to 127."""
    return ((exponent + 127) << 23).view(torch.float32)
