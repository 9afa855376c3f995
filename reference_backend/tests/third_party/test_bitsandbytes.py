"""Test 4-bit weights of unmodified bitsandbytes: its kernel for hpu, a layer, its gradient, and a training.

bitsandbytes is not a requirement of the project. Without it, these tests are skipped.
"""

from __future__ import annotations

import importlib.util

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed."
)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("blocksize", [64, 256])
def test_4_bit_weights_are_the_nearest_values(dtype: torch.dtype, blocksize: int) -> None:
    from bitsandbytes import functional

    weight = torch.randn(64, 128, generator=torch.Generator().manual_seed(0)).to(dtype)
    packed, state = functional.quantize_4bit(weight.to("hpu"), blocksize=blocksize, quant_type="nf4")
    dequantized = functional.dequantize_4bit(packed, state)
    assert (
        dequantized.device.type == "hpu" and dequantized.dtype == dtype and dequantized.shape == weight.shape
    )
    # The CPU kernel is not the reference: in bitsandbytes 0.50 its results for blocks of 256 are wrong.
    blocks = weight.double().reshape(-1, blocksize)
    largest = blocks.abs().amax(1, keepdim=True)
    values = functional.get_4bit_type("nf4", device="cpu").double()
    nearest = (blocks[..., None] / largest[..., None] - values).abs().amin(-1) * largest
    error = (dequantized.cpu().double().reshape(-1, blocksize) - blocks).abs()
    torch.testing.assert_close(error, nearest, rtol=0, atol=8 * torch.finfo(dtype).eps)


def test_a_layer_of_4_bits_computes_and_passes_gradients() -> None:
    import bitsandbytes

    torch.manual_seed(0)
    linear = nn.Linear(128, 64)
    layer = bitsandbytes.nn.Linear4bit(128, 64, compute_dtype=torch.float32, quant_type="nf4")
    layer.load_state_dict(linear.state_dict())
    layer = layer.to("hpu")
    weight = bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state).cpu()
    assert 0 < (weight - linear.weight).abs().max() < 0.05
    x = torch.randn(5, 128)
    device_input = x.to("hpu").requires_grad_()
    result = layer(device_input)
    torch.testing.assert_close(
        result.cpu(), nn.functional.linear(x, weight, linear.bias), rtol=1e-4, atol=1e-4
    )
    result.sum().backward()
    torch.testing.assert_close(device_input.grad.cpu(), weight.sum(0).expand(5, -1), rtol=1e-4, atol=1e-4)


def test_an_adapter_next_to_a_layer_of_4_bits_learns() -> None:
    import bitsandbytes

    torch.manual_seed(0)
    frozen = bitsandbytes.nn.Linear4bit(32, 32, compute_dtype=torch.float32, quant_type="nf4").to("hpu")
    down, up = (nn.Linear(32, 32, bias=False).to("hpu") for _ in range(2))
    optimizer = torch.optim.AdamW([*down.parameters(), *up.parameters()], lr=1e-2)
    x, target_values = torch.randn(64, 32).to("hpu"), torch.randn(64, 32).to("hpu")
    losses = []
    for _ in range(30):
        loss = nn.functional.mse_loss(frozen(x) + up(down(x)), target_values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
