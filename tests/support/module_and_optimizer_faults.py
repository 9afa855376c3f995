"""Faults planted into modules and optimizers, and the check that a property sees them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from conformance.device import process_state
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, Result, ResultId, Verdict, seed_of
from conformance.properties import registry
from conformance.properties.modules import _module_checks as modules
from conformance.properties.optimizers import _optimizer_checks as optimizers
from conformance.subjects.torch_databases import find
from conformance.target import file as target_file
from conformance.target.target import Target

Fault = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclasses.dataclass(frozen=True)
class Planted:
    """A fault that must turn a property of a subject red with a kind of failure."""

    kind: str
    property: str
    subject: str
    fault: Fault
    shows: Kind = Kind.VALUE
    dtype: str = "float32"

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.property}-{self.subject}"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check(target: Target, planted: Planted) -> Result:
    entry = registry.find(planted.kind, planted.property)
    subject = find(planted.kind, planted.subject)
    assert planted.dtype in entry.applies(target, subject)
    seed = seed_of(subject.name, planted.dtype)
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), planted.dtype), seed=seed)
    process_state.seed(seed, target)
    entry.check(target, subject, recorder)
    return recorder.result()


def is_found(planted: Planted) -> None:
    """Assert that the property passes without the fault and fails with it, in the way that it shows."""
    target = target_file.load("cpu").target("eager")
    with _one_thread(), pytest.MonkeyPatch.context() as patch:
        clean = _check(target, planted)
        assert clean.verdict is Verdict.PASS, clean.failures
        for common in (modules, optimizers):

            def faulty(target: Target, call: Callable[[], Any], run: Any = common.on_target) -> Any:
                with planted.fault():
                    return run(target, call)

            patch.setattr(common, "on_target", faulty)
        result = _check(target, planted)
    assert result.verdict is Verdict.FAIL
    assert planted.shows in {failure.kind for failure in result.failures}, result.failures
