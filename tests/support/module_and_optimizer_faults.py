"""Assert that a property of modules or optimizers detects an injected fault."""

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
class InjectedFault:
    """A fault, the property and the subject with which it must be detected, and the expected kind
    of failure.
    """

    kind: str
    property: str
    subject: str
    fault: Fault
    expected_kind: Kind = Kind.VALUE
    dtype: str = "float32"

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.property}-{self.subject}"


@contextlib.contextmanager
def _with_one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check_property(target: Target, injected_fault: InjectedFault) -> Result:
    entry = registry.find_property(injected_fault.kind, injected_fault.property)
    subject = find(injected_fault.kind, injected_fault.subject)
    assert injected_fault.dtype in entry.applies(target, subject)
    seed = seed_of(subject.name, injected_fault.dtype)
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), injected_fault.dtype), seed=seed)
    process_state.seed(seed, target)
    entry.check(target, subject, recorder)
    return recorder.result()


def assert_fault_is_detected(injected_fault: InjectedFault) -> None:
    """Assert that the property passes without the fault, and fails with the fault and the expected kind of
    failure.
    """
    target = target_file.load("cpu").target("eager")
    with _with_one_thread(), pytest.MonkeyPatch.context() as patch:
        clean = _check_property(target, injected_fault)
        assert clean.verdict is Verdict.PASS, clean.failures
        for common in (modules, optimizers):

            def on_target_with_fault(
                target: Target, call: Callable[[], Any], run: Any = common.attempt_on_target
            ) -> Any:
                with injected_fault.fault():
                    return run(target, call)

            patch.setattr(common, "attempt_on_target", on_target_with_fault)
        result = _check_property(target, injected_fault)
    assert result.verdict is Verdict.FAIL
    assert injected_fault.expected_kind in {failure.kind for failure in result.failures}, result.failures
