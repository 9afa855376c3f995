"""Make torch's ``quantized_decomposed`` operators round to 8-bit floats like the device.

torch's kernels first round to integers, for every dtype, which loses most digits of numbers below 16. torch's
kernels also do not dequantize 8-bit floats per channel. On hpu the quotient is rounded once, to the 8-bit
float. For integer dtypes torch's kernels are used.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.device_type import DISPATCH_KEY

import torch

from .import_hooks import run_after_import

#: A copy of `internal.operators.low_precision_rounding.FP8`. That module needs the core, which is not loaded
#: yet when this module is imported.
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)

_FUNCTIONS = {
    "quantize_per_tensor": "quantize_per_tensor",
    "quantize_per_tensor.tensor": "quantize_per_tensor_tensor",
    "quantize_per_tensor.tensor2": "quantize_per_tensor_tensor2",
    "quantize_per_channel": "quantize_per_channel",
}

_library: torch.library.Library | None = None


def register_quantized_decomposed_kernels() -> None:
    """Register hpu kernels as soon as torch has defined the operators."""
    run_after_import("torch.ao.quantization.fx._decomposed", _register)


def _register(module: ModuleType) -> None:
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("quantized_decomposed", "FRAGMENT")
    for name, function in _FUNCTIONS.items():
        original = getattr(module, function)
        _library.impl(
            name,
            _wrap_quantize_per_channel(original)
            if "channel" in name
            else _wrap_quantize_per_tensor(original),
            DISPATCH_KEY,
        )
    _library.impl(
        "dequantize_per_channel", _wrap_dequantize_per_channel(module.dequantize_per_channel), DISPATCH_KEY
    )


def _wrap_quantize_per_tensor(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def quantize(
        input: torch.Tensor, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: torch.dtype
    ) -> torch.Tensor:
        if dtype not in FP8:
            return original(input, scale, zero_point, quant_min, quant_max, dtype)
        scaled: torch.Tensor = input.float() * (1.0 / scale) + zero_point
        return scaled.clamp(quant_min, quant_max).to(dtype)

    return quantize


def _wrap_quantize_per_channel(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def quantize(
        input: torch.Tensor,
        scales: torch.Tensor,
        zero_points: torch.Tensor,
        axis: int,
        quant_min: int,
        quant_max: int,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        if dtype not in FP8:
            return original(input, scales, zero_points, axis, quant_min, quant_max, dtype)
        sizes = _broadcast_sizes(input, axis)
        quotient = input.float() * (1.0 / scales.reshape(sizes)) + zero_points.reshape(sizes)
        return quotient.clamp(quant_min, quant_max).to(dtype)

    return quantize


def _wrap_dequantize_per_channel(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def dequantize(
        input: torch.Tensor,
        scales: torch.Tensor,
        zero_points: torch.Tensor | None,
        axis: int,
        quant_min: int,
        quant_max: int,
        dtype: torch.dtype,
        *,
        out_dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        if dtype not in FP8:
            return original(
                input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype=out_dtype
            )
        sizes = _broadcast_sizes(input, axis)
        values = input.float() if zero_points is None else input.float() - zero_points.reshape(sizes)
        return (values * scales.reshape(sizes)).to(out_dtype or torch.float32)

    return dequantize


def _broadcast_sizes(input: torch.Tensor, axis: int) -> list[int]:
    """Return the sizes to which a vector with one value per index of ``axis`` is reshaped to broadcast."""
    sizes = [1] * input.dim()
    sizes[axis] = -1
    return sizes
