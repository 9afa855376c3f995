"""Short replacements of suite code, copied into snippets. The suite does not run them.

Upper-case names are data, which a snippet contains as literals.
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
CALLS: dict[str, Any] = {}
CALLS_OF_CALLERS: dict[str, Any] = {}
CALLS_ALIKE: dict[str, Any] = {}
PROGRAMS: dict[str, Any] = {}
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
    """Prints each failed comparison."""

    lacking: tuple[str, ...] = ()
    compares_strides = True
    #: False, because a snippet continues after a failure.
    first_only = False
    watch = None

    def __init__(
        self, id: Any, seed: int, about_emptiness: bool = False, waiting: list[str] | None = None
    ) -> None:
        self.id = id
        self.waiting = waiting
        self.seed = seed
        self.about_emptiness = about_emptiness
        self.comparisons = 0
        self.is_idle = False
        self.basis = None
        self.parity_sample_indices: set[int] = set()
        self.failures = 0
        self.recorded_failures: list[tuple[Kind, str]] = []
        self.reason = ""
        self.omitted_texts: list[str] = []
        self.samples_used = 0

    @property
    def failed(self) -> bool:
        """True if anything failed so far."""
        return self.failures > 0

    @property
    def failure_count(self) -> int:
        """The number of failures so far."""
        return self.failures

    def compared(self, count: int) -> None:
        """Count a comparison."""
        self.comparisons += 1

    @contextlib.contextmanager
    def with_basis(self, basis: Any) -> Iterator[None]:
        """Ignore ``basis``: a snippet prints every failure in the same way."""
        yield

    def fail(self, kind: Kind, message: str, *, sample: int | None = None, basis: Any = None) -> None:
        """Print a failure."""
        self.failures += 1
        self.recorded_failures.append((kind, message))
        self.say(f"WRONG ({kind.value}): {message}")

    def say(self, text: str) -> None:
        """Print a text, or store it in a scratch recorder."""
        if self.waiting is None:
            print(text)
        else:
            self.waiting.append(text)

    @property
    def first_failure(self) -> str:
        """The first text that this scratch recorder stored, or an empty text."""
        return self.waiting[0] if self.waiting else ""

    def scratch(self) -> Recorder:
        """Return an empty recorder for provisional observations."""
        return Recorder(self.id, self.seed, self.about_emptiness, [])

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the failures so far."""
        return frozenset(kind for kind, _ in self.recorded_failures)

    def only(self, kinds: Any) -> Recorder:
        """Return a scratch recorder with the failures of some kinds."""
        scratch = self.scratch()
        for kind, message in self.recorded_failures:
            if kind in kinds:
                scratch.fail(kind, message)
        return scratch

    def merge(self, scratch: Recorder) -> None:
        """Add the observations of a scratch recorder."""
        self.comparisons += scratch.comparisons
        self.is_idle |= scratch.is_idle
        self.failures += scratch.failures
        for text in scratch.waiting or []:
            self.say(text)

    def note(self, text: str) -> None:
        """Print a note."""
        self.say(f"note: {text}")

    def unsupported(self, reason: str) -> None:
        """Print that the target declares the subject unsupported."""
        self.say(f"declared unsupported: {reason}")

    def cut_off(self) -> None:
        """Print that the check ended early."""
        self.say("the rest was not reached")

    def omit_for_dtypes(self, dtypes: Any) -> None:
        """Print the undeclared dtypes."""
        self.is_idle = True
        text = f"left out: {', '.join(sorted(dtypes))} is not declared"
        if text not in self.omitted_texts:
            self.omitted_texts.append(text)
            self.say(text)

    def vacuous(self, reason: str) -> None:
        """Store the reason why nothing was compared."""
        self.reason = reason

    def allow_nothing_compared(self, reason: str) -> None:
        """Allow this result to pass without a comparison."""
        self.is_idle = True
        self.say(f"note: {reason}")

    def idle(self, reason: str) -> None:
        """Old name of ``allow_nothing_compared``."""
        self.allow_nothing_compared(reason)

    def samples(self, used: int, available: int) -> None:
        """Count the samples that were used."""
        self.samples_used += used

    def placement(self, placement: Any) -> None:
        """Print the placement of the operator, such as ``native`` or ``fallback``."""
        print(f"placement: {placement.value}")

    def finish(self) -> None:
        """Exit with 1 if a comparison failed or nothing was compared, else with 0."""
        if not self.failures and (self.reason or not (self.comparisons or self.is_idle)):
            self.failures += 1
            print(f"WRONG (vacuous): {self.reason or 'nothing was compared'}")
        print("the failure is still there" if self.failures else f"ok: {self.comparisons} comparisons hold")
        sys.stdout.flush()
        sys.exit(1 if self.failures else 0)


def samples_of(subject: Any, dtype: torch.dtype, requires_grad: bool = False) -> Any:
    """Return a copy of the operator's samples that the check used."""
    return SampleSet(subject.name, SAMPLES.get((dtype, requires_grad), []))


