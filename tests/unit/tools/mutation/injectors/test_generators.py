"""Mutants of ``torch.Generator`` have their documented effect while they are enabled, and no effect after
they are disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from conformance.target import file as target_file
from tools.mutation.injectors import generators
from tools.mutation.mutant import Mutant


@pytest.fixture
def injector() -> Iterator[generators.GeneratorInjector]:
    injector = generators.generator_injector(target_file.load("cpu").target("eager"))
    yield injector
    injector.disable()


def three_random_numbers(generator: torch.Generator) -> list[float]:
    return torch.rand(3, generator=generator).tolist()


def seeded_generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def new_seed_changes_numbers() -> bool:
    generator = seeded_generator(3)
    return generator.seed() != 3


def restored_state_repeats_numbers() -> bool:
    generator = seeded_generator(3)
    three_random_numbers(generator)
    state = generator.get_state()
    first = three_random_numbers(generator)
    generator.set_state(state)
    return three_random_numbers(generator) == first


def states_differ_after_draw() -> bool:
    generator = seeded_generator(3)
    before = generator.get_state()
    three_random_numbers(generator)
    return not torch.equal(before, generator.get_state())


def clone_is_a_separate_generator() -> bool:
    generator = seeded_generator(3)
    clone = generator.clone_state()
    return three_random_numbers(generator) == three_random_numbers(clone)


CASES: list[tuple[str, str, Callable[[], bool]]] = [
    ("__new__", "generators-shared", lambda: torch.Generator() is not torch.Generator()),
    ("manual_seed", "generator-seed-lost", lambda: seeded_generator(3).initial_seed() == 3),
    (
        "manual_seed",
        "generator-seed-ignored",
        lambda: three_random_numbers(seeded_generator(3)) != three_random_numbers(seeded_generator(4)),
    ),
    (
        "manual_seed",
        "generator-seed-of-32-bits",
        lambda: seeded_generator(2**40 + 3).initial_seed() == 2**40 + 3,
    ),
    ("seed", "generator-seed-kept", new_seed_changes_numbers),
    ("get_state", "generator-state-stale", states_differ_after_draw),
    ("set_state", "generator-state-lost", restored_state_repeats_numbers),
    ("set_state", "generator-state-without-offset", restored_state_repeats_numbers),
    ("clone_state", "generator-clone-shared", clone_is_a_separate_generator),
    ("initial_seed", "value-off-by-one", lambda: seeded_generator(3).initial_seed() == 3),
    ("initial_seed", "value-zero", lambda: seeded_generator(3).initial_seed() == 3),
]


@pytest.mark.parametrize(("method", "kind", "right"), CASES, ids=[kind for _, kind, _ in CASES])
def test_a_mutant_acts_while_it_is_active(
    injector: generators.GeneratorInjector, method: str, kind: str, right: Callable[[], bool]
) -> None:
    own = torch.Generator
    assert right()
    injector.enable(Mutant(f"generator::{method}", kind))
    assert not right()
    counts = injector.disable()
    assert counts.triggered >= counts.altered > 0
    assert right() and torch.Generator is own


def test_every_mutation_operator_is_injected_here(injector: generators.GeneratorInjector) -> None:
    errors = {"call-error-missing", "call-error-type"}
    assert {fault.operator for fault in injector.mutants} == {kind for _, kind, _ in CASES} | errors


def test_existing_generators_and_other_devices_are_not_mutated(
    injector: generators.GeneratorInjector,
) -> None:
    of_before = torch.Generator()
    injector.enable(Mutant("generator::manual_seed", "generator-seed-lost"))
    assert isinstance(of_before, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
    assert of_before.manual_seed(5).initial_seed() == 5
    with pytest.raises(RuntimeError, match="nosuch"):
        torch.Generator("nosuch")
    injector.disable()
    elsewhere: Any = generators.generator_injector(target_file.load("cpu").target("eager"))
    elsewhere._operators_by_name = {
        name: generators._limited_to_device(kind, "meta") for name, kind in generators.BY_NAME.items()
    }
    elsewhere.enable(Mutant("generator::manual_seed", "generator-seed-lost"))
    assert seeded_generator(7).initial_seed() == 7
    assert elsewhere.disable().triggered == 0
