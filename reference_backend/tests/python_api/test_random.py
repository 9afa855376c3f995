"""Test seeds and states of the device's generator."""

from __future__ import annotations

import habana_frameworks.torch as ht
import pytest
import torch

hpu = ht.hpu


def _draw_five_numbers() -> list[float]:
    return torch.rand(5, device="hpu").tolist()


@pytest.fixture(autouse=True)
def _restore_generators():
    cpu, device = torch.get_rng_state(), hpu.get_rng_state()
    yield
    torch.set_rng_state(cpu)
    hpu.set_rng_state(device)


@pytest.fixture
def philox():
    hpu.set_rng_ctx("philox")
    yield
    hpu.unset_rng_ctx("philox")


def test_manual_seed_repeats_and_returns_the_generator():
    assert hpu.manual_seed(11) is hpu.default_generators[0]
    first = _draw_five_numbers()
    assert first != _draw_five_numbers()
    hpu.manual_seed_all(11)
    assert _draw_five_numbers() == first
    assert hpu.initial_seed() == 11
    assert len(hpu.default_generators) == 1
    assert hpu.default_generators[0].device.type == "hpu"


@pytest.mark.parametrize("seeder", [torch.manual_seed, torch.random.manual_seed])
def test_torch_seeds_the_device(seeder):
    seeder(5)
    first = _draw_five_numbers()
    seeder(5)
    assert _draw_five_numbers() == first
    assert hpu.initial_seed() == 5


def test_torch_seed_seeds_the_device():
    hpu.manual_seed(5)
    seed = torch.seed()
    assert hpu.initial_seed() == seed == torch.initial_seed()


def test_torch_manual_seed_is_not_wrapped():
    # Dynamo recognises `manual_seed` by identity, so the backend must not replace the function.
    assert torch.random.manual_seed.__module__ == "torch.random"
    assert not hasattr(torch.random.manual_seed, "__wrapped__")


def test_seeding_does_not_acquire_the_device(output_of):
    code = (
        "import torch, habana_frameworks.torch\n"
        "torch.manual_seed(3); torch.hpu.manual_seed(4); print(torch.hpu.is_initialized())\n"
        "a = torch.rand(3, device='hpu').tolist(); torch.hpu.manual_seed(4)\n"
        "print(a == torch.rand(3, device='hpu').tolist())"
    )
    assert output_of(code).split() == ["False", "True"]


def test_seed_is_different_each_time():
    first = hpu.seed()
    assert first == hpu.initial_seed()
    hpu.seed_all()
    assert hpu.initial_seed() != first


@pytest.mark.parametrize("device", ["hpu", "hpu:0", 0, torch.device("hpu")])
def test_state_round_trip(device):
    state = hpu.get_rng_state(device)
    assert (state.dtype, state.device.type, state.shape) == (torch.uint8, "cpu", torch.get_rng_state().shape)
    first = _draw_five_numbers()
    hpu.set_rng_state(state, device)
    assert _draw_five_numbers() == first


def test_state_of_all():
    (state,) = states = hpu.get_rng_state_all()
    first = _draw_five_numbers()
    hpu.set_rng_state_all(states)
    assert _draw_five_numbers() == first
    with pytest.raises(RuntimeError, match="got 2 states"):
        hpu.set_rng_state_all([state, state])


def test_state_may_come_from_the_device():
    state = hpu.get_rng_state()
    first = _draw_five_numbers()
    hpu.set_rng_state(state.to("hpu"))
    assert _draw_five_numbers() == first


def test_other_devices_have_no_generator(monkeypatch):
    monkeypatch.setenv("HLS_MODULE_ID", "2")
    for call in (hpu.get_rng_state, lambda device: hpu.set_rng_state(hpu.get_rng_state(), device)):
        with pytest.raises(RuntimeError, match="device 1 has no generator"):
            call(1)
    assert torch.equal(hpu.get_rng_state(2), hpu.get_rng_state(0))


def test_fork_rng_saves_both_generators_by_default():
    hpu.manual_seed(1)
    torch.default_generator.manual_seed(1)
    with torch.random.fork_rng():
        first = _draw_five_numbers(), torch.rand(2).tolist()
    assert (_draw_five_numbers(), torch.rand(2).tolist()) == first


def test_fork_rng_with_explicit_devices_does_not_save_hpu():
    hpu.manual_seed(1)
    with torch.random.fork_rng(devices=[], device_type="hpu"):
        first = _draw_five_numbers()
    assert _draw_five_numbers() != first


def test_unknown_context():
    with pytest.raises(ValueError, match="Use 'philox'"):
        hpu.set_rng_ctx("mersenne")
    with pytest.raises(ValueError, match="Use 'philox'"):
        hpu.unset_rng_ctx("mersenne")


def _philox_state(seed: int, offset: int) -> torch.Tensor:
    return torch.tensor([seed, offset], dtype=torch.int64).view(torch.uint8)


def test_philox_state_is_seed_and_offset(philox):
    hpu.manual_seed(77)
    state = hpu.get_rng_state()
    assert (state.shape, state.dtype, state.device.type) == ((16,), torch.uint8, "cpu")
    assert state.view(torch.int64).tolist() == [77, 0]
    hpu.set_rng_state(_philox_state(77, 48))
    assert hpu.get_rng_state().view(torch.int64).tolist() == [77, 48]


def test_philox_seed_and_offset_determine_the_values(philox):
    drawn = {}
    for pair in ((7, 0), (7, 4), (8, 0), (2**63 - 1, 4)):
        hpu.set_rng_state(_philox_state(*pair))
        drawn[pair] = tuple(_draw_five_numbers())
        hpu.set_rng_state(_philox_state(*pair))
        assert tuple(_draw_five_numbers()) == drawn[pair]
    assert len(set(drawn.values())) == len(drawn)
    hpu.manual_seed(7)
    assert tuple(_draw_five_numbers()) == drawn[7, 0]


def test_philox_offset_advances_with_use(philox):
    hpu.set_rng_state(_philox_state(7, 8))
    outside = _draw_five_numbers()
    seed, offset = hpu.get_rng_state().view(torch.int64).tolist()
    assert seed == 7
    assert offset > 8
    assert offset % 4 == 0
    hpu.set_rng_state(_philox_state(7, offset))
    assert _draw_five_numbers() != outside


def test_philox_state_is_equal_after_equal_calls(philox):
    states = []
    for _ in range(2):
        hpu.manual_seed(9)
        _draw_five_numbers()
        states.append(hpu.get_rng_state())
    assert torch.equal(*states)


def test_philox_rejects_other_states(philox):
    with pytest.raises(RuntimeError, match="use 16 bytes of uint8"):
        hpu.set_rng_state(torch.get_rng_state())


def test_outside_the_context_the_state_is_the_full_generator_state(philox):
    hpu.set_rng_state(_philox_state(7, 8))
    hpu.unset_rng_ctx("philox")
    assert hpu.get_rng_state().numel() > 16


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "random"), reason="torch.accelerator.random is new in 2.14"
)
def test_accelerator_lists_one_state_for_each_device_of_the_node():
    states = torch.accelerator.random.get_rng_state_all()
    assert len(states) == torch.accelerator.device_count()
    assert all(torch.equal(state, torch.hpu.get_rng_state()) for state in states)
