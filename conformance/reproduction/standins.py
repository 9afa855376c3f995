"""Short stand-ins for parts of the suite, for snippets: code that is copied into them, not run here.

The names in capitals are data; a snippet gets them as literals.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.samples.operators import SampleSet

SAMPLES: dict[Any, Any] = {}
REFERENCE_SAMPLES: dict[Any, Any] = {}
MODULE_SAMPLES: dict[Any, Any] = {}
OPTIMIZER_SAMPLES: dict[Any, Any] = {}
RULES: dict[Any, Any] = {}
REASONS: dict[Any, Any] = {}
ERROR_INPUTS: list[Any] = []
MODULE_ERROR_INPUTS: dict[bool, Any] = {}
OPTIMIZER_ERROR_INPUTS: list[Any] = []
BACKWARD_DTYPES: Any = ()
FORWARD_DTYPES: Any = ()
FIRST_SAMPLES: dict[Any, Any] = {}
OTHERS: dict[Any, Any] = {}
SUBJECT: Any = None


class Recorder:
    """Prints what does not hold."""

    lacking: tuple[str, ...] = ()

    def __init__(self, id: Any, seed: int, about_emptiness: bool = False) -> None:
        self.id = id
        self.seed = seed
        self.about_emptiness = about_emptiness
        self.comparisons = 0
        self.failures = 0
        self.reason = ""
        self.samples_used = 0

    @property
    def failed(self) -> bool:
        return self.failures > 0

    @property
    def failure_count(self) -> int:
        return self.failures

    def compared(self, count: int) -> None:
        self.comparisons += 1

    def fail(self, kind: Kind, message: str, *, sample: int | None = None) -> None:
        self.failures += 1
        print(f"WRONG ({kind.value}): {message}")

    def note(self, text: str) -> None:
        print(f"note: {text}")

    def unsupported(self, reason: str) -> None:
        print(f"declared unsupported: {reason}")

    def vacuous(self, reason: str) -> None:
        self.reason = reason

    def samples(self, used: int, available: int) -> None:
        self.samples_used += used

    def placement(self, placement: Any) -> None:
        print(f"placement: {placement.value}")

    def finish(self) -> None:
        """End the script: with 1 where something does not hold."""
        if not self.failures and (self.reason or not self.comparisons):
            self.failures += 1
            print(f"WRONG (vacuous): {self.reason or 'nothing was compared'}")
        print("the failure is still there" if self.failures else f"ok: {self.comparisons} comparisons hold")
        sys.stdout.flush()
        sys.exit(1 if self.failures else 0)


def samples_of(subject: Any, dtype: torch.dtype, requires_grad: bool = False) -> Any:
    return SampleSet(subject.name, SAMPLES.get((str(dtype), requires_grad), []))


def reference_samples_of(subject: Any, dtype: torch.dtype) -> Any:
    return SampleSet(subject.name, REFERENCE_SAMPLES.get(str(dtype), []))


def module_samples(subject: Any, dtype: torch.dtype) -> Any:
    return MODULE_SAMPLES[str(dtype)]


def optimizer_samples(subject: Any, dtype: torch.dtype, *, capturable: bool) -> Any:
    return OPTIMIZER_SAMPLES[(str(dtype), capturable)]


def find(kind: str, name: str) -> Any:
    return SUBJECT


def rule(operator: str, dtype: torch.dtype, direction: str = "forward") -> Any:
    found = RULES.get((operator, str(dtype), direction))
    return RULES[(operator, direction)] if found is None else found


def reasons(mode: str, table: str) -> Any:
    return REASONS.get((mode, table), {})


def error_inputs(info: Any, device: str, *, seed: int) -> Any:
    return ERROR_INPUTS


def module_error_inputs(info: Any, dtype: torch.dtype, *, training: bool, seed: int) -> Any:
    return MODULE_ERROR_INPUTS[training]


def optimizer_error_inputs(info: Any, dtype: torch.dtype, *, seed: int) -> Any:
    return OPTIMIZER_ERROR_INPUTS


def backward_dtypes(info: Any) -> Any:
    return BACKWARD_DTYPES


def forward_dtypes(info: Any) -> Any:
    return FORWARD_DTYPES


def first_samples(name: str) -> dict[torch.dtype, Any]:
    return FIRST_SAMPLES


def others(name: str, dtype: torch.dtype, requires_grad: bool) -> Any:
    return OTHERS.get((str(dtype), requires_grad), [])


@contextlib.contextmanager
def preserved_rng() -> Iterator[None]:
    state, other = torch.default_generator.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)
        random.setstate(other)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    with preserved_rng():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        yield


def seed_everything(value: int, target: Any) -> None:
    random.seed(value)
    torch.manual_seed(value)


def announce(operator: str, dtype: str, index: int, found: Any) -> None:
    pass


def limit(own: int | None = None) -> int | None:
    return own


def op_db() -> Any:
    """Torch's own database. Its file asks for a package of which the database needs nothing but a name."""
    try:
        importlib.import_module("expecttest")
    except ImportError:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
    return importlib.import_module("torch.testing._internal.common_methods_invocations").op_db


def composite_checks() -> Any:
    return importlib.import_module("torch.testing._internal.composite_compliance")


class NoNumpy:
    """In the place of NumPy, where there is none: nothing is one of its arrays."""

    ndarray = ()


def numpy_or_none() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return NoNumpy


numpy = numpy_or_none()
