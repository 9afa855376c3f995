"""Compare fused kernels of `hpex` with torch on the CPU: values and gradients, eagerly and in graphs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from habana_frameworks.torch import hpu
from habana_frameworks.torch.hpex import kernels
from habana_frameworks.torch.hpex.kernels import FusedSDPA, RotaryPosEmbeddingMode, fbgemm
from habana_frameworks.torch.hpex.normalization import FusedClipNorm, FusedRMSNorm, RmsNormBwdMode
from torch.nn import functional


def random_host_tensor(*size: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def host_and_device_pair(*size: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor in float64 on the CPU and its float32 copy on the device. Both require gradients."""
    host = random_host_tensor(*size, seed=seed)
    return host.requires_grad_(), host.detach().float().to("hpu").requires_grad_()


def assert_close_on_host(actual: torch.Tensor, expected: torch.Tensor, **more: float) -> None:
    torch.testing.assert_close(
        actual.detach().cpu().double(), expected.detach().double(), **({"rtol": 1e-5, "atol": 1e-5} | more)
    )


@pytest.mark.nightly("each case compiles for seconds and runs the same kernel", every=5)
@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize("heads", [6, 2, 1])
@pytest.mark.parametrize("compiled", [True, False])
def test_attention_of_grouped_heads_and_its_gradients(recompute: bool, heads: int, compiled: bool) -> None:
    (a, q), (b, k), (c, v) = (
        host_and_device_pair(2, 6, 5, 8),
        host_and_device_pair(2, heads, 7, 8, seed=2),
        host_and_device_pair(2, heads, 7, 8, seed=3),
    )
    mask = random_host_tensor(2, 1, 5, 7, seed=4)

    def program(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return FusedSDPA.apply(q, k, v, mask, 0.0, False, None, "None", recompute)

    call = torch.compile(program, backend="hpu_backend", fullgraph=True) if compiled else program
    output = call(q, k, v, mask.float().to("hpu"))
    keys, values = (t.repeat_interleave(6 // heads, 1) for t in (b, c))
    expected = functional.scaled_dot_product_attention(a, keys, values, mask)
    assert_close_on_host(output, expected)
    grad = random_host_tensor(2, 6, 5, 8, seed=5)
    wanted = torch.autograd.grad(expected, (a, b, c), grad)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(output, (q, k, v), grad.float().to("hpu")), wanted, strict=True
    ):
        assert_close_on_host(gradient, expected_gradient)


def test_attention_by_keywords_and_its_errors() -> None:
    (a, q), (b, k), (c, v) = (host_and_device_pair(2, 3, 5, 8, seed=seed) for seed in range(3))
    expected = functional.scaled_dot_product_attention(a, b, c, is_causal=True, scale=0.5)
    assert_close_on_host(
        FusedSDPA.apply(q=q, k=k, v=v, is_causal=True, scale=0.5, softmax_mode="fast"), expected
    )
    with torch.no_grad():
        out, matrix = FusedSDPA.apply(q, k, v, is_causal=True, scale=0.5, return_attn_probs=True)
        assert_close_on_host(torch.matmul(matrix, v), expected)
        short = FusedSDPA.apply(q, k, v, is_causal=True, valid_seq_len=torch.tensor([5, 5], device="hpu"))
        assert_close_on_host(short, functional.scaled_dot_product_attention(a, b, c, is_causal=True))
        assert_close_on_host(out, expected)
    torch.hpu.manual_seed(3)
    out, dropout_mask = FusedSDPA.apply(
        q, k, v, dropout_p=0.5, recompute_mode=False, return_dropout_mask=True
    )
    matrix = torch.softmax(a @ b.transpose(-2, -1) / math.sqrt(8), -1) * dropout_mask.cpu() * 2
    assert_close_on_host(out, matrix @ c)
    with hpu.sdp_kernel(enable_recompute=False):
        torch.hpu.manual_seed(3)
        assert_close_on_host(FusedSDPA.apply(q, k, v, None, 0.5), out.cpu())
    for options, message in (
        ({"return_attn_probs": True}, "for inference"),
        ({"softmax_mode": "fast"}, "only with is_causal"),
        ({"valid_seq_len": torch.tensor([5, 5], device="hpu")}, "for inference with is_causal"),
        ({"return_dropout_mask": True}, "recompute_mode=False"),
    ):
        with pytest.raises(AssertionError, match=message):
            FusedSDPA.apply(q, k, v, **options)
    assert_close_on_host(kernels.PySDPA.apply(q, k, v, True, scale=0.5), expected)


def test_attention_of_fp8_for_inference() -> None:
    a, b, c = (random_host_tensor(2, 3, 5, 8, seed=seed) for seed in range(3))
    q, k, v = (t.to(torch.float8_e4m3fn).to("hpu") for t in (a, b, c))
    out, amax_s, amax_o = kernels.fp8_fused_sdpa(q, k, v, is_causal=True, is_amax_s=True)
    exact = [t.cpu().double() for t in (q, k, v)]
    expected = functional.scaled_dot_product_attention(*exact, is_causal=True)
    assert_close_on_host(out, expected, rtol=1e-2, atol=1e-2)
    assert amax_s.item() == 1.0 and amax_o.numel() == 0


def test_rotary_helpers() -> None:
    (a, p), angle = host_and_device_pair(2, 3, 5, 8), random_host_tensor(9, 4, seed=2)
    table = torch.cat((angle, angle), -1)
    cos, sin = (f(table).float().to("hpu")[None, None] for f in (torch.cos, torch.sin))
    ids = torch.tensor([[1, 2, 3, 4, 5], [0, 8, 7, 6, 5]])

    def rotate_on_host(rows: torch.Tensor) -> torch.Tensor:
        first, second = a.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
        return a * torch.cos(table)[rows].unsqueeze(1) + turned * torch.sin(table)[rows].unsqueeze(1)

    rotated = kernels.RotaryPosEmbeddingHelperV2.apply(p, cos, sin, ids.to("hpu"))
    assert_close_on_host(rotated, rotate_on_host(ids))
    assert_close_on_host(
        kernels.RotaryPosEmbeddingHelperV1.apply(p, cos, sin, 2),
        rotate_on_host(torch.arange(2, 7).expand(2, 5)),
    )
    assert_close_on_host(
        kernels.RotaryPosEmbeddingHelperV3.apply(p, cos, sin, ids.to("hpu")), rotate_on_host(ids)
    )
    grad = random_host_tensor(2, 3, 5, 8, seed=3)
    wanted = torch.autograd.grad(rotate_on_host(ids), a, grad)[0]
    assert_close_on_host(torch.autograd.grad(rotated, p, grad.float().to("hpu"))[0], wanted)
    low = kernels.RotaryPosEmbeddingHelperV2.apply(
        p.bfloat16(), cos.bfloat16(), sin.bfloat16(), ids.to("hpu")
    )
    assert low.dtype == torch.bfloat16
    assert kernels.apply_rotary_pos_emb(p.bfloat16(), cos, sin, ids.to("hpu")).dtype == torch.float32
    assert [mode.value for mode in RotaryPosEmbeddingMode] == [0, 1]


def test_rotary_helper_skips_the_first_columns_of_a_wider_table() -> None:
    (a, p), angle = host_and_device_pair(3, 2, 8), random_host_tensor(3, 1, 4, seed=2)
    table = torch.cat((angle, angle), -1)
    wide = [torch.cat((torch.full((3, 1, 5), 7.0), f(table)), -1).float() for f in (torch.cos, torch.sin)]
    rotated = kernels.RotaryPosEmbeddingHelperV1.apply(p, *(part.to("hpu") for part in wide), 5)
    first, second = a.chunk(2, -1)
    expected = a * torch.cos(table) + torch.cat((-second, first), -1) * torch.sin(table)
    assert_close_on_host(rotated, expected)


def test_rotary_helper_with_a_chatglm_cache() -> None:
    x, angle = random_host_tensor(5, 2, 3, 8), random_host_tensor(6, 1, 2, seed=2)
    cache = torch.stack((torch.cos(angle), torch.sin(angle)), -1)
    rotated = kernels.RotaryPosEmbeddingHelperV3.apply(x.float().to("hpu"), cache.float().to("hpu"))
    assert torch.equal(kernels.apply_rotary_pos_emb(x.float().to("hpu"), cache.float().to("hpu")), rotated)
    pairs = torch.view_as_complex(x[..., :4].reshape(5, 2, 3, 2, 2).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)[:5].unsqueeze(2)).flatten(
        -2
    )
    assert_close_on_host(rotated, torch.cat((turned, x[..., 4:]), -1))


@pytest.mark.parametrize("compiled", [True, False])
def test_ctc_loss(compiled: bool) -> None:
    a, x = host_and_device_pair(7, 2, 5)
    targets, times, lengths = torch.tensor([[1, 2, 2], [3, 4, 1]]), torch.tensor([7, 6]), torch.tensor([3, 2])

    def program(x: torch.Tensor, *lengths_and_targets: torch.Tensor) -> torch.Tensor:
        return kernels.CTCLoss.apply(x.log_softmax(-1), *lengths_and_targets, 0, "mean", True)

    call = torch.compile(program, backend="hpu_backend", fullgraph=True) if compiled else program
    loss = call(x, *(t.to("hpu") for t in (targets, times, lengths)))
    expected_loss = functional.ctc_loss(a.log_softmax(-1), targets, times, lengths)
    assert_close_on_host(loss, expected_loss)
    assert_close_on_host(torch.autograd.grad(loss, x)[0], torch.autograd.grad(expected_loss, a)[0])
    with pytest.raises(ValueError, match="reduction is 'best'"):
        kernels.CTCLoss.apply(x, targets, times, lengths, 0, "best")
    unbatched, unbatched_host = x[:, 0].detach().requires_grad_(), a[:, 0].detach().requires_grad_()
    loss = call(unbatched, *(t[0].to("hpu") for t in (targets, times, lengths)))
    expected_loss = functional.ctc_loss(unbatched_host.log_softmax(-1), targets[0], times[0], lengths[0])
    assert loss.dim() == 0
    assert_close_on_host(loss, expected_loss)
    assert_close_on_host(
        torch.autograd.grad(loss, unbatched)[0], torch.autograd.grad(expected_loss, unbatched_host)[0]
    )


def test_embedding_bag() -> None:
    a, table = host_and_device_pair(6, 3)
    index, offsets = torch.tensor([0, 2, 1, 1, 3, 0]), torch.tensor([0, 2, 2, 5])
    prepared = kernels.EmbeddingBagPreProc()(index, offsets, 6)
    output = kernels.EmbeddingBag.apply(table, *(t.to("hpu") for t in prepared))
    expected = functional.embedding_bag(index, a, offsets, mode="sum")
    assert_close_on_host(output, expected)
    grad = random_host_tensor(4, 3, seed=2)
    wanted = torch.autograd.grad(expected, a, grad)[0]
    assert_close_on_host(torch.autograd.grad(output, table, grad.float().to("hpu"))[0], wanted)
    with pytest.raises(ValueError, match="indices is on hpu"):
        kernels.EmbeddingBagPreProc()(index.to("hpu"), offsets, 6)


def test_recommendation_model_trains_with_both_embedding_classes() -> None:
    """A model of DLRM's form: embedding bags and dense features, their products, and a top layer."""
    assert kernels.EmbeddingBagPreproc is kernels.EmbeddingBagPreProc
    torch.manual_seed(0)
    host_tables = [torch.nn.Parameter(torch.randn(rows, 4)) for rows in (7, 11)]
    host_layers = torch.nn.ModuleList([torch.nn.Linear(3, 4), torch.nn.Linear(7, 1)])
    tables = [torch.nn.Parameter(table.detach().to("hpu")) for table in host_tables]
    layers = copy.deepcopy(host_layers).to("hpu")

    def losses(
        tables: list[Any], layers: Any, look_up: Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> list[float]:
        device = tables[0].device
        optimizer = torch.optim.SGD([*tables, *layers.parameters()], lr=0.2)
        generator = torch.Generator().manual_seed(1)
        values = []
        for _ in range(6):
            offsets = torch.tensor([0, 2, 2, 5, 6])
            dense = torch.randn(5, 3, generator=generator).to(device)
            target = torch.rand(5, 1, generator=generator).round().to(device)
            indices = [torch.randint(len(table), (9,), generator=generator) for table in tables]
            features = [look_up(table, index, offsets) for table, index in zip(tables, indices, strict=True)]
            features.append(layers[0](dense))
            stacked = torch.stack(features, 1)
            rows, columns = torch.tril_indices(3, 3, -1).to(device)
            products = torch.bmm(stacked, stacked.transpose(1, 2))[:, rows, columns]
            prediction = layers[1](torch.cat((features[-1], products), 1))
            loss = functional.binary_cross_entropy_with_logits(prediction, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        return values

    def look_up_on_device(table: Any, index: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        prepared = kernels.EmbeddingBagPreProc()(index, offsets, len(table))
        return kernels.EmbeddingBag.apply(table, *(tensor.to("hpu") for tensor in prepared))

    def look_up_on_host(table: Any, index: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return functional.embedding_bag(index, table, offsets, mode="sum")

    actual = losses(tables, layers, look_up_on_device)
    torch.testing.assert_close(
        actual, losses(host_tables, host_layers, look_up_on_host), rtol=1e-5, atol=1e-6
    )
    for table, host_table in zip(tables, host_tables, strict=True):
        torch.testing.assert_close(table.detach().cpu(), host_table.detach(), rtol=1e-4, atol=1e-5)


def test_small_kernels() -> None:
    x = random_host_tensor(2, 4, 4).float().to("hpu")
    assert_close_on_host(kernels.Softmax.apply(x), torch.softmax(x.cpu(), -1))
    assert_close_on_host(
        kernels.CustomSoftmax.apply(x.bfloat16(), 0), torch.softmax(x.bfloat16().cpu().float(), -1), atol=5e-3
    )
    rows = kernels.RaggedSoftmax.apply(x, 2, torch.tensor([4, 1], device="hpu"))
    assert_close_on_host(rows[0], torch.softmax(x[0].cpu(), -1))
    assert kernels.triu_masked_softmax(x)[0, 0].tolist() == [1, 0, 0, 0]
    seed = kernels.RandomSeed.random_seed(x)
    assert seed.dtype == torch.int32 and seed.item() != kernels.RandomSeed.random_seed(x).item()
    permute, lengths = torch.tensor([1, 0], device="hpu"), torch.tensor([2, 1], device="hpu")
    moved, values, weights = fbgemm.permute_1D_sparse_data(permute, lengths, torch.arange(3, device="hpu"))
    assert moved.tolist() == [1, 2] and values.tolist() == [2, 0, 1] and weights is None
    cast, _ = kernels.Fp8Ops.cast_to_fp8_v2(x, None, False, False, torch.float8_e4m3fn)
    assert cast.dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("mode", [0, RmsNormBwdMode.STATIC_CASE_WIDTH_PARTITIONING])
def test_rms_norm(mode: int | RmsNormBwdMode) -> None:
    (a, x), (b, gamma) = host_and_device_pair(2, 3, 8), host_and_device_pair(8, seed=2)
    output = FusedRMSNorm.apply(x, gamma, 1e-3, True, mode, False)
    expected = functional.rms_norm(a, (8,), b, 1e-3)
    assert_close_on_host(output, expected)
    grad = random_host_tensor(2, 3, 8, seed=3)
    wanted = torch.autograd.grad(expected, (a, b), grad)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(output, (x, gamma), grad.float().to("hpu")), wanted, strict=True
    ):
        assert_close_on_host(gradient, expected_gradient)


def test_clip_norm() -> None:
    parameters = [
        torch.nn.Parameter(random_host_tensor(3, 4, seed=index).float().to("hpu")) for index in range(3)
    ]
    clip = FusedClipNorm(parameters, 0.5)
    assert clip.clip_norm(parameters).item() == 0.0
    for index, parameter in enumerate(parameters[:2]):
        parameter.grad = random_host_tensor(3, 4, seed=10 + index).float().to("hpu")
    twins = [torch.nn.Parameter(p.detach().cpu()) for p in parameters[:2]]
    for twin, parameter in zip(twins, parameters, strict=False):
        twin.grad = parameter.grad.cpu()
    norm = clip.clip_norm(parameters)
    assert_close_on_host(norm, torch.nn.utils.clip_grad_norm_(twins, 0.5))
    for twin, parameter in zip(twins, parameters, strict=False):
        assert_close_on_host(parameter.grad, twin.grad)
