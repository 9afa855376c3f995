"""Test rare inputs and states of `hpex` and its operators: reloads, overflow, ignored rows."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from habana_frameworks.torch.hpex import optimizers
from habana_frameworks.torch.hpex.kernels import FusedSDPA
from habana_frameworks.torch.hpex.normalization import FusedRMSNorm
from habana_frameworks.torch.internal.operators import vision

hpu = torch.ops.hpu


def run_steps(optimizer: Any, parameter: torch.nn.Parameter, count: int) -> None:
    for step in range(count):
        torch.manual_seed(step)
        parameter.grad = torch.randn(parameter.shape).to("hpu")
        optimizer.step()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *(("FusedAdamW", dtype) for dtype in (torch.float8_e4m3fn, torch.bfloat16, None)),
        *(("FusedLamb", dtype) for dtype in (torch.bfloat16, None)),  # FusedLamb has no scales for fp8
    ],
)
def test_a_reload_keeps_the_moments(kind: str, dtype: Any) -> None:
    options = {"moments_dtype": dtype} if kind == "FusedAdamW" else {"dtype": dtype}
    results = []
    for reloads in (False, True):
        parameter = torch.nn.Parameter(torch.ones(64, device="hpu"))
        optimizer = getattr(optimizers, kind)([parameter], lr=0.01, **options)
        run_steps(optimizer, parameter, 3)
        if reloads:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = getattr(optimizers, kind)([parameter], lr=0.01, **options)
            optimizer.load_state_dict(state)
        run_steps(optimizer, parameter, 3)
        assert optimizer.state[parameter]["exp_avg"].dtype == (dtype or torch.float32)
        results.append(parameter.detach().cpu())
    assert torch.equal(*results)


def test_a_tensor_learning_rate_is_unchanged() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device="hpu"))
    for kind in ("FusedAdamW", "FusedSGD", "FusedAdagrad", "FusedResourceApplyMomentum", "FusedLamb"):
        optimizer = getattr(optimizers, kind)([parameter], lr=torch.tensor(0.125))
        run_steps(optimizer, parameter, 3)
        assert optimizer.param_groups[0]["lr"].item() == 0.125


def test_state_of_torch_adamw_can_be_loaded() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device="hpu"))
    torchs = torch.optim.AdamW([parameter])
    run_steps(torchs, parameter, 2)
    fused = optimizers.FusedAdamW([parameter])
    fused.load_state_dict(torchs.state_dict())
    run_steps(fused, parameter, 2)


def test_copies_and_schedules_of_lars_and_lamb() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device="hpu"))
    lars = optimizers.FusedLars(torch.optim.SGD([parameter], 0.5), [1])
    assert (
        copy.deepcopy(lars).param_groups[0]["lr"] == 0.5
        and pickle.loads(pickle.dumps(lars)).eeta == lars.eeta
    )
    schedule = torch.optim.lr_scheduler.StepLR(lars, 1, 0.5)
    run_steps(lars, parameter, 1)
    schedule.step()
    assert lars.param_groups[0]["lr"] == 0.25
    lamb = copy.deepcopy(optimizers.FusedLamb([parameter], use_lamb=True))
    run_steps(lamb, lamb.param_groups[0]["params"][0], 1)


def test_lars_restores_its_groups_after_an_error() -> None:
    a, b = (torch.nn.Parameter(torch.ones(4, device="hpu")) for _ in range(2))
    lars = optimizers.FusedLars(
        torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.01}], 0.1, weight_decay=0.5), [1, 1]
    )
    a.grad = torch.ones(4, device="hpu")
    b.grad = torch.ones(4, device="hpu").to_sparse()
    with pytest.raises((RuntimeError, NotImplementedError)):
        lars.step()
    assert [group["lr"] for group in lars.param_groups] == [0.1, 0.01]
    assert [group["weight_decay"] for group in lars.param_groups] == [0.5, 0.5]


def test_unsupported_second_derivatives_raise() -> None:
    x = torch.randn(1, 2, 3, 4, device="hpu", requires_grad=True)
    for output in (
        FusedSDPA.apply(x, x, x), FusedSDPA.apply(x, x, x, recompute_mode=False),
        FusedRMSNorm.apply(x, torch.ones(4, device="hpu"), 1e-5),
    ):  # fmt: skip
        (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.square().sum().backward()


def test_overflow_of_an_expert_without_tokens_is_measured_but_not_in_the_output() -> None:
    x = torch.full((2, 4), 300.0, dtype=torch.float16, device="hpu")
    eye = torch.eye(4, dtype=torch.float16, device="hpu")
    table, weights = torch.zeros(2, 1, dtype=torch.int64, device="hpu"), torch.ones(2, 1, device="hpu")
    lists = [[eye * 0.01, eye * 300]] * 3
    output, amax = hpu.mixture_of_experts.fp8_measurement(x, table, weights, *lists, True, "relu", 0, 1, True)
    # The output of an expert covers only the tokens routed to this expert. The maximum of an expert covers
    # all tokens.
    assert bool(output.cpu().isfinite().all()) and amax.cpu()[1].isinf()


def test_vision_operators_in_half_precision() -> None:
    x = torch.randn(1, 1, 60, 60, dtype=torch.float16, device="hpu")
    weight, bias = (
        torch.ones(1, 1, 1, 1, dtype=torch.float16, device="hpu"),
        torch.zeros(1, dtype=torch.float16, device="hpu"),
    )
    offset = torch.zeros(1, 2, 60, 60, dtype=torch.float16, device="hpu")
    output = vision.deform_conv2d(x, weight, offset, offset[:, :1], bias, 1, 1, 0, 0, 1, 1, 1, 1, False)
    assert torch.equal(output.cpu(), x.cpu())
    boxes = torch.tensor([[0.0, 0, 1000, 1000]] * 3, dtype=torch.float16, device="hpu")
    classes, scores = torch.tensor([80, 80, 79], device="hpu"), torch.tensor([0.5, 0.9, 0.1], device="hpu")
    retained_boxes, count = hpu.batched_nms_eager(boxes, scores, classes, 0.5, 81)
    assert retained_boxes.tolist()[: count.item()] == [1, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_uniform_numbers_are_below_the_upper_bound(dtype: torch.dtype) -> None:
    seed = torch.tensor([3], dtype=torch.int32, device="hpu")
    assert hpu.habana_rand(seed, [100_000], dtype=dtype).cpu().float().max() < 1
    like = torch.empty(100_000, dtype=dtype, device="hpu")
    drawn = hpu.habana_uniform(seed, like, -1.0, 2.0).cpu().float()
    assert drawn.max() < 2 and drawn.min() >= -1


def test_one_row_of_positions_serves_all_batches() -> None:
    x = torch.randn(2, 3, 4, 8, device="hpu")
    table = torch.randn(9, 8, device="hpu")
    rotated = hpu.rotary_pos_embedding(x, table, table, torch.arange(3, device="hpu"), 0, 0)
    expected = hpu.rotary_pos_embedding(x, table, table, torch.arange(3, device="hpu").expand(2, 3), 0, 0)
    assert torch.equal(rotated.cpu(), expected.cpu())


def test_rows_beyond_the_count_are_ignored() -> None:
    gradients = torch.tensor([[1.0], [float("nan")]], device="hpu")
    weights, moments = torch.ones(3, 1, device="hpu"), torch.zeros(3, 1, device="hpu")
    index, count = torch.tensor([2, -1], device="hpu"), torch.tensor([1], dtype=torch.int32, device="hpu")
    optimizers.SparseSGD.apply(gradients, weights, moments, index, torch.tensor(0.5, device="hpu"), count)
    assert weights.flatten().tolist() == [1.0, 1.0, 0.5]
    table = torch.tensor([[float("inf")], [1.0]], device="hpu")
    bags = hpu.embedding_bag_sum(
        table, torch.tensor([1, 0], device="hpu"), torch.tensor([0, 1], device="hpu"), count, 0
    )
    assert bags.tolist() == [[1.0]]


def test_exact_numbers_are_not_rounded_at_random() -> None:
    exact = torch.full((1 << 18,), 255 / 128, device="hpu")
    assert hpu.habana_cast_sr_mode(exact, 15, True, 1).cpu().unique().tolist() == [255 / 128]


def test_steps_write_into_parameters_that_require_gradients() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device="hpu"))
    hpu.optimizer_ema([torch.zeros(2, device="hpu")], [parameter], torch.tensor(0.5, device="hpu"))
    assert parameter.tolist() == [0.5, 0.5]
