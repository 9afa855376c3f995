"""Each property of modules and optimizers is green on the CPU, and red where a fault is planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import module_faults
import pytest
import torch

from conformance.checking.recorder import Recorder
from conformance.device import process_state
from conformance.model.verdicts import CaseId, Result, ResultId, Verdict, seed_of
from conformance.properties import registry
from conformance.properties.modules import _common as modules
from conformance.properties.optimizers import _common as optimizers
from conformance.subjects.databases import find
from conformance.target import file as target_file
from conformance.target.target import Target


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def target() -> Target:
    return target_file.load("cpu").target("eager")


def check(target: Target, planted: module_faults.Planted) -> Result:
    entry = registry.find(planted.kind, planted.property)
    subject = find(planted.kind, planted.subject)
    assert planted.dtype in entry.applies(target, subject)
    seed = seed_of(subject.name, planted.dtype)
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), planted.dtype), seed=seed)
    process_state.seed(seed, target)
    entry.check(target, subject, recorder)
    return recorder.result()


@pytest.mark.parametrize("kind", ["module", "optimizer"])
def test_every_property_has_a_planted_fault(kind: str) -> None:
    assert {entry.name for entry in registry.properties(kind)} == module_faults.names(kind)


@pytest.mark.parametrize(
    "planted", module_faults.PLANTED, ids=lambda one: f"{one.kind}-{one.property}-{one.subject}"
)
def test_a_planted_fault_is_found(
    target: Target, planted: module_faults.Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = check(target, planted)
    assert clean.verdict is Verdict.PASS, clean.failures

    for common in (modules, optimizers):

        def faulty(target: Target, call: Callable[[], Any], run: Any = common.on_target) -> Any:
            with planted.fault():
                return run(target, call)

        monkeypatch.setattr(common, "on_target", faulty)
    result = check(target, planted)
    assert result.verdict is Verdict.FAIL
    assert planted.shows in {failure.kind for failure in result.failures}, result.failures
