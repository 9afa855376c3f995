"""Compare conversions to fp8 and 4 bits, and fp8 products, with independent formulas in float64."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import scipy.stats
import torch
from torch.nn import functional

from .reference import assert_close_to_reference, float64_copies_with_grad
from .samples import E4M3, E5M2, fp8, normal, number, random_integers

hpu = torch.ops.hpu


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_fp8_is_the_nearest_number_and_saturates(dtype: torch.dtype) -> None:
    values = torch.cat((normal(500) * 10, torch.tensor([1e9, -1e9, math.inf, -math.inf, 0.0], device="hpu")))
    rounded, amax = hpu.cast_to_fp8_v2(values, number(2.0), False, True, dtype)
    grid = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    grid = grid[grid.isfinite() & (grid.abs() <= (240 if dtype == E4M3 else 57344))]  # GAUDI2
    scaled = (values.cpu().double() * 2).clamp(grid.min(), grid.max())
    distance = (scaled[:, None] - grid).abs().amin(1)
    assert_close_to_reference((rounded.cpu().double() - scaled).abs(), distance, 0, 0)
    assert amax.cpu().isinf() and not rounded.cpu().float().isinf().any()
    assert (
        hpu.cast_to_fp8_v2(torch.tensor([math.nan], device="hpu"), 1.0, dtype=dtype)[0].cpu().float().isnan()
    )


def test_unsupported_fp8_casts_raise() -> None:
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
        hpu.cast_to_fp8_v2(random_integers(3, below=2), dtype=E4M3)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_stochastic_rounding_has_the_right_mean_and_follows_the_seed(dtype: torch.dtype) -> None:
    values = torch.tensor([1.03, 5.7, -0.3, 200.0, 0.021], device="hpu")
    torch.hpu.manual_seed(5)
    many = values.expand(40_000, -1).contiguous()
    rounded = hpu.cast_to_fp8_v2(many, None, True, False, dtype)[0].cpu().double()
    spread = rounded.std(0) / math.sqrt(len(rounded))
    assert bool(((rounded.mean(0) - values.cpu().double()).abs() <= 5 * spread + 1e-9).all())
    assert (
        rounded.unique(dim=0).shape[0] > 2
        and float(((rounded - values.cpu()) / values.cpu()).abs().max()) <= 0.26
    )
    torch.hpu.manual_seed(5)
    assert torch.equal(hpu.cast_to_fp8_v2(many, None, True, False, dtype)[0].cpu().double(), rounded)


def test_hybrid_casts_and_back() -> None:
    x = normal(40)
    wide, narrow, amax = hpu.cast_to_fp8_hybrid(x, number(2.0), number(4.0), False, True)
    assert wide.dtype == E5M2 and narrow.dtype == E4M3
    assert_close_to_reference(amax, x.cpu().abs().max())
    assert_close_to_reference(hpu.cast_from_fp8(wide, number(0.5), torch.float32), x.cpu(), 0.13, 1e-4)
    assert_close_to_reference(hpu.cast_from_fp8(narrow, 0.25, torch.bfloat16), x.cpu(), 0.07, 1e-3)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_scales_are_applied_in_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    x, scale = (normal(300) * 5).bfloat16(), number(1.3)
    rounded, _ = hpu.cast_to_fp8_v2(x, scale, dtype=dtype)
    limit = 240 if dtype == E4M3 else 57344
    expected = (x.cpu() * scale.cpu().bfloat16()).float().clamp(-limit, limit).to(dtype)
    assert torch.equal(rounded.cpu().float(), expected.float())
    back = hpu.cast_from_fp8(rounded, scale.reciprocal(), torch.bfloat16)
    assert torch.equal(back.cpu(), expected.bfloat16() * scale.cpu().reciprocal().bfloat16())


def test_only_the_format_of_gradients_is_rounded_stochastically() -> None:
    x = torch.full((1000,), 18.5, device="hpu")
    wide, narrow, _ = hpu.cast_to_fp8_hybrid(x, None, None, True, False)
    assert wide.float().cpu().unique().tolist() == [16, 20]
    assert narrow.float().cpu().unique().tolist() == [18]


def test_result_scale_of_a_product() -> None:
    input_scale, result_scale = number(1.0), number(0.25)
    ones = torch.ones(16, 16).to(E5M2).to("hpu")
    product = torch._scaled_mm(
        ones, ones.t(), input_scale, input_scale, scale_result=result_scale, out_dtype=E5M2
    )
    assert product.dtype == E5M2 and product.float().cpu().unique().tolist() == [4]
    out = torch.empty(0, dtype=E5M2, device="hpu")
    torch._scaled_mm(
        ones, ones.t(), input_scale, input_scale, scale_result=result_scale, out_dtype=E5M2, out=out
    )
    assert torch.equal(out.float(), product.float())


def test_arithmetic_of_fp8_with_numbers() -> None:
    values = torch.tensor([1.0, -3.0], device="hpu").to(E5M2)
    for result, expected in (
        (values * 1.5, [1.5, -4.0]),
        (values + 1, [2.0, -2.0]),
        (values + values, [2, -6]),
    ):
        assert result.dtype == E5M2 and result.float().tolist() == expected


@pytest.mark.parametrize("signed", [False, True])
def test_int4_values_are_dequantized(signed: bool) -> None:
    packed_words = torch.randint(-(2**31), 2**31 - 1, (6, 2), dtype=torch.int64).to(torch.int32)
    scale, zero = normal(3, 16), torch.randint(-(2**31), 2**31 - 1, (3, 2), dtype=torch.int64).to(torch.int32)

    def unpack_nibbles(packed: torch.Tensor) -> numpy.ndarray:
        bits = packed.numpy().view(numpy.uint32)
        nibbles = numpy.stack([(bits >> (4 * nibble)) & 15 for nibble in range(8)], -1).astype(int)
        nibbles = numpy.where(nibbles >= 8, nibbles - 16, nibbles) if signed else nibbles
        return nibbles.reshape(*packed.shape[:-1], -1)

    call = hpu.convert_from_int4 if signed else hpu.convert_from_uint4
    dequantized = call(packed_words.to("hpu"), scale, zero.to("hpu"), torch.float32)
    each = numpy.repeat(unpack_nibbles(zero), 2, 0), numpy.repeat(scale.cpu().double().numpy(), 2, 0)
    assert_close_to_reference(dequantized, (unpack_nibbles(packed_words) - each[0]) * each[1])


def test_nf4_values_are_dequantized_in_blocks() -> None:
    packed = torch.arange(256, dtype=torch.uint8)
    largest = torch.linspace(0.5, 4, 8)
    dequantized = hpu.dequantize_nf4(packed.to("hpu"), largest.to("hpu"), 64, [7, 73], torch.float32).cpu()
    steps = scipy.stats.norm.ppf(numpy.linspace(1 - 1 / 2 * (1 / 32 + 1 / 30), 0.5, 9)[:-1])
    below = scipy.stats.norm.ppf(numpy.linspace(1 - 1 / 2 * (1 / 32 + 1 / 30), 0.5, 8)[:-1])
    values = numpy.concatenate((-below, [0.0], steps[::-1])) / steps[0]
    expected = [
        values[nibble] * float(largest[(2 * byte + half) // 64])
        for byte in range(256)
        for half, nibble in enumerate((byte >> 4, byte & 15))
    ]
    assert_close_to_reference(dequantized.reshape(-1), numpy.array(expected[: 7 * 73]), 1e-5, 1e-6)
    with pytest.raises(RuntimeError, match="too few values"):
        hpu.dequantize_nf4(packed.to("hpu"), largest.to("hpu"), 64, [513], torch.float32)
    with pytest.raises(RuntimeError, match="too few blocks"):
        hpu.dequantize_nf4(packed.to("hpu"), largest[:2].to("hpu"), 64, [512], torch.float32)
    with pytest.raises(RuntimeError, match="uint8"):
        hpu.dequantize_nf4(packed.int().to("hpu"), largest.to("hpu"), 64, [512], torch.float32)


def test_mxfp4_rounds_in_blocks() -> None:
    x = normal(4, 64)
    rounded = hpu.fake_quant_fp4(x, False, -1, "mxfp4").cpu().double()
    blocks, deviations = x.cpu().double().reshape(4, 2, 32), []
    steps = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    grid = torch.cat((-steps, steps))
    for block in blocks.reshape(-1, 32):
        unit = 2.0 ** (math.floor(math.log2(float(block.abs().max()))) - 2)
        nearest = (block[:, None] / unit - grid).abs().amin(1)
        deviations.append((rounded.reshape(-1, 32)[len(deviations)] / unit - block / unit).abs() - nearest)
    assert float(torch.stack(deviations).abs().max()) < 1e-6


def test_products_of_fp8() -> None:
    a, b, bias, scale = fp8(2, 3, 5), fp8(2, 4, 5), normal(4), normal(4).abs()
    output = hpu.fp8_gemm_v2(
        a, False, b, True, normal(2, 3, 4, seed=6), torch.float32, number(0.5), scale, bias, True, [1, 4]
    )
    expected = (
        float64_copies_with_grad(a)[0]
        @ float64_copies_with_grad(b)[0].transpose(1, 2)
        * 0.5
        * float64_copies_with_grad(scale)[0]
    )
    assert_close_to_reference(
        output,
        (
            expected
            + float64_copies_with_grad(bias)[0]
            + float64_copies_with_grad(normal(2, 3, 4, seed=6))[0]
        ).detach(),
    )
    vector = hpu.fp8_gemm_v2(fp8(5), False, fp8(5, 2), False, None, torch.bfloat16)
    assert_close_to_reference(
        vector,
        (float64_copies_with_grad(fp8(5))[0] @ float64_copies_with_grad(fp8(5, 2))[0]).detach(),
        1e-2,
        1e-2,
    )
    with pytest.raises(RuntimeError, match="with accumulate needs D"):
        hpu.fp8_gemm_v2(a, False, b, True, None, torch.float32, accumulate=True)
    x, w = fp8(2, 3, 6, 6), fp8(4, 3, 3, 3)
    output = hpu.conv2d_fp8(x, w, bias, [2, 1], [1, 0], [1, 2], 1, torch.float32, number(0.5), scale)
    expected = functional.conv2d(
        float64_copies_with_grad(x)[0], float64_copies_with_grad(w)[0], None, (2, 1), (1, 0), (1, 2)
    )
    assert_close_to_reference(
        output,
        (
            expected * 0.5 * float64_copies_with_grad(scale)[0].reshape(-1, 1, 1)
            + float64_copies_with_grad(bias)[0].reshape(-1, 1, 1)
        ).detach(),
    )
    assert_close_to_reference(hpu.sum_fp8(x, [1, 2], False, torch.float32), x.cpu().double().sum((1, 2)))
    assert hpu.sum_fp8(x, None).dtype == E4M3
    parts = [normal(2, 3, 4), normal(2, 4, 3, seed=2), normal(2, 3, 1, seed=3), normal(2, 1, 3, seed=4)]
    a, b, c, d = float64_copies_with_grad(*parts)
    assert_close_to_reference(hpu.masked_batch_gemm(*parts, False, False), (a @ b + c @ d).detach())


@pytest.mark.parametrize("kinds", [(E4M3, E4M3), (E5M2, E4M3)], ids=["e4m3", "mixed"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("parts", ["none", "scales", "bias", "all"])
def test_fp8_gemm_writes_its_output(
    parts: str, turned: tuple[bool, bool], kinds: tuple[torch.dtype, torch.dtype]
) -> None:
    a, b = fp8(3, 5, dtype=kinds[0]), fp8(5, 4, dtype=kinds[1], seed=2)
    expected = float64_copies_with_grad(a)[0] @ float64_copies_with_grad(b)[0]
    factors = [
        factor.t().contiguous() if turn else factor for factor, turn in zip((a, b), turned, strict=True)
    ]
    scales, bias = [number(0.5), normal(4, seed=3).abs()], normal(4, seed=4)
    added = normal(3, 4, seed=5)
    if parts in ("scales", "all"):
        expected = expected * 0.5 * float64_copies_with_grad(scales[1])[0]
    else:
        scales = [None, None]
    if parts in ("bias", "all"):
        expected = expected + float64_copies_with_grad(bias)[0]
    if parts == "all":
        expected = expected + float64_copies_with_grad(added)[0]
    else:
        added.fill_(math.nan)  # without accumulation, the operator must not read `added`
    for dtype, rtol in ((torch.float32, 1e-5), (torch.bfloat16, 2**-8)):
        out = torch.full((3, 4), 7.0, dtype=dtype, device="hpu")
        output = hpu.fp8_gemm(
            factors[0], turned[0], factors[1], turned[1], added, dtype, *scales,
            bias if parts in ("bias", "all") else None, parts == "all", out,
        )  # fmt: skip
        assert output is out
        assert_close_to_reference(out, expected.detach(), rtol)
