"""Compare several steps of the optimizers of `hpex` with the formulas of their papers, in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from habana_frameworks.torch.hpex import optimizers
from habana_frameworks.torch.hpex.movingavrg import FusedEMA
from habana_frameworks.torch.hpex.optimizers.distributed import FusedAdamW as DistributedAdamW

Weights = list[torch.Tensor]
STEPS = 4


def random_host_tensor(*size: int, seed: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def initial_weights() -> Weights:
    return [random_host_tensor(3, 4, seed=1), random_host_tensor(5, seed=2)]


def gradients_of_step(step: int) -> Weights:
    return [random_host_tensor(3, 4, seed=10 + step), random_host_tensor(5, seed=20 + step)]


def weights_after_steps(make_optimizer: Callable[[Any], Any]) -> Weights:
    """Return the weights after the steps of an optimizer on the device."""
    parameters = [torch.nn.Parameter(w.float().to("hpu")) for w in initial_weights()]
    optimizer = make_optimizer(parameters)
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients_of_step(step), strict=True):
            parameter.grad = gradient.float().to("hpu")
        assert optimizer.step(lambda: 7.0) == 7.0
    return [p.detach().cpu().double() for p in parameters]


def assert_close_weights(actual: Weights, expected: Weights, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.detach().cpu().double(), e.double(), rtol=rtol, atol=atol)


def expected_adamw_weights(
    lr: float, betas: tuple[float, float], eps: float, decay: float, corrected: bool
) -> Weights:
    expected = initial_weights()
    m, v = ([torch.zeros_like(w) for w in expected] for _ in range(2))
    for step in range(STEPS):
        for index, g in enumerate(gradients_of_step(step)):
            m[index] = betas[0] * m[index] + (1 - betas[0]) * g
            v[index] = betas[1] * v[index] + (1 - betas[1]) * g**2
            size = lr
            if corrected:
                size *= math.sqrt(1 - betas[1] ** (step + 1)) / (1 - betas[0] ** (step + 1))
            w = expected[index] * (1 - lr * decay)
            expected[index] = w - size * m[index] / (v[index].sqrt() + eps)
    return expected


@pytest.mark.parametrize("corrected", [True, False])
def test_adamw(corrected: bool) -> None:
    options = {
        "lr": 0.05,
        "betas": (0.8, 0.95),
        "eps": 1e-6,
        "weight_decay": 0.1,
        "bias_correction": corrected,
    }
    updated = weights_after_steps(lambda p: optimizers.FusedAdamW(p, **options))
    assert_close_weights(updated, expected_adamw_weights(0.05, (0.8, 0.95), 1e-6, 0.1, corrected))


@pytest.mark.parametrize(
    ("dtypes", "atol"),
    [(torch.bfloat16, 0.01), ((torch.float8_e4m3fn, torch.float8_e5m2), 0.12), (torch.float8_e4m3fn, 0.12)],
)
def test_adamw_with_small_moments(dtypes: Any, atol: float) -> None:
    created = []

    def make_optimizer(parameters: Any) -> Any:
        created.append(optimizers.FusedAdamW(parameters, lr=0.05, moments_dtype=dtypes))
        return created[0]

    assert_close_weights(
        weights_after_steps(make_optimizer),
        expected_adamw_weights(0.05, (0.9, 0.999), 1e-6, 0.0, True),
        0,
        atol,
    )
    state = next(iter(created[0].state.values()))
    both = dtypes if isinstance(dtypes, tuple) else (dtypes, dtypes)
    assert (state["exp_avg"].dtype, state["exp_avg_sq"].dtype) == both


def test_adamw_of_distributed_optimizers() -> None:
    parameters = [w.float().to("hpu") for w in initial_weights()]
    optimizer = DistributedAdamW(parameters, lr=0.05, weight_decay=0.1)
    for step in range(STEPS):
        optimizer.step([g.float().to("hpu") for g in gradients_of_step(step)])
    assert_close_weights(parameters, expected_adamw_weights(0.05, (0.9, 0.999), 1e-6, 0.1, True))
    optimizer.step([None, None])
    with pytest.raises(ValueError, match="for each of 2 parameters, but got 1"):
        optimizer.step([None])
    with pytest.raises(ValueError, match="empty parameter list"):
        DistributedAdamW([])


@pytest.mark.parametrize(("momentum", "damp", "nesterov"), [(0, 0, False), (0.9, 0.1, False), (0.9, 0, True)])
def test_sgd_matches_torch(momentum: float, damp: float, nesterov: bool) -> None:
    updated = weights_after_steps(lambda p: optimizers.FusedSGD(p, 0.1, momentum, 0.01, damp, nesterov))
    twins = [torch.nn.Parameter(w) for w in initial_weights()]
    optimizer = torch.optim.SGD(twins, 0.1, momentum, damp, 0.01, nesterov)
    run_reference_steps(twins, optimizer)
    assert_close_weights(updated, [t.detach() for t in twins])


def run_reference_steps(twins: list[Any], optimizer: torch.optim.Optimizer) -> None:
    for step in range(STEPS):
        for twin, gradient in zip(twins, gradients_of_step(step), strict=True):
            twin.grad = gradient.clone()
        optimizer.step()


def test_adagrad_matches_torch() -> None:
    options = {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.01, "initial_accumulator_value": 0.3}
    updated = weights_after_steps(lambda p: optimizers.FusedAdagrad(p, **options))
    twins = [torch.nn.Parameter(w) for w in initial_weights()]
    run_reference_steps(twins, torch.optim.Adagrad(twins, **options))
    assert_close_weights(updated, [t.detach() for t in twins])


@pytest.mark.parametrize(
    ("decay", "use_lamb", "averaging"), [(0.1, False, True), (0.0, True, False), (0.0, False, True)]
)
def test_lamb(decay: float, use_lamb: bool, averaging: bool) -> None:
    updated = weights_after_steps(
        lambda p: optimizers.FusedLamb(
            p, lr=0.05, weight_decay=decay, grad_averaging=averaging, max_grad_norm=2.0, use_lamb=use_lamb
        )
    )
    expected = initial_weights()
    m, v = ([torch.zeros_like(w) for w in expected] for _ in range(2))
    for step in range(STEPS):
        every = gradients_of_step(step)
        norm = math.sqrt(sum(float(g.square().sum()) for g in every))
        for index, g in enumerate(every):
            g = g / max(1.0, norm / 2.0)
            m[index] = 0.9 * m[index] + (0.1 if averaging else 1.0) * g
            v[index] = 0.999 * v[index] + 0.001 * g**2
            adam = (m[index] / (1 - 0.9 ** (step + 1))) / (
                (v[index] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-6
            )
            adam = adam + decay * expected[index]
            trust = float(expected[index].norm() / adam.norm()) if decay or use_lamb else 1.0
            expected[index] = expected[index] - 0.05 * trust * adam
    assert_close_weights(updated, expected, 1e-4, 1e-4)


def test_lars_around_sgd() -> None:
    updated = weights_after_steps(
        lambda p: optimizers.FusedLars(torch.optim.SGD(p, 0.5, 0.9, weight_decay=0.1), [1, 0], eeta=0.01)
    )
    expected, buffers = initial_weights(), [torch.zeros(3, 4).double(), torch.zeros(5).double()]
    for step in range(STEPS):
        for index, g in enumerate(gradients_of_step(step)):
            w = expected[index]
            if index == 0:
                trust = 0.01 * w.norm() / (g.norm() + 0.1 * w.norm() + 1e-8)
                g = trust * (g + 0.1 * w)
            buffers[index] = 0.9 * buffers[index] + 0.5 * g
            expected[index] = w - buffers[index]
    assert_close_weights(updated, expected)
    parameter = torch.nn.Parameter(torch.ones(2, device="hpu"))
    wrapped = optimizers.FusedLars(torch.optim.SGD([parameter], 0.5), [1])
    wrapped.zero_grad()
    assert wrapped.param_groups[0]["lr"] == 0.5 and wrapped.state is wrapped.optim.state
    with pytest.raises(ValueError, match="0 elements for 1 parameters"):
        optimizers.FusedLars(torch.optim.SGD([parameter], 0.5), [])


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_that_includes_the_learning_rate(nesterov: bool) -> None:
    updated = weights_after_steps(
        lambda p: optimizers.FusedResourceApplyMomentum(p, 0.1, 0.9, 0.01, nesterov)
    )
    expected, buffers = initial_weights(), [torch.zeros(3, 4).double(), torch.zeros(5).double()]
    for step in range(STEPS):
        for index, g in enumerate(gradients_of_step(step)):
            d = 0.1 * (g + 0.01 * expected[index])
            buffers[index] = 0.9 * buffers[index] + d
            expected[index] = expected[index] - (d + 0.9 * buffers[index] if nesterov else buffers[index])
    assert_close_weights(updated, expected)


def test_sparse_steps_update_some_rows() -> None:
    index, count = torch.tensor([1, 4, 1, 0]), torch.tensor([3], dtype=torch.int32, device="hpu")
    g, w, m = (
        random_host_tensor(4, 3, seed=1),
        random_host_tensor(6, 3, seed=2),
        random_host_tensor(6, 3, seed=3).abs(),
    )
    rows = torch.zeros(6, 3).double().index_add_(0, index[:3], g[:3])
    on_device = [t.float().to("hpu") for t in (g, w, m)]
    rate = torch.tensor(0.1, device="hpu")
    updated = optimizers.SparseSGD.apply(*on_device, index.to("hpu"), rate, count, 0.9)
    moments, expected = m.clone(), w.clone()
    moments[[1, 4]] = 0.9 * m[[1, 4]] + rows[[1, 4]]
    expected[[1, 4]] -= 0.1 * moments[[1, 4]]
    assert_close_weights(list(updated), [expected, moments])
    on_device = [t.float().to("hpu") for t in (g, w, m)]
    updated = optimizers.SparseAdagrad.apply(*on_device, index.to("hpu"), rate, count)
    moments = m + rows**2
    assert_close_weights(list(updated), [w - 0.1 * rows / (moments.sqrt() + 1e-10), moments])


def test_invalid_arguments_raise() -> None:
    p = [torch.nn.Parameter(torch.ones(2, device="hpu"))]
    with pytest.raises(ValueError, match="no default learning rate"):
        optimizers.FusedSGD(p)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        optimizers.FusedSGD(p, -1.0)
    for optimizer in (optimizers.FusedSGD, optimizers.FusedResourceApplyMomentum):
        with pytest.raises(ValueError, match="Nesterov momentum requires a momentum"):
            optimizer(p, 0.1, nesterov=True)
    with pytest.raises(ValueError, match=r"beta parameter at index 1: 1\.0"):
        optimizers.FusedAdamW(p, betas=(0.9, 1.0))
    with pytest.raises(RuntimeError, match="AMSGrad"):
        optimizers.FusedLamb(p, amsgrad=True)
    p[0].grad = None
    assert optimizers.FusedLamb(p).step() is None


def test_states_are_saved_and_loaded() -> None:
    def make_optimizer(parameters: Any) -> Any:
        return optimizers.FusedAdamW(parameters, lr=0.05)

    parameters = [torch.nn.Parameter(w.float().to("hpu")) for w in initial_weights()]
    optimizer = make_optimizer(parameters)
    for step in range(STEPS):
        if step == 2:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = make_optimizer(parameters)
            optimizer.load_state_dict(state)
        for parameter, gradient in zip(parameters, gradients_of_step(step), strict=True):
            parameter.grad = gradient.float().to("hpu")
        optimizer.step()
    assert_close_weights([p.detach() for p in parameters], weights_after_steps(make_optimizer))


def test_moving_average_of_a_model() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("hpu")
    average = FusedEMA(model, 0.9, 10)
    expected = {name: value.cpu().double() for name, value in model.state_dict().items()}
    for step in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)
        average.update(model)
        decay = 0.9 * (1 - math.exp(-(11 + step) / 2000))
        for name, value in model.state_dict().items():
            if value.dtype.is_floating_point:
                expected[name] = decay * expected[name] + (1 - decay) * value.cpu().double()
    for name, value in average.ema.state_dict().items():
        torch.testing.assert_close(value.cpu().double(), expected[name], rtol=1e-5, atol=1e-5)
    assert not average.ema.training and not any(p.requires_grad for p in average.ema.parameters())
    model.names, model.process_group = ["a"], 3
    average.update_attr(model, include=("names",))
    assert average.ema.names == ["a"] and not hasattr(average.ema, "process_group")
    with pytest.raises(ValueError, match=r"is negative: -0\.1"):
        FusedEMA(model, -0.1)
