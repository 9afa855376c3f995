"""Rotary embedding and attention with gradients, by other formulas in float64."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from torch.nn import functional

from . import samples
from .reference import close, host
from .samples import E4M3, normal, number

hpu = torch.ops.hpu


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
