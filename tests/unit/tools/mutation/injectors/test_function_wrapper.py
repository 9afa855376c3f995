"""Mutants of Python functions have their documented effect while they are enabled, and no effect after they
are disabled.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from tools.mutation.injectors import python_module
from tools.mutation.injectors.function_wrapper import (
    Function,
    FunctionInjector,
    MutationOperator,
    is_called_by_check,
)
from tools.mutation.injectors.injector import Observed
from tools.mutation.mutant import Mutant


class Device(types.ModuleType):
    """A minimal device module with a seed and memory statistics."""

    def __init__(self) -> None:
        super().__init__("device")
        self.seed = 0
        self.used = 10

        def manual_seed(seed: int) -> None:
            if seed < 0:
                raise RuntimeError("a seed is not negative")
            self.seed = seed

        self.manual_seed = manual_seed
        self.memory_allocated = lambda device=None: self.used
        self.mem_get_info = lambda: (self.used, 100)
        self.memory_stats = lambda: {"used": self.used, "names": {"a": 1}}
        self.is_available = lambda: True


PLACES = {
    "manual_seed": (
        "setting-lost",
        "seed-ignored",
        "seed-of-32-bits",
        "call-error-missing",
        "call-error-type",
    ),
    "memory_allocated": ("value-off-by-one", "value-zero", "value-stale"),
    "mem_get_info": ("value-off-by-one",),
    "memory_stats": ("statistics-zero",),
    "is_available": ("answer-inverted",),
}


def injector(device: Device) -> FunctionInjector:
    functions = {function_name: Function(device, function_name) for function_name in PLACES}
    allowed: dict[str, tuple[str, ...]] = dict(PLACES)
    return FunctionInjector(functions, allowed, python_module.BY_NAME)


def set_and_read_seed(seed: int) -> Callable[[Device], Any]:
    def call(device: Device) -> Any:
        device.manual_seed(seed)
        return device.seed

    return call


def memory_allocated_twice(device: Device) -> Any:
    first = device.memory_allocated()
    device.used += 1
    return first, device.memory_allocated()


@pytest.mark.parametrize(
    ("function_name", "kind", "call", "right", "wrong"),
    [
        ("manual_seed", "setting-lost", set_and_read_seed(3), 3, 0),
        ("manual_seed", "seed-ignored", set_and_read_seed(3), 3, 0),
        ("manual_seed", "seed-of-32-bits", set_and_read_seed(2**40 + 3), 2**40 + 3, 3),
        ("memory_allocated", "value-off-by-one", memory_allocated_twice, (10, 11), (11, 12)),
        ("memory_allocated", "value-zero", memory_allocated_twice, (10, 11), (0, 0)),
        ("memory_allocated", "value-stale", memory_allocated_twice, (10, 11), (10, 10)),
        ("mem_get_info", "value-off-by-one", lambda device: device.mem_get_info(), (10, 100), (11, 100)),
        (
            "memory_stats",
            "statistics-zero",
            lambda device: device.memory_stats(),
            {"used": 10, "names": {"a": 1}},
            {"used": 0, "names": {"a": 0}},
        ),
        ("is_available", "answer-inverted", lambda device: device.is_available(), True, False),
    ],
)
def test_a_mutant_of_a_function_acts_while_it_is_active(
    function_name: str, kind: str, call: Callable[[Device], Any], right: Any, wrong: Any
) -> None:
    device = Device()
    faults = injector(device)
    before = [getattr(device, name) for name in PLACES]
    faults.enable(Mutant(function_name, kind))
    assert call(device) == wrong
    counts = faults.disable()
    assert counts.triggered >= counts.altered > 0
    assert [getattr(device, name) for name in PLACES] == before
    assert call(Device()) == right


def test_an_error_is_dropped_or_changed() -> None:
    device = Device()
    faults = injector(device)
    faults.enable(Mutant("manual_seed", "call-error-missing"))
    device.manual_seed(-1)
    device.manual_seed(4)
    assert faults.disable().triggered == 1
    faults.enable(Mutant("manual_seed", "call-error-type"))
    with pytest.raises(IndexError):
        device.manual_seed(-1)
    faults.disable()
    with pytest.raises(RuntimeError, match="not negative"):
        device.manual_seed(-1)


def test_a_coverage_run_records_the_mutants_that_a_call_could_trigger() -> None:
    device = Device()
    faults = injector(device)
    faults.observe(True)
    assert memory_allocated_twice(device) == (10, 11)
    device.manual_seed(5)
    faults.observe(False)
    observed = faults.take_observed()
    kinds = {str(faults.mutants[number]) for number, _ in observed.triggered}
    assert kinds == {
        "memory_allocated value-off-by-one 0 0 @any",
        "memory_allocated value-zero 0 0 @any",
        "memory_allocated value-stale 0 0 @any",
        "manual_seed setting-lost 0 0 @any",
        "manual_seed seed-ignored 0 0 @any",
    }
    assert [faults.mutation_points[point] for point, _, _ in observed.calls] == [
        "manual_seed",
        "memory_allocated",
    ]
    device.manual_seed(5)
    assert faults.take_observed() == Observed([], [])


def test_a_mutation_that_raises_leaves_the_call_unchanged() -> None:
    def fails(call: Any) -> bool:
        raise ValueError("the mutation failed")

    device = Device()
    kind = MutationOperator("fails", lambda call: True, fails, after=False)
    faults = FunctionInjector(
        {"manual_seed": Function(device, "manual_seed")}, {"manual_seed": ("fails",)}, {"fails": kind}
    )
    faults.enable(Mutant("manual_seed", "fails"))
    assert set_and_read_seed(7)(device) == 7
    assert faults.disable().altered == 0


def test_calls_by_the_suite_between_results_are_ignored() -> None:
    scope: dict[str, Any] = {"__name__": "conformance.worker.executor", "asked": is_called_by_check}
    exec("def call():\n    return asked()", scope)
    assert scope["call"]() is False
    inner: dict[str, Any] = {
        "__name__": "conformance.properties.api.random.generators",
        "asked": is_called_by_check,
    }
    exec("def call():\n    return asked()", inner)
    scope["asked"] = inner["call"]
    assert scope["call"]() is True
