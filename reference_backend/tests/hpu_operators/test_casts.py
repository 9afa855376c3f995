"""Conversions to fp8 and 4 bits, and products of fp8, by other formulas in float64."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import scipy.stats
import torch
from torch.nn import functional

from .reference import close, host
from .samples import E4M3, E5M2, fp8, normal, number, whole

hpu = torch.ops.hpu


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_fp8_is_the_nearest_number_and_saturates(dtype: torch.dtype) -> None:
    values = torch.cat((normal(500) * 10, torch.tensor([1e9, -1e9, math.inf, -math.inf, 0.0], device="hpu")))
    found, amax = hpu.cast_to_fp8_v2(values, number(2.0), False, True, dtype)
    grid = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    grid = grid[grid.isfinite()]
    scaled = (values.cpu().double() * 2).clamp(grid.min(), grid.max())
    distance = (scaled[:, None] - grid).abs().amin(1)
    close((found.cpu().double() - scaled).abs(), distance, 0, 0)
    assert amax.cpu().isinf() and not found.cpu().float().isinf().any()
    assert (
        hpu.cast_to_fp8_v2(torch.tensor([math.nan], device="hpu"), 1.0, dtype=dtype)[0].cpu().float().isnan()
    )


def test_what_fp8_cannot_is_refused() -> None:
    x = fp8(3)
    with pytest.raises(RuntimeError, match=r"must have no amax for float8"):
        hpu.cast_to_fp8_v2(x, None, False, True, E4M3)
    with pytest.raises(RuntimeError, match="must have the same dtype for float8"):
        hpu.cast_to_fp8_v2(x, None, False, False, E5M2)
    with pytest.raises(RuntimeError, match="has 2 elements, but scale_shape"):
        hpu.cast_to_fp8_v2(normal(3), [1.0, 2.0], False, False, E4M3, [3])
    with pytest.raises(RuntimeError, match="dtype is None"):
        hpu.cast_to_fp8_v2(normal(3))
    with pytest.raises(RuntimeError, match=r"input is torch\.int64"):
        hpu.cast_to_fp8_v2(whole(3, below=2), dtype=E4M3)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_stochastic_rounding_has_the_right_mean_and_is_seeded(dtype: torch.dtype) -> None:
    values = torch.tensor([1.03, 5.7, -0.3, 200.0, 0.021], device="hpu")
    torch.hpu.manual_seed(5)
    many = values.expand(40_000, -1).contiguous()
    found = hpu.cast_to_fp8_v2(many, None, True, False, dtype)[0].cpu().double()
    spread = found.std(0) / math.sqrt(len(found))
    assert bool(((found.mean(0) - values.cpu().double()).abs() <= 5 * spread + 1e-9).all())
    assert (
        found.unique(dim=0).shape[0] > 2
        and float(((found - values.cpu()) / values.cpu()).abs().max()) <= 0.26
    )
    torch.hpu.manual_seed(5)
    assert torch.equal(hpu.cast_to_fp8_v2(many, None, True, False, dtype)[0].cpu().double(), found)


def test_hybrid_casts_and_back() -> None:
    x = normal(40)
    wide, narrow, amax = hpu.cast_to_fp8_hybrid(x, number(2.0), number(4.0), False, True)
    assert wide.dtype == E5M2 and narrow.dtype == E4M3
    close(amax, x.cpu().abs().max())
    close(hpu.cast_from_fp8(wide, number(0.5), torch.float32), x.cpu(), 0.13, 1e-4)
    close(hpu.cast_from_fp8(narrow, 0.25, torch.bfloat16), x.cpu(), 0.07, 1e-3)


@pytest.mark.parametrize("signed", [False, True])
def test_values_of_four_bits(signed: bool) -> None:
    words = torch.randint(-(2**31), 2**31 - 1, (6, 2), dtype=torch.int64).to(torch.int32)
    scale, zero = normal(3, 16), torch.randint(-(2**31), 2**31 - 1, (3, 2), dtype=torch.int64).to(torch.int32)

    def unpacked(packed: torch.Tensor) -> numpy.ndarray:
        bits = packed.numpy().view(numpy.uint32)
        found = numpy.stack([(bits >> (4 * place)) & 15 for place in range(8)], -1).astype(int)
        found = numpy.where(found >= 8, found - 16, found) if signed else found
        return found.reshape(*packed.shape[:-1], -1)

    call = hpu.convert_from_int4 if signed else hpu.convert_from_uint4
    found = call(words.to("hpu"), scale, zero.to("hpu"), torch.float32)
    each = numpy.repeat(unpacked(zero), 2, 0), numpy.repeat(scale.cpu().double().numpy(), 2, 0)
    close(found, (unpacked(words) - each[0]) * each[1])


def test_values_of_normal_float_come_in_pairs_and_blocks() -> None:
    packed = torch.arange(256, dtype=torch.uint8)
    largest = torch.linspace(0.5, 4, 8)
    found = hpu.dequantize_nf4(packed.to("hpu"), largest.to("hpu"), 64, [7, 73], torch.float32).cpu()
    steps = scipy.stats.norm.ppf(numpy.linspace(1 - 1 / 2 * (1 / 32 + 1 / 30), 0.5, 9)[:-1])
    below = scipy.stats.norm.ppf(numpy.linspace(1 - 1 / 2 * (1 / 32 + 1 / 30), 0.5, 8)[:-1])
    values = numpy.concatenate((-below, [0.0], steps[::-1])) / steps[0]
    due = [
        values[nibble] * float(largest[(2 * place + half) // 64])
        for place in range(256)
        for half, nibble in enumerate((place >> 4, place & 15))
    ]
    close(found.reshape(-1), numpy.array(due[: 7 * 73]), 1e-5, 1e-6)
    with pytest.raises(RuntimeError, match="too few values"):
        hpu.dequantize_nf4(packed.to("hpu"), largest.to("hpu"), 64, [513], torch.float32)
    with pytest.raises(RuntimeError, match="too few blocks"):
        hpu.dequantize_nf4(packed.to("hpu"), largest[:2].to("hpu"), 64, [512], torch.float32)
    with pytest.raises(RuntimeError, match="uint8"):
        hpu.dequantize_nf4(packed.int().to("hpu"), largest.to("hpu"), 64, [512], torch.float32)


def test_fp4_in_blocks() -> None:
    x = normal(4, 64)
    found = hpu.fake_quant_fp4(x, False, -1, "mxfp4").cpu().double()
    blocks, due = x.cpu().double().reshape(4, 2, 32), []
    steps = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    grid = torch.cat((-steps, steps))
    for block in blocks.reshape(-1, 32):
        unit = 2.0 ** (math.floor(math.log2(float(block.abs().max()))) - 2)
        nearest = (block[:, None] / unit - grid).abs().amin(1)
        due.append((found.reshape(-1, 32)[len(due)] / unit - block / unit).abs() - nearest)
    assert float(torch.stack(due).abs().max()) < 1e-6


def test_products_of_fp8() -> None:
    a, b, bias, scale = fp8(2, 3, 5), fp8(2, 4, 5), normal(4), normal(4).abs()
    found = hpu.fp8_gemm_v2(
        a, False, b, True, normal(2, 3, 4, seed=6), torch.float32, number(0.5), scale, bias, True, [1, 4]
    )
    due = host(a)[0] @ host(b)[0].transpose(1, 2) * 0.5 * host(scale)[0]
    close(found, (due + host(bias)[0] + host(normal(2, 3, 4, seed=6))[0]).detach())
    vector = hpu.fp8_gemm_v2(fp8(5), False, fp8(5, 2), False, None, torch.bfloat16)
    close(vector, (host(fp8(5))[0] @ host(fp8(5, 2))[0]).detach(), 1e-2, 1e-2)
    with pytest.raises(RuntimeError, match="with accumulate needs D"):
        hpu.fp8_gemm_v2(a, False, b, True, None, torch.float32, accumulate=True)
    x, w = fp8(2, 3, 6, 6), fp8(4, 3, 3, 3)
    found = hpu.conv2d_fp8(x, w, bias, [2, 1], [1, 0], [1, 2], 1, torch.float32, number(0.5), scale)
    due = functional.conv2d(host(x)[0], host(w)[0], None, (2, 1), (1, 0), (1, 2))
    close(found, (due * 0.5 * host(scale)[0].reshape(-1, 1, 1) + host(bias)[0].reshape(-1, 1, 1)).detach())
    close(hpu.sum_fp8(x, [1, 2], False, torch.float32), x.cpu().double().sum((1, 2)))
    assert hpu.sum_fp8(x, None).dtype == E4M3
    parts = [normal(2, 3, 4), normal(2, 4, 3, seed=2), normal(2, 3, 1, seed=3), normal(2, 1, 3, seed=4)]
    a, b, c, d = host(*parts)
    close(hpu.masked_batch_gemm(*parts, False, False), (a @ b + c @ d).detach())


@pytest.mark.parametrize("kinds", [(E4M3, E4M3), (E5M2, E4M3)], ids=["e4m3", "mixed"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("parts", ["none", "scales", "bias", "all"])
def test_products_of_fp8_are_written(
    parts: str, turned: tuple[bool, bool], kinds: tuple[torch.dtype, torch.dtype]
) -> None:
    a, b = fp8(3, 5, dtype=kinds[0]), fp8(5, 4, dtype=kinds[1], seed=2)
    due = host(a)[0] @ host(b)[0]
    given = [one.t().contiguous() if turn else one for one, turn in zip((a, b), turned, strict=True)]
    scales, bias = [number(0.5), normal(4, seed=3).abs()], normal(4, seed=4)
    added = normal(3, 4, seed=5)
    if parts in ("scales", "all"):
        due = due * 0.5 * host(scales[1])[0]
    else:
        scales = [None, None]
    if parts in ("bias", "all"):
        due = due + host(bias)[0]
    if parts == "all":
        due = due + host(added)[0]
    else:
        added.fill_(math.nan)  # read only to accumulate to
    for dtype, rtol in ((torch.float32, 1e-5), (torch.bfloat16, 2**-8)):
        out = torch.full((3, 4), 7.0, dtype=dtype, device="hpu")
        found = hpu.fp8_gemm(
            given[0], turned[0], given[1], turned[1], added, dtype, *scales,
            bias if parts in ("bias", "all") else None, parts == "all", out,
        )  # fmt: skip
        assert found is out
        close(out, due.detach(), rtol)