def calls_of(subject: Any, dtype: str) -> Any:
    """Return a copy of the overload's calls that the check used."""
    return SampleSet(subject.name, CALLS.get(dtype, []))


def larger_and_empty_calls(subject: Any, dtype: str) -> Any:
    """Return a copy of the overload's calls that operators make and that the check used."""
    return SampleSet(subject.name, CALLS_OF_CALLERS.get(dtype, []))


def recorded_and_similar_calls(subject: Any, dtype: str) -> Any:
    """Return a copy of the calls that the check compares with each other."""
    return SampleSet(subject.name, CALLS_ALIKE.get(dtype, []))


def programs_of(subject: str, dtype: str) -> Any:
    """Return a copy of the random programs that the check used."""
    return PROGRAMS.get(dtype, [])


def reference_samples_of(subject: Any, dtype: torch.dtype) -> Any:
    """Return a copy of the operator's reference samples that the check used."""
    return SampleSet(subject.name, REFERENCE_SAMPLES.get(dtype, []))


def module_samples(subject: Any, dtype: torch.dtype) -> Any:
    """Return the samples of the module."""
    return MODULE_SAMPLES[dtype]


def optimizer_samples(subject: Any, dtype: torch.dtype, *, capturable: bool) -> Any:
    """Return the samples of the optimizer."""
    return OPTIMIZER_SAMPLES[(dtype, capturable)]


def find(kind: str, name: str) -> Any:
    """Return the subject of the check."""
    return SUBJECT


def rule(operator: str, dtype: torch.dtype, direction: str = "forward") -> Any:
    """Return the tolerance rule. A dtype without a rule gets the rule of another dtype."""
    return RULES.get((operator, dtype, direction)) or RULES[(operator, direction)]


def exclusion_reasons(mode: str, table: str) -> Any:
    """Return the operators that a table excludes from a mode, with their reasons."""
    return REASONS.get((mode, table), {})


def error_inputs(info: Any, device: str, *, seed: int) -> Any:
    """Return the error inputs of the operator."""
    return ERROR_INPUTS


def module_error_inputs(info: Any, dtype: torch.dtype, *, training: bool, seed: int) -> Any:
    """Return the error inputs of the module."""
    return MODULE_ERROR_INPUTS[training]


def optimizer_error_inputs(info: Any, dtype: torch.dtype, *, seed: int) -> Any:
    """Return the error inputs of the optimizer."""
    return OPTIMIZER_ERROR_INPUTS


def backward_dtypes(info: Any) -> Any:
    """Return the dtypes in which the operator has a backward pass on the CPU."""
    return BACKWARD_DTYPES


def forward_dtypes(info: Any) -> Any:
    """Return the dtypes that the operator supports on the CPU."""
    return FORWARD_DTYPES


def first_samples_by_dtype(name: str) -> dict[torch.dtype, Any]:
    """Return the first sample of the operator for each dtype, and whether the CPU has a result for it."""
    return FIRST_SAMPLES


def other_samples(name: str, dtype: torch.dtype, requires_grad: bool, seed_word: str) -> Any:
    """Return the samples of the operator from another seed."""
    return OTHERS.get((dtype, requires_grad, seed_word), [])


@contextlib.contextmanager
def preserved_rng() -> Iterator[None]:
    """Restore the states of the random number generators after the block."""
    torch_state, python_state = torch.default_generator.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.default_generator.set_state(torch_state)
        random.setstate(python_state)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the random number generators, and restore their states after the block."""
    with preserved_rng():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        yield


def seed(value: int, target: Any) -> None:
    """Seed the random number generators."""
    random.seed(value)
    torch.manual_seed(value)


def announce_digest(operator: str, dtype: str, index: int, value: Any) -> None:
    """Do nothing: snippets send no digests of reference values."""


def limit(smaller: int | None = None) -> int | None:
    """Return the property's own sample limit."""
    return smaller


def op_db() -> Any:
    """Return torch's database of operators."""
    return databases().op_db


def foreach_db() -> Any:
    """Return torch's OpInfos of operators on lists of tensors."""
    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    return [op for kind in kinds for op in getattr(databases(), f"foreach_{kind}_op_db", ())]


def databases() -> Any:
    """Return torch's module of operator databases.

    The module imports the package ``expecttest`` and uses only its class ``TestCase``. If the package is not
    installed, an empty module with this class replaces it.
    """
    try:
        importlib.import_module("expecttest")
    except ImportError:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
    return importlib.import_module("torch.testing._internal.common_methods_invocations")


def composite_checks() -> Any:
    """Return torch's module for checks of composite compliance."""
    return importlib.import_module("torch.testing._internal.composite_compliance")


class NoNumpy:
    """A replacement for NumPy if it is not installed: no value is a NumPy array."""

    ndarray = ()


def numpy_or_none() -> Any:
    """Return NumPy, or its replacement."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return NoNumpy


numpy = numpy_or_none()
