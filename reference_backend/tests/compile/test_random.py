"""Test that compiled programs draw random numbers from the generator of the device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

SOURCES = {
    "rand": lambda x: torch.rand_like(x),
    "randn": lambda x: torch.randn(x.shape, device=x.device),
    "randint": lambda x: torch.randint(0, 1000, x.shape, device=x.device),
    "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.5)),
    "dropout": lambda x: F.dropout(torch.ones_like(x), 0.5, training=True),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 1),
    "exponential_": lambda x: torch.empty_like(x).exponential_(),
    "randperm": lambda x: torch.randperm(x.numel(), device=x.device),
    "multinomial": lambda x: torch.multinomial(torch.ones_like(x), 100, replacement=True),
}


@pytest.mark.nightly("each case compiles one random operator", every=3)
@pytest.mark.parametrize("name", SOURCES)
def test_seeds_reproduce_and_calls_differ(name: str, compiled) -> None:
    function = compiled(lambda x: SOURCES[name](x) + x * 0)
    x = torch.zeros(100, device="hpu")
    host_state = torch.get_rng_state()
    torch.hpu.manual_seed(3)
    first, second = function(x), function(x)
    torch.hpu.manual_seed(3)
    assert torch.equal(function(x), first)
    assert torch.equal(function(x), second)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), host_state)


def test_manual_seed_of_torch_reproduces(fused) -> None:
    function = fused(lambda x: torch.rand_like(x))
    x = torch.zeros(10, device="hpu")
    torch.manual_seed(1)
    first = function(x)
    torch.manual_seed(1)
    assert torch.equal(function(x), first)


def test_gradient_of_dropout_uses_the_mask_of_its_forward(compiled) -> None:
    function = compiled(lambda x: F.dropout(x, 0.5, training=True))
    for _ in range(3):
        x = torch.ones(1000, device="hpu", requires_grad=True)
        y = function(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        assert 300 < int((y == 0).sum()) < 700


def test_random_numbers_have_their_distribution(fused) -> None:
    function = fused(lambda x: (torch.rand_like(x), torch.randn_like(x)))
    uniform, normal = function(torch.zeros(20000, device="hpu"))
    assert abs(uniform.mean().item() - 0.5) < 0.02 and 0 <= uniform.min().item() <= uniform.max().item() < 1
    assert abs(normal.mean().item()) < 0.05 and abs(normal.std().item() - 1) < 0.05


@pytest.mark.parametrize("device", ["cpu", "hpu"])
def test_states_of_generators_are_handled_outside_graphs(device: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.testing._utils.freeze_rng_state():
            torch.manual_seed(1)
            return torch.rand_like(x)

    x = torch.zeros(4, device=device)
    state = torch.hpu.get_rng_state()
    program = torch.compile(function, backend="aot_eager")
    assert torch.equal(program(x), program(x))
    assert torch.equal(torch.hpu.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.hpu.manual_seed(5)
    assert torch.equal(torch.hpu.get_rng_state(), state)
