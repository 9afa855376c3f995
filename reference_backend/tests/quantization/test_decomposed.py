"""Test `quantized_decomposed` on hpu: integers equal torch's, and fp8 values are rounded once."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401
import pytest
import torch

importlib.import_module("torch.ao.quantization.fx._decomposed")
quantized = torch.ops.quantized_decomposed
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LIMITS = {E4M3: (-448, 448), E5M2: (-57344, 57344), torch.int8: (-128, 127), torch.uint8: (0, 255)}


def quantize_in_form(form: str, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    low, high = LIMITS[dtype]
    scale, zero = torch.tensor(0.37, device=x.device), torch.tensor(0, device=x.device)
    if form == "number":
        return quantized.quantize_per_tensor(x, 0.37, 0, low, high, dtype)
    if form == "tensor":
        return quantized.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    if form == "limits":
        limits = torch.tensor(low, device=x.device), torch.tensor(high, device=x.device)
        return quantized.quantize_per_tensor.tensor2(x, scale, zero, *limits, dtype)
    scales = torch.linspace(0.1, 2, x.shape[1], device=x.device)
    return quantized.quantize_per_channel(x, scales, torch.zeros_like(scales), 1, low, high, dtype)


def random_numbers() -> torch.Tensor:
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(0)) * 10


def mode_parameters() -> list[Any]:
    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()
        return torch.compile(function, backend="hpu_backend", fullgraph=True)

    return [pytest.param(lambda function: function, id="eager"), pytest.param(compiled, id="compile")]


@pytest.mark.parametrize("form", ["number", "tensor", "limits", "channel"])
@pytest.mark.parametrize("dtype", list(LIMITS), ids=str)
@pytest.mark.parametrize("way", mode_parameters())
def test_numbers_are_rounded_once(way: Callable[..., Any], dtype: torch.dtype, form: str) -> None:
    x = random_numbers()
    quantized = way(lambda values: quantize_in_form(form, values, dtype))(x.to("hpu"))
    assert quantized.device.type == "hpu" and quantized.dtype == dtype
    if not dtype.is_floating_point:
        assert torch.equal(quantized.cpu(), quantize_in_form(form, x, dtype))
        return
    scale = torch.linspace(0.1, 2, 7) if form == "channel" else torch.full((7,), 0.37)
    low, high = LIMITS[dtype]
    expected = (x * (1 / scale)).clamp(low, high).to(dtype)
    assert torch.equal(quantized.cpu().view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("dtype", [E4M3, torch.int8], ids=str)
@pytest.mark.parametrize("way", mode_parameters())
def test_dequantize_restores_values(way: Callable[..., Any], dtype: torch.dtype) -> None:
    low, high = LIMITS[dtype]

    def quantize_and_dequantize(values: torch.Tensor) -> torch.Tensor:
        inner = quantized.quantize_per_tensor(values, 0.37, 0, low, high, dtype)
        return quantized.dequantize_per_tensor(inner, 0.37, 0, low, high, dtype)

    x = random_numbers()
    restored = way(quantize_and_dequantize)(x.to("hpu")).cpu()
    step = 0.37 / 2 if dtype == torch.int8 else x.abs() / 16 + 1e-3
    assert bool(((restored - x).abs() <= step * 1.01).all())
    scales = torch.linspace(0.1, 2, 7)
    packed = quantize_in_form("channel", x.to("hpu"), dtype)
    back = quantized.dequantize_per_channel(
        packed, scales.to("hpu"), None, 1, low, high, dtype, out_dtype=torch.float32
    )
    torch.testing.assert_close(back.cpu(), packed.cpu().float() * scales)


def operator_arguments(form: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the arguments of an operator for `form` and `dtype`, with tensors on the device."""
    low, high = LIMITS[dtype]
    x = random_numbers().to("hpu")
    values = x if form.startswith("quantize") else quantize_in_form("number", x, dtype)
    tensors = [torch.tensor(number, device="hpu") for number in (0.37, 0, low, high)]
    if "channel" in form:
        scales = torch.linspace(0.1, 2, 7, device="hpu")
        return values, scales, torch.zeros(7, dtype=torch.int64, device="hpu"), 1, low, high, dtype
    if form.endswith(".tensor2"):
        return values, *tensors, dtype
    if form.endswith(".tensor"):
        return values, *tensors[:2], low, high, dtype
    return values, 0.37, 0, low, high, dtype


@pytest.mark.parametrize("dtype", list(LIMITS), ids=str)
@pytest.mark.parametrize(
    "form",
    [
        f"{way}{kind}"
        for way in ("quantize", "dequantize")
        for kind in ("_per_tensor", "_per_tensor.tensor", "_per_tensor.tensor2", "_per_channel")
    ],
)
def test_opcheck_passes(form: str, dtype: torch.dtype) -> None:
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    # `test_autograd_registration` does not apply, because torch supports it only for CPU, CUDA and XPU.
    if form.startswith("dequantize") and dtype.is_floating_point:
        checks.remove("test_schema")  # the check multiplies fp8 values, which torch's CPU does not support
    name, _, overload = form.partition(".")
    operator = getattr(getattr(quantized, name), overload or "default")
    check_results = torch.library.opcheck(operator, operator_arguments(form, dtype), test_utils=checks)
    assert check_results == dict.fromkeys(checks, "SUCCESS")
