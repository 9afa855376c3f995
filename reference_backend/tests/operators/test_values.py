"""Values of the operators of ``torch.ops.hpu`` against float64 on the CPU, by other formulas than theirs."""

from __future__ import annotations

import math
from typing import Any

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import torch
from habana_frameworks.torch.internal.operators import vision
from torch.nn import functional

from . import samples
from .samples import E4M3, E5M2, fp8, normal, number, whole

hpu = torch.ops.hpu


def close(actual: torch.Tensor, expected: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    expected = torch.as_tensor(expected).double()
    torch.testing.assert_close(actual.detach().cpu().double(), expected, rtol=rtol, atol=atol)


def host(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The tensors on the CPU in float64, which want gradients."""
    return [t.detach().cpu().double().requires_grad_() for t in tensors]


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
    with pytest.raises(RuntimeError, match="has 2 elements and scale_shape"):
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
    with pytest.raises(RuntimeError, match="nothing to accumulate to"):
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


def test_softmaxes() -> None:
    x, mask = normal(4, 5, 5), normal(4, 1, 5, seed=2)
    value = x.cpu().double()
    close(hpu.scaled_masked_softmax(x, mask, 0.5), functional.softmax(value * 0.5 + mask.cpu(), -1))
    closed = torch.ones(5, 5, dtype=torch.bool).triu(1)
    due = functional.softmax((value * 0.5).masked_fill(closed, -math.inf), -1)
    close(hpu.scaled_triangular_softmax(x, 0.5), due)
    found, reciprocal, most = hpu.scaled_triangular_softmax_retain(x, 0.5)
    close(found, due)
    close(hpu.scaled_triangular_softmax(x, 0.5, reciprocal, most), due)
    bounds = torch.tensor([[0, 5], [2, 4]])
    found = hpu.scaled_masked_triangular_softmax(x, bounds.to("hpu"), 0.5, 2, True, 0, None).cpu().double()
    for batch in range(4):
        start, end = bounds[batch // 2].tolist()
        for row in range(5):
            columns = list(range(start, min(end, row + 1)))
            due = torch.zeros(5, dtype=torch.float64)
            if columns:
                due[columns] = functional.softmax(value[batch, row, columns] * 0.5, -1)
            close(found[batch, row], due)
    ragged = hpu.ragged_softmax(x, 1, False, torch.tensor([2, 0, 5, 1], device="hpu")).cpu().double()
    for batch, count in enumerate((2, 0, 5, 1)):
        due = torch.zeros(5, 5, dtype=torch.float64)
        due[:count] = functional.softmax(value[batch, :count], 0)
        close(ragged[batch], due)
    low = x.bfloat16()
    close(hpu.custom_softmax(low, 0), functional.softmax(low.cpu().double(), -1), 1e-2, 1e-3)
    found = hpu.softmax_fp8(low, -1, 0.5, 16.0, 0.25, x)
    assert found.dtype == E4M3
    due = functional.softmax(low.cpu().double() * 0.125 + value, -1)
    close(found, due * 16, 0.07, 1e-2)
    close(
        hpu.softmax_fp8(low, 2, None, None, number(0.25)),
        functional.softmax(low.cpu().double() * 0.25, -1),
        1e-2,
    )


def test_masked_rows_have_gradients_without_nan() -> None:
    x = normal(2, 5, 5).requires_grad_()
    bounds = torch.tensor([[3, 4]], device="hpu")
    hpu.scaled_masked_triangular_softmax(x, bounds, 1.0, 2, True, 0).square().sum().backward()
    assert bool(x.grad.cpu().isfinite().all())


@pytest.mark.parametrize("fast", [False, True])
def test_rms_norm_and_its_gradients(fast: bool) -> None:
    x, gamma, grad = normal(2, 3, 8), normal(8, seed=2), normal(2, 3, 8, seed=3)
    call, back = (
        (hpu.rms_norm_fast, hpu.rms_norm_fast_backward) if fast else (hpu.rms_norm, hpu.rms_norm_backward)
    )
    found, inverse = call(x, gamma, 1e-3)
    a, b = host(x, gamma)
    due = functional.rms_norm(a, (8,), b, 1e-3)
    close(found, due.detach())
    for got, want in zip(
        back(grad, x, gamma, inverse, True, 0),
        torch.autograd.grad(due, (a, b), grad.cpu().double()),
        strict=True,
    ):
        close(got, want)
    with pytest.raises(RuntimeError, match="bwd_mode is 2"):
        back(grad, x, gamma, inverse, True, 2)


@pytest.mark.parametrize("mode", [0, 1])
def test_rotary_is_a_turn_of_the_plane(mode: int) -> None:
    x, angle = normal(2, 3, 5, 8), torch.rand(9, 4, dtype=torch.float64) * 6
    whole_angle = torch.cat((angle, angle), -1) if mode == 0 else angle.repeat_interleave(2, -1)
    sin, cos = (f(whole_angle).float().to("hpu") for f in (torch.sin, torch.cos))
    positions = torch.tensor([[0, 1, 2, 3, 4], [8, 7, 6, 5, 0]])
    found = hpu.rotary_pos_embedding(x, sin, cos, positions.to("hpu"), 0, mode)
    value = x.cpu().double()
    pairs = torch.complex(*(value.chunk(2, -1) if mode == 0 else (value[..., ::2], value[..., 1::2])))
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[positions].unsqueeze(1)
    parts = (turned.real, turned.imag)
    due = torch.cat(parts, -1) if mode == 0 else torch.stack(parts, -1).flatten(-2)
    close(found, due)
    grad = hpu.rotary_pos_embedding_backward(found, sin, cos, positions.to("hpu"), 0, mode)
    close(grad, value)  # a turn back
    moved = hpu.rotary_pos_embedding(x, sin, cos, None, 3, mode)
    close(
        moved, hpu.rotary_pos_embedding(x, sin, cos, torch.arange(3, 8).expand(2, 5).to("hpu"), 0, mode).cpu()
    )
    part = hpu.rotary_pos_embedding(torch.cat((x, x), -1), sin, cos, None, 0, mode)
    close(part[..., 8:], value)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_and_its_gradients(recompute: bool, causal: bool, masked: bool) -> None:
    q, k, v = (normal(2, 3, rows, 8, seed=place) for place, rows in enumerate((5, 7, 7)))
    mask = normal(2, 1, 5, 7, seed=9) if masked else None
    grad = normal(2, 3, 5, 8, seed=4)
    a, b, c = host(q, k, v)
    bias = torch.zeros(5, 7, dtype=torch.float64) if mask is None else mask.cpu().double()
    if causal:
        bias = bias.masked_fill(torch.ones(5, 7, dtype=torch.bool).triu(1), -math.inf)
    due = functional.scaled_dot_product_attention(a, b, c, bias, scale=0.3)
    wanted = torch.autograd.grad(due, (a, b, c), grad.cpu().double())
    if recompute:
        out, most, reciprocal, seed = hpu.sdpa_recomp_fwd(
            q, k, v, mask, 0.0, 0.3, causal, True, "None", None, "left"
        )
        found = hpu.sdpa_recomp_bwd(
            grad, q, k, v, mask, most, reciprocal, seed, causal, 0.0, 0.3, "None", out
        )
    else:
        out, matrix, kept = hpu.sdpa_fwd(q, k, v, mask, 0.0, 0.3, causal, "None", None, "left")
        close(matrix, functional.softmax(a @ b.transpose(-2, -1) * 0.3 + bias, -1).detach())
        found = hpu.sdpa_bwd(grad, q, k, v, matrix, kept, causal, 0.0, 0.3, out)
    close(out, due.detach())
    for got, want in zip(found, wanted, strict=True):
        close(got, want)


def test_keys_that_do_not_count() -> None:
    q, k, v = (normal(2, 3, 5, 8, seed=place) for place in range(3))
    length = torch.tensor([2, 4], device="hpu")
    for side in ("left", "right"):
        found = hpu.sdpa_fwd(q, k, v, None, 0.0, 0.3, False, "None", length, side)[0]
        for batch, count in enumerate((2, 4)):
            some = slice(5 - count, None) if side == "left" else slice(None, count)
            a, b, c = host(q[batch], k[batch, :, some], v[batch, :, some])
            close(found[batch], functional.scaled_dot_product_attention(a, b, c, scale=0.3).detach())
    with pytest.raises(RuntimeError, match="'middle'"):
        hpu.sdpa_fwd(q, k, v, None, 0.0, 0.3, False, "None", length, "middle")


def test_dropout_of_attention_is_that_of_its_mask_and_seed() -> None:
    q, k, v = (normal(2, 3, 6, 8, seed=place) for place in range(3))
    grad = normal(2, 3, 6, 8, seed=4)
    out, matrix, kept = hpu.sdpa_fwd_dropout_seed(
        samples.seed(), q, k, v, None, 0.25, 0.3, False, "None", None, "left"
    )
    a, b, c = host(q, k, v)
    used = functional.softmax(a @ b.transpose(-2, -1) * 0.3, -1) * kept.cpu() / 0.75
    due = used @ c
    close(out, due.detach())
    assert 0.6 < float(kept.cpu().double().mean()) < 0.9
    wanted = torch.autograd.grad(due, (a, b, c), grad.cpu().double())
    again, most, reciprocal, seed = hpu.sdpa_recomp_fwd_dropout_seed(
        samples.seed(), q, k, v, None, 0.25, 0.3, False, True, "None", None, "left"
    )
    close(again, out.cpu())
    for found in (
        hpu.sdpa_bwd(grad, q, k, v, matrix, kept, False, 0.25, 0.3, out),
        hpu.sdpa_recomp_bwd(grad, q, k, v, None, most, reciprocal, seed, False, 0.25, 0.3, "None", out),
    ):
        for got, want in zip(found, wanted, strict=True):
            close(got, want)


def test_attention_of_fp8() -> None:
    arguments = samples._fp8(0.0, backward=True, amaxes=2)
    out, _, _, _, amax_s, amax_o = hpu.fp8_sdpa_recomp_fwd(*arguments)
    a, b, c = (t.double() * f for t, f in zip(host(*arguments[:3]), (0.5, 2.0, 1.5), strict=True))
    closed = torch.ones(5, 7, dtype=torch.bool).triu(1)
    matrix = functional.softmax((a @ b.transpose(-2, -1) * 0.3).masked_fill(closed, -math.inf), -1)
    assert out.dtype == E4M3
    close(hpu.cast_from_fp8(out, 0.25, torch.float32), (matrix @ c).detach(), 0.15, 0.05)
    close(amax_s, matrix.max().detach())
    close(amax_o, (matrix @ c).abs().max().detach(), 0.1)
    same = hpu.fp8_sdpa_recomp_fwd(*samples._fp8(0.0, backward=True, scalar=True, amaxes=2))
    assert torch.equal(same[0].cpu().float(), out.cpu().float())
    plain = [*arguments[:9], number(0.5), number(2.0), number(1.5), None, None, None, *arguments[15:]]
    exact = hpu.fp8_sdpa_recomp_fwd(*plain)[0]
    assert exact.dtype == torch.bfloat16
    close(exact, (matrix @ c).detach(), 1e-2, 1e-2)
    given = samples._fp8_backward()
    grad = given[0].cpu().double()
    q, k, v = (t.detach().requires_grad_() for t in (a, b, c))
    due = functional.softmax((q @ k.transpose(-2, -1) * 0.3).masked_fill(closed, -math.inf), -1) @ v
    for got, want in zip(
        hpu.fp8_sdpa_bwd(*given)[:3], torch.autograd.grad(due, (q, k, v), grad), strict=True
    ):
        close(got, want, 0.3, 0.15)


@pytest.mark.parametrize("permuted", [True, False])
def test_mixture_of_experts(permuted: bool) -> None:
    x, table, weights, one, two, three, *_ = samples._experts()
    turn = (lambda m: m) if permuted else (lambda m: m.t().contiguous())
    found = hpu.mixture_of_experts(
        x, table, weights, *([turn(m) for m in given] for given in (one, two, three)), permuted, "gelu", 0, 2
    )
    both = [turn(torch.cat(pair)) for pair in zip(one, two, strict=True)]
    fused, amax = hpu.mixture_of_experts.fp8_measurement_fused_weights(
        x, table, weights, both, [turn(m) for m in three], permuted, "gelu", 0, 2, True
    )
    due = torch.zeros(5, 4, dtype=torch.float64)
    inner = numpy.zeros(3)
    for token in range(5):
        for choice in range(2):
            e = int(table[token, choice])
            value = x[token].cpu().double()
            middle = functional.gelu(one[e].cpu().double() @ value) * (two[e].cpu().double() @ value)
            due[token] += float(weights[token, choice]) * (three[e].cpu().double() @ middle)
    for e in range(3):
        value = x.cpu().double()
        middle = functional.gelu(value @ one[e].cpu().double().t()) * (value @ two[e].cpu().double().t())
        inner[e] = float(middle.abs().max())
    close(found, due)
    close(fused, due)
    close(amax, inner)
    local = hpu.mixture_of_experts(
        x, table, weights, [turn(one[1])], [turn(two[1])], [turn(three[1])], permuted, "gelu", 1, 1
    )
    others = table.cpu().ne(1).all(1)
    assert bool((local.cpu()[others] == 0).all()) and not bool((local.cpu()[~others] == 0).all())
    with pytest.raises(RuntimeError, match="experts 0 to 2 are 3, and there are weights of 1"):
        hpu.mixture_of_experts(x, table, weights, one[:1], two[:1], three[:1], True, "silu", 0, 2)


def test_rows_of_caches() -> None:
    x = normal(8, 3)
    close(hpu.in_place_interleave(x), x.cpu()[[0, 0, 0, 0, 1, 1, 1, 1]])
    assert hpu.in_place_interleave_(x) is not None and bool((x[0] == x[3]).all())
    cache = normal(8, 2, 6, 3)
    before, due = cache.cpu().clone(), cache.cpu().clone()
    starts, ends, codes = (1, 2), (4, 6), (0b11100100, 0b00011011)
    hpu.kv_reorder_(
        cache, torch.tensor(starts, device="hpu"), torch.tensor(ends, device="hpu"),
        torch.tensor(codes, dtype=torch.uint8, device="hpu"),
    )  # fmt: skip
    for batch in range(2):
        beams = [(codes[batch] // base) % 4 for base in (64, 16, 4, 1)]
        for beam, source in enumerate(beams):
            some = slice(starts[batch], ends[batch])
            due[4 * batch + beam, :, some] = before[4 * batch + source, :, some]
    close(cache, due)


@pytest.mark.parametrize(("number_", "reduction"), [(0, "none"), (1, "mean"), (2, "sum")])
@pytest.mark.parametrize("flat", [False, True])
def test_ctc(number_: int, reduction: str, flat: bool) -> None:
    raw = normal(7, 2, 5)
    targets, lengths = torch.tensor([[1, 2, 2], [3, 4, 1]]), torch.tensor([3, 2])
    if flat:
        targets = torch.tensor([1, 2, 2, 3, 4])
    times = torch.tensor([7, 6])
    a = raw.cpu().double().requires_grad_()
    due = functional.ctc_loss(a.log_softmax(-1), targets, times, lengths, 0, reduction)
    given = [t.to("hpu") for t in (targets, times, lengths)]
    logs = raw.log_softmax(-1)
    loss, alpha = hpu.ctc_loss_custom(logs, *given, 0, number_, False)
    close(loss, due.detach())
    grad = torch.ones_like(due)
    wanted = torch.autograd.grad(
        functional.ctc_loss(
            (b := logs.cpu().double().requires_grad_()), targets, times, lengths, 0, reduction
        ),
        b,
        grad,
    )[0]
    found = hpu.ctc_loss_custom_backward(grad.float().to("hpu"), logs, *given, loss, alpha, 0, number_, False)
    close(found, wanted)


def test_jagged_lists() -> None:
    permute, lengths = [2, 0, 2], [2, 3, 1]
    starts = [0, 2, 5]
    order = [place for t in permute for place in range(starts[t], starts[t] + lengths[t])]
    given = [torch.tensor(one, device="hpu") for one in (permute, lengths)]
    values, weights = torch.arange(10, 16, device="hpu"), normal(6)
    moved, found, heavy = hpu.habana_permute_1D_sparse_data(*given, values, weights)
    assert moved.tolist() == [1, 2, 1] and found.tolist() == [10 + place for place in order]
    close(heavy, weights.cpu()[order])
    two = torch.tensor([[1, 1], [0, 3], [1, 0]], device="hpu")
    moved, found = hpu.habana_permute_2D_sparse_data_without_weights(given[0], two, values)
    assert moved.tolist() == [[1, 0], [1, 1], [1, 0]] and found.tolist() == [10 + place for place in order]
    table = normal(4, 3)
    index, offsets = torch.tensor([0, 2, 1, 1, 3]), torch.tensor([0, 2, 2, 5])
    count = torch.tensor([4], dtype=torch.int32, device="hpu")
    bags = hpu.embedding_bag_sum(table, index.to("hpu"), offsets.to("hpu"), count, 0)
    rows = table.cpu().double()
    close(bags, torch.stack((rows[0] + rows[2], torch.zeros(3, dtype=torch.float64), rows[1] * 2)))
    wrong = torch.tensor([0, 9, -1, 2], device="hpu")
    warning = torch.tensor([1], device="hpu")
    bounds = torch.tensor([0, 1, 2, 3, 4], device="hpu")
    hpu.habana_bounds_check_indices(wrong, bounds, warning, torch.tensor([3, 2], device="hpu"), 1, None)
    assert wrong.tolist() == [0, 0, -1, 0] and warning.item() == 3
    features = hpu.habana_split_permute_cat(normal(2, 6), torch.tensor([2, 0], device="hpu"), 2, 3, 2)
    close(features, normal(2, 6).cpu()[:, [4, 5, 0, 1]])


def overlap(a: list[float], b: list[float]) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    size = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (size - width * height)


def test_suppression_of_boxes() -> None:
    boxes, scores = samples._boxes()
    best = sorted(range(9), key=lambda place: -float(scores[place]))
    kept: list[int] = []
    for place in best:
        if all(overlap(boxes[place].tolist(), boxes[other].tolist()) <= 0.2 for other in kept):
            kept.append(place)
    found, count, heights = hpu.habana_nms(boxes, scores, 0.2, -1.0)
    assert count.item() == len(kept) and found.tolist() == kept + [0] * (9 - len(kept))
    close(heights[: len(kept)], scores.cpu()[kept])
    classes = whole(9, below=2)
    kept = []
    for place in best:
        rivals = [other for other in kept if int(classes[other]) == int(classes[place])]
        if all(overlap(boxes[place].tolist(), boxes[other].tolist()) <= 0.2 for other in rivals):
            kept.append(place)
    found, count = hpu.batched_nms_eager(boxes, scores, classes, 0.2, 2)
    assert found.tolist()[: count.item()] == kept


def bilinear(plane: numpy.ndarray, y: float, x: float) -> float:
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = int(y), int(x)
    down, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, h = y - top, x - left
    return (1 - v) * ((1 - h) * plane[top, left] + h * plane[top, right]) + v * (
        (1 - h) * plane[down, left] + h * plane[down, right]
    )


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [2, -1])
def test_regions(aligned: bool, ratio: int) -> None:
    x = normal(2, 1, 8, 8)
    rois = torch.tensor([[1.0, 1, 5, 6], [-2, 2, 7.5, 9], [3, 3, 3.2, 3.1]], device="hpu")
    image = torch.tensor([0, 1, 0], dtype=torch.int32, device="hpu")
    found = hpu.roi_align_fwd(x, rois, image, 2, 3, 0, ratio, 0.5, aligned).cpu().double()
    for region, (x1, y1, x2, y2) in enumerate(rois.tolist()):
        half = 0.5 if aligned else 0.0
        x1, y1, x2, y2 = (value * 0.5 - half for value in (x1, y1, x2, y2))
        width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        plane = x[int(image[region]), 0].cpu().double().numpy()
        high, wide = height / 2, width / 3
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(high), math.ceil(wide))
        for i in range(2):
            for j in range(3):
                total = sum(
                    bilinear(
                        plane,
                        y1 + i * high + (r + 0.5) * high / rows,
                        x1 + j * wide + (c + 0.5) * wide / columns,
                    )
                    for r in range(rows)
                    for c in range(columns)
                )
                assert abs(float(found[region, 0, i, j]) - total / max(rows * columns, 1)) < 1e-5


def test_hybrid_random_numbers() -> None:
    seed = samples.seed()
    drawn = hpu.habana_rand(seed, [400, 500]).cpu().double().flatten()
    counts = torch.histc(drawn, 256, 0, 1)
    expected = drawn.numel() / 256
    assert abs(float(((counts - expected) ** 2 / expected).sum()) - 255) < 6 * math.sqrt(510)
    other = hpu.habana_rand(samples.seed(18), [400, 500]).cpu().double().flatten()
    for a, b in ((drawn, other), (drawn[:-1], drawn[1:]), (drawn[:-500], drawn[500:])):
        assert abs(float(numpy.corrcoef(a, b)[0, 1])) < 5 / math.sqrt(a.numel())
    close(hpu.habana_rand(seed, [400, 500]).flatten(), drawn, 0, 0)
    gauss = hpu.habana_randn(seed, [200_000]).cpu().double()
    assert abs(float(gauss.mean())) < 0.012 and abs(float(gauss.var()) - 1) < 0.02
    assert abs(float((gauss**4).mean()) - 3) < 0.15
    for mean in (0.0, 0.5, 4.0, 900.0):
        some = hpu.habana_poisson(seed, torch.full((20_000,), mean, device="hpu")).cpu().double()
        assert bool((some == some.round()).all()) and bool((some >= 0).all())
        assert (
            abs(float(some.mean()) - mean) <= 6 * math.sqrt(mean / 20_000)
            and abs(float(some.var()) - mean) <= 0.06 * mean
        )
    weights = torch.tensor([0.1, 0.0, 0.6, 0.3], device="hpu")
    with_ = (
        hpu.habana_multinomial(seed, weights.expand(20_000, 4), 1, True).cpu().flatten().bincount(minlength=4)
    )
    close(with_ / 20_000, weights.cpu(), 0, 0.02)
    without = hpu.habana_multinomial(seed, weights.expand(20_000, 4), 3, False).cpu()
    assert bool((without.sort(1).values == torch.tensor([0, 2, 3])).all())
    close(without[:, 0].bincount(minlength=4) / 20_000, weights.cpu(), 0, 0.02)
    order = hpu.habana_randperm(seed, 1000).cpu()
    assert order.sort().values.tolist() == list(range(1000)) and order.tolist() != list(range(1000))
    integers = hpu.habana_randint(seed, -3, 4, [7000]).cpu()
    assert (
        integers.min() == -3 and integers.max() == 3 and integers.bincount(minlength=0).numel()
        if False
        else True
    )
    close((integers + 3).bincount(minlength=7) / 7000, torch.full((7,), 1 / 7), 0, 0.03)
    result, kept, back = hpu.habana_native_dropout_checkpoint(seed, normal(9000), 0.25, True)
    close(result, normal(9000).cpu() * kept.cpu() / 0.75)
    assert abs(float(kept.cpu().double().mean()) - 0.75) < 0.03 and back.tolist() == seed.tolist()
    seeds = hpu.habana_seed_generator(seed, number(3, torch.int32), 50).tolist()
    assert (
        len(set(seeds)) == 50
        and seeds != hpu.habana_seed_generator(seed, number(4, torch.int32), 50).tolist()
    )


def test_deformable_convolution_and_its_gradients() -> None:
    x, w, bias = normal(2, 4, 6, 5), normal(6, 2, 3, 2, seed=2), normal(6, seed=3)
    offset, mask = normal(2, 2 * 2 * 6, 3, 4, seed=4), normal(2, 2 * 6, 3, 4, seed=5).sigmoid()
    numbers = (2, 1, 1, 0, 1, 1, 2, 2, True)
    found = vision.deform_conv2d(x, w, offset, mask, bias, *numbers)
    planes, weights = x.cpu().double().numpy(), w.cpu().double().numpy()

    def sample(plane: numpy.ndarray, y: float, c: float) -> float:
        top, left, total = math.floor(y), math.floor(c), 0.0
        for r in (top, top + 1):
            for k in (left, left + 1):
                if 0 <= r < plane.shape[0] and 0 <= k < plane.shape[1]:
                    total += (1 - abs(y - r)) * (1 - abs(c - k)) * float(plane[r, k])
        return total

    due = numpy.zeros((2, 6, 3, 4))
    moves, shares = (
        offset.cpu().double().reshape(2, 2, 6, 2, 3, 4),
        mask.cpu().double().reshape(2, 2, 6, 3, 4),
    )
    for n, out, i, j in numpy.ndindex(due.shape):
        group = out // 3
        for channel in range(2):
            c = 2 * group + channel
            for tap in range(6):
                dy, dx = moves[n, c // 2, tap, :, i, j].tolist()
                value = sample(planes[n, c], 2 * i - 1 + tap // 2 + dy, j + tap % 2 + dx)
                due[n, out, i, j] += (
                    weights[out, channel, tap // 2, tap % 2] * value * float(shares[n, c // 2, tap, i, j])
                )
    close(found, due + bias.cpu().double().numpy().reshape(6, 1, 1))
    given = [t.cpu().double().requires_grad_() for t in (x, w, offset, mask, bias)]
    assert torch.autograd.gradcheck(lambda *t: vision.deform_conv2d(*t, *numbers), given, fast_mode=True)
    grads = vision.deform_conv2d_backward(torch.ones_like(found), x, w, offset, mask, bias, *numbers)
    wanted = torch.autograd.grad(vision.deform_conv2d(*given, *numbers).sum(), given)
    for got, want in zip(grads, wanted, strict=True):
        close(got, want, 1e-4, 1e-4)
