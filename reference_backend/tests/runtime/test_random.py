"""Test random operators: they use one device generator, reproducible and independent of the CPU generator."""

import copy
import pickle

import pytest
import torch

DRAWS = [
    lambda g: torch.rand(50, device="hpu", generator=g),
    lambda g: torch.randn(50, device="hpu", generator=g),
    lambda g: torch.randint(0, 1000, (50,), device="hpu", generator=g),
    lambda g: torch.randperm(50, device="hpu", generator=g),
    lambda g: torch.bernoulli(torch.full((50,), 0.5, device="hpu"), generator=g),
    lambda g: torch.multinomial(torch.ones(50, device="hpu"), 20, generator=g),
    lambda g: torch.empty(50, device="hpu").exponential_(generator=g),
    lambda g: torch.normal(torch.zeros(50, device="hpu"), 1.0, generator=g),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_seed_determines_the_numbers(draw):
    values = {}
    for seed in (1, 2, 1):
        g = torch.Generator("hpu").manual_seed(seed)
        pair = (draw(g).tolist(), draw(g).tolist())
        assert pair[0] != pair[1]
        assert values.setdefault(seed, pair) == pair
    assert values[1] != values[2]


def test_dropout_draws_from_the_device():
    a = torch.ones(1000, device="hpu")
    state = torch.get_rng_state()
    torch.hpu.manual_seed(5)
    first = torch.nn.functional.dropout(a, 0.3)
    torch.hpu.manual_seed(5)
    assert torch.nn.functional.dropout(a, 0.3).equal(first)
    assert torch.get_rng_state().equal(state)
    nonzero_share = first.ne(0).float().mean().item()
    assert 0.6 < nonzero_share < 0.8 and first.max().item() == pytest.approx(1 / 0.7)
    assert not torch.nn.functional.dropout(a, 0.3).equal(first)


def test_cpu_and_device_generators_are_independent():
    torch.manual_seed(3)
    first = torch.rand(5, device="hpu").tolist()
    host = torch.rand(5).tolist()
    torch.manual_seed(3)
    assert torch.rand(5).tolist() == host  # the device has drawn no number since the seed
    assert torch.rand(5, device="hpu").tolist() == first


def test_state_round_trip():
    state = torch.hpu.get_rng_state()
    first = torch.randn(7, device="hpu").tolist()
    torch.hpu.set_rng_state(state)
    assert torch.randn(7, device="hpu").tolist() == first
    g = torch.Generator("hpu").manual_seed(9)
    saved = g.get_state()
    values = torch.rand(3, device="hpu", generator=g).tolist()
    restored = torch.Generator("hpu")
    restored.set_state(saved)
    assert torch.rand(3, device="hpu", generator=restored).tolist() == values
    assert g.clone_state().device.type == "hpu" and g.device == torch.device("hpu:0")


def test_numbers_fit_their_distributions():
    torch.hpu.manual_seed(0)
    uniform = torch.rand(200_000, device="hpu")
    assert abs(uniform.mean().item() - 0.5) < 0.005 and abs(uniform.var().item() - 1 / 12) < 0.002
    normal = torch.randn(200_000, device="hpu")
    assert abs(normal.mean().item()) < 0.01 and abs(normal.std().item() - 1) < 0.01
    assert torch.randperm(100, device="hpu").sort().values.tolist() == list(range(100))


def test_many_small_draws_are_not_correlated():
    torch.hpu.manual_seed(0)
    draws = torch.stack([torch.rand((), device="hpu") for _ in range(4000)]).cpu()
    assert draws.unique().numel() > 3990
    centred = draws - draws.mean()
    assert abs((centred[1:] * centred[:-1]).mean().item() / draws.var().item()) < 0.06


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_restores_the_generator(python, use_reentrant):
    script = f"""
seen = []
def forward(x):
    result = torch.nn.functional.dropout(x, 0.5)
    seen.append(result.detach())
    return result * result
x = torch.ones(8, 8, device='hpu', requires_grad=True)  # no random operator before
y = torch.utils.checkpoint.checkpoint(forward, x, use_reentrant={use_reentrant})
y.sin().sum().backward()
assert torch.equal(seen[0].ne(0), seen[1].ne(0))
"""
    done = python(script)
    assert done.returncode == 0, done.stderr


def test_generators_can_be_pickled_and_copied():
    generator = torch.Generator("hpu").manual_seed(4)
    torch.rand(3, device="hpu", generator=generator)
    for twin in (pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator)):
        state = generator.get_state()
        assert torch.rand(5, device="hpu", generator=twin).equal(
            torch.rand(5, device="hpu", generator=generator)
        )
        generator.set_state(state)
