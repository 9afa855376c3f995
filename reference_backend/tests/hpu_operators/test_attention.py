"""Compare rotary embedding, attention and their gradients with independent formulas in float64."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from torch.nn import functional

from . import samples
from .reference import assert_close_to_reference, float64_copies_with_grad
from .samples import E4M3, normal, number

hpu = torch.ops.hpu


@pytest.mark.parametrize("mode", [0, 1])
def test_rotary_embedding_rotates_pairs(mode: int) -> None:
    x, angle = normal(2, 3, 5, 8), torch.rand(9, 4, dtype=torch.float64) * 6
    whole_angle = torch.cat((angle, angle), -1) if mode == 0 else angle.repeat_interleave(2, -1)
    sin, cos = (f(whole_angle).float().to("hpu") for f in (torch.sin, torch.cos))
    positions = torch.tensor([[0, 1, 2, 3, 4], [8, 7, 6, 5, 0]])
    rotated = hpu.rotary_pos_embedding(x, sin, cos, positions.to("hpu"), 0, mode)
    value = x.cpu().double()
    pairs = torch.complex(*(value.chunk(2, -1) if mode == 0 else (value[..., ::2], value[..., 1::2])))
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[positions].unsqueeze(1)
    parts = (turned.real, turned.imag)
    expected = torch.cat(parts, -1) if mode == 0 else torch.stack(parts, -1).flatten(-2)
    assert_close_to_reference(rotated, expected)
    grad = hpu.rotary_pos_embedding_backward(rotated, sin, cos, positions.to("hpu"), 0, mode)
    assert_close_to_reference(grad, value)  # the gradient of a rotation is the inverse rotation
    moved = hpu.rotary_pos_embedding(x, sin, cos, None, 3, mode)
    assert_close_to_reference(
        moved, hpu.rotary_pos_embedding(x, sin, cos, torch.arange(3, 8).expand(2, 5).to("hpu"), 0, mode).cpu()
    )
    part = hpu.rotary_pos_embedding(torch.cat((x, x), -1), sin, cos, None, 0, mode)
    assert_close_to_reference(part[..., 8:], value)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_and_its_gradients(recompute: bool, causal: bool, masked: bool) -> None:
    q, k, v = (normal(2, 3, rows, 8, seed=seed) for seed, rows in enumerate((5, 7, 7)))
    mask = normal(2, 1, 5, 7, seed=9) if masked else None
    grad = normal(2, 3, 5, 8, seed=4)
    a, b, c = float64_copies_with_grad(q, k, v)
    bias = torch.zeros(5, 7, dtype=torch.float64) if mask is None else mask.cpu().double()
    if causal:
        bias = bias.masked_fill(torch.ones(5, 7, dtype=torch.bool).triu(1), -math.inf)
    expected = functional.scaled_dot_product_attention(a, b, c, bias, scale=0.3)
    wanted = torch.autograd.grad(expected, (a, b, c), grad.cpu().double())
    if recompute:
        out, most, reciprocal, seed = hpu.sdpa_recomp_fwd(
            q, k, v, mask, 0.0, 0.3, causal, True, "None", None, "left"
        )
        gradients = hpu.sdpa_recomp_bwd(
            grad, q, k, v, mask, most, reciprocal, seed, causal, 0.0, 0.3, "None", out
        )
    else:
        out, matrix, dropout_mask = hpu.sdpa_fwd(q, k, v, mask, 0.0, 0.3, causal, "None", None, "left")
        assert_close_to_reference(
            matrix, functional.softmax(a @ b.transpose(-2, -1) * 0.3 + bias, -1).detach()
        )
        gradients = hpu.sdpa_bwd(grad, q, k, v, matrix, dropout_mask, causal, 0.0, 0.3, out)
    assert_close_to_reference(out, expected.detach())
    for gradient, expected_gradient in zip(gradients, wanted, strict=True):
        assert_close_to_reference(gradient, expected_gradient)


def test_keys_beyond_the_length_are_ignored() -> None:
    q, k, v = (normal(2, 3, 5, 8, seed=seed) for seed in range(3))
    length = torch.tensor([2, 4], device="hpu")
    for side in ("left", "right"):
        output = hpu.sdpa_fwd(q, k, v, None, 0.0, 0.3, False, "None", length, side)[0]
        for batch, count in enumerate((2, 4)):
            some = slice(5 - count, None) if side == "left" else slice(None, count)
            a, b, c = float64_copies_with_grad(q[batch], k[batch, :, some], v[batch, :, some])
            assert_close_to_reference(
                output[batch], functional.scaled_dot_product_attention(a, b, c, scale=0.3).detach()
            )
    with pytest.raises(RuntimeError, match="'middle'"):
        hpu.sdpa_fwd(q, k, v, None, 0.0, 0.3, False, "None", length, "middle")


def test_attention_dropout_follows_its_mask_and_seed() -> None:
    q, k, v = (normal(2, 3, 6, 8, seed=seed) for seed in range(3))
    grad = normal(2, 3, 6, 8, seed=4)
    out, matrix, dropout_mask = hpu.sdpa_fwd_dropout_seed(
        samples.seed_tensor(), q, k, v, None, 0.25, 0.3, False, "None", None, "left"
    )
    a, b, c = float64_copies_with_grad(q, k, v)
    used = functional.softmax(a @ b.transpose(-2, -1) * 0.3, -1) * dropout_mask.cpu() / 0.75
    expected = used @ c
    assert_close_to_reference(out, expected.detach())
    assert 0.6 < float(dropout_mask.cpu().double().mean()) < 0.9
    wanted = torch.autograd.grad(expected, (a, b, c), grad.cpu().double())
    recomputed, most, reciprocal, seed = hpu.sdpa_recomp_fwd_dropout_seed(
        samples.seed_tensor(), q, k, v, None, 0.25, 0.3, False, True, "None", None, "left"
    )
    assert_close_to_reference(recomputed, out.cpu())
    for gradients in (
        hpu.sdpa_bwd(grad, q, k, v, matrix, dropout_mask, False, 0.25, 0.3, out),
        hpu.sdpa_recomp_bwd(grad, q, k, v, None, most, reciprocal, seed, False, 0.25, 0.3, "None", out),
    ):
        for gradient, expected_gradient in zip(gradients, wanted, strict=True):
            assert_close_to_reference(gradient, expected_gradient)


def test_attention_of_fp8() -> None:
    arguments = samples._fp8_attention_arguments(0.0, backward=True, amaxes=2)
    out, _, _, _, amax_s, amax_o = hpu.fp8_sdpa_recomp_fwd(*arguments)
    a, b, c = (
        t.double() * f for t, f in zip(float64_copies_with_grad(*arguments[:3]), (0.5, 2.0, 1.5), strict=True)
    )
    closed = torch.ones(5, 7, dtype=torch.bool).triu(1)
    matrix = functional.softmax((a @ b.transpose(-2, -1) * 0.3).masked_fill(closed, -math.inf), -1)
    assert out.dtype == E4M3
    assert_close_to_reference(hpu.cast_from_fp8(out, 0.25, torch.float32), (matrix @ c).detach(), 0.15, 0.05)
    assert_close_to_reference(amax_s, matrix.max().detach())
    assert_close_to_reference(amax_o, (matrix @ c).abs().max().detach(), 0.1)
    same = hpu.fp8_sdpa_recomp_fwd(
        *samples._fp8_attention_arguments(0.0, backward=True, scalar=True, amaxes=2)
    )
    assert torch.equal(same[0].cpu().float(), out.cpu().float())
    unscaled = [*arguments[:9], number(0.5), number(2.0), number(1.5), None, None, None, *arguments[15:]]
    exact = hpu.fp8_sdpa_recomp_fwd(*unscaled)[0]
    assert exact.dtype == torch.bfloat16
    assert_close_to_reference(exact, (matrix @ c).detach(), 1e-2, 1e-2)
    arguments_of_backward = samples._fp8_backward_arguments()
    grad = arguments_of_backward[0].cpu().double()
    q, k, v = (t.detach().requires_grad_() for t in (a, b, c))
    expected = functional.softmax((q @ k.transpose(-2, -1) * 0.3).masked_fill(closed, -math.inf), -1) @ v
    for gradient, expected_gradient in zip(
        hpu.fp8_sdpa_bwd(*arguments_of_backward)[:3],
        torch.autograd.grad(expected, (q, k, v), grad),
        strict=True,
    ):
        assert_close_to_reference(gradient, expected_gradient, 0.3, 0.15)


def scaled_e4m3_rounding(values: torch.Tensor, factor: float, scale_back: float) -> torch.Tensor:
    """Return `scale_back` times the e4m3 number that is nearest to `factor` times each value."""
    grid = torch.arange(256, dtype=torch.uint8).view(E4M3).double()
    grid = grid[grid.isfinite()]
    return grid[(values.reshape(-1, 1) * factor - grid).abs().argmin(1)].reshape(values.shape) * scale_back


@pytest.mark.parametrize("closed", ["none", "causal", "mask", "lengths"])
@pytest.mark.parametrize("rounds", ["nothing", "matrix", "result", "both"])
@pytest.mark.parametrize("dtype", [E4M3, torch.float32], ids=str)
@pytest.mark.parametrize("form", ["", "_non_dropout"])
def test_attention_of_scaled_values(form: str, dtype: torch.dtype, rounds: str, closed: str) -> None:
    q, k, v = (normal(2, 3, rows, 8, seed=seed).to(dtype) for seed, rows in enumerate((5, 7, 7), 1))
    of_q, of_k, of_v = 0.5, 2.0, 1.5
    bias = torch.zeros(2, 1, 5, 7, dtype=torch.float64)
    mask = normal(2, 1, 5, 7, seed=9) if closed == "mask" else None
    if mask is not None:
        bias = mask.cpu().double()
    if closed == "causal":
        bias = bias.masked_fill(torch.ones(5, 7, dtype=torch.bool).triu(1), -math.inf)
    lengths = torch.tensor([3, 6], device="hpu") if closed == "lengths" else None
    if lengths is not None:
        bias[0, ..., 3:], bias[1, ..., 6:] = -math.inf, -math.inf
    a, b, c = (t.detach() for t in float64_copies_with_grad(q, k, v))
    matrix = functional.softmax((a * of_q) @ (b * of_k).transpose(-2, -1) * 0.3 + bias, -1)
    of_s, of_o, back = (number(value) for value in (96.0, 4.0, 1 / 96))
    out, probabilities, dropout_mask, amax = getattr(hpu, f"fp8_sdpa_fwd{form}")(
        q, k, v, mask, 0.0, 0.3, closed == "causal", "None", number(of_q), number(of_k), number(of_v),
        of_s if rounds in ("matrix", "both") else None, of_o if rounds in ("result", "both") else None,
        back if rounds in ("matrix", "both") else None, True, lengths, "right",
    )  # fmt: skip
    kind = torch.bfloat16 if dtype == E4M3 else dtype
    fine = 1e-5 if kind == torch.float32 else 2**-8
    assert probabilities.dtype == kind and out.dtype == (E4M3 if rounds in ("result", "both") else kind)
    assert dropout_mask.numel() == 0
    assert_close_to_reference(probabilities, matrix, fine)
    assert_close_to_reference(amax, matrix.max())
    expected = (scaled_e4m3_rounding(matrix, 96, 1 / 96) if rounds in ("matrix", "both") else matrix) @ (
        c * of_v
    )
    if out.dtype == E4M3:
        far = (out.cpu().double() - expected * 4).abs() - (
            scaled_e4m3_rounding(expected, 4, 1) - expected * 4
        ).abs()
        assert float(far.max()) < 1e-4  # no other e4m3 number is nearer to the exact result
    else:
        assert_close_to_reference(out, expected, fine)
    none = hpu.fp8_sdpa_fwd(q, k, v, mask, 0.0, 0.3, False, "None", *[None] * 6, False, None, "left")
    assert none[3].numel() == 0


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("seeded", [False, True])
def test_dropout_of_attention_of_fp8(seeded: bool, recompute: bool, p: float) -> None:
    q, k, v = (normal(4, 6, 40, 8, seed=seed).to(E4M3) for seed in range(3))
    a, b, c = (t.detach() for t in float64_copies_with_grad(q, k, v))
    matrix = functional.softmax(a @ b.transpose(-2, -1) * 0.3, -1)
    name = f"fp8_sdpa{'_recomp' if recompute else ''}_fwd_dropout"
    # With a unit matrix for v, the result is the attention matrix after dropout.
    unit = torch.eye(40, device="hpu").expand(4, 6, 40, 40).contiguous().to(E4M3)

    def run_attention(value: torch.Tensor, start: int) -> tuple[torch.Tensor, ...]:
        torch.hpu.manual_seed(start)
        arguments = [q, k, value, None, p, 0.3, False, *([True] if recompute else []), "None", *[None] * 6]
        arguments += [True, True, None, "left"] if recompute else [True, None, "left"]
        if seeded:
            return getattr(hpu, f"{name}_seed")(samples.seed_tensor(start), *arguments)
        return getattr(hpu, name)(*arguments)

    used = run_attention(unit, 5)[0].cpu().double()
    retained = used != 0
    assert_close_to_reference(used, matrix * retained / (1 - p), 2**-8)
    count = retained.numel()
    assert abs(float(retained.double().mean()) - (1 - p)) < 5 * math.sqrt(p * (1 - p) / count)
    rows = retained.double().mean((-2, -1))
    assert float((rows - (1 - p)).abs().max()) < 6 * math.sqrt(p * (1 - p) / 1600)
    first, repeated, second = (run_attention(v, start) for start in (5, 5, 6))
    assert torch.equal(first[0].cpu(), repeated[0].cpu()) and not torch.equal(first[0].cpu(), second[0].cpu())
    assert_close_to_reference(first[0], used @ c, 0.02, 0.02)
    if recompute:
        same = hpu.fp8_sdpa_recomp_fwd_dropout_seed(
            first[3], q, k, v, None, p, 0.3, False, True, "None", *[None] * 6, True, True, None, "left"
        )
        assert torch.equal(same[0].cpu(), first[0].cpu())  # the returned seed reproduces the dropout mask
        assert_close_to_reference(first[4], matrix.max())
        assert_close_to_reference(first[5], first[0].cpu().double().abs().max(), 2**-8)
    else:
        assert torch.equal(first[2].cpu(), retained)
        assert_close_to_reference(first[3], matrix.max())
