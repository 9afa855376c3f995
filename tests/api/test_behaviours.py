"""Every behaviour is green on the CPU, and red for each kind of fault that it must see."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import faults

from conformance.behaviours import behaviour
from conformance.behaviours.lab import Lab
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, Result, ResultId, Verdict
from conformance.properties.registry import find, properties
from conformance.subjects.databases import find as find_subject
from conformance.target import file as target_file

for module in sorted(Path(__file__).parent.glob("faults_*.py")):
    importlib.import_module(module.stem)

TARGET = target_file.load("cpu").target("eager")
NAMES = [entry.name for entry in properties("api")]


def checked(name: str) -> Result:
    entry = find("api", name)
    subject = find_subject("api", behaviour.BEHAVIOURS[name].area)
    dtype = entry.applies(TARGET, subject)[0]
    recorder = Recorder(ResultId(CaseId(name, subject.name), dtype), seed=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry.check(TARGET, subject, recorder)
    return recorder.result()


@contextlib.contextmanager
def planted(kind: str) -> Iterator[None]:
    behaviour.replace_target_side(faults.lab_with(kind), lambda lab: faults.around(lab, kind))
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    behaviour.replace_target_side(None, faults.NAMED[name])
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)


@pytest.mark.parametrize("name", NAMES)
def test_green_without(name: str) -> None:
    result = checked(name)
    assert result.verdict is Verdict.PASS, result.failures


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in NAMES for kind in behaviour.BEHAVIOURS[name].sees]
)
def test_red_with(name: str, kind: str) -> None:
    with planted(kind):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not see a device whose {kind} is wrong"


@pytest.mark.parametrize("name", [name for name in NAMES if "error" in behaviour.BEHAVIOURS[name].sees][::8])
def test_a_missing_kernel_is_not_the_error_that_is_due(name: str) -> None:
    with planted("refusal"):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} takes a missing kernel for the error that is due"
    assert all(failure.kind is Kind.REFUSED for failure in result.failures), result.failures


@pytest.mark.parametrize("name", sorted(faults.NAMED))
def test_red_with_its_own_fault(name: str) -> None:
    with named(name):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not see the fault planted for it"


def test_every_behaviour_has_a_fault() -> None:
    assert {name for name in NAMES if not behaviour.BEHAVIOURS[name].sees} <= set(faults.NAMED)
    assert set(faults.NAMED) <= set(NAMES)


@pytest.mark.parametrize(("value", "holds"), [(0.1 + 0.2, True), (0.3 + 1e-3, False), (float("nan"), False)])
def test_plain_numbers_are_held_against_what_is_known(value: float, holds: bool) -> None:
    lab = Lab(TARGET, "float32", 0, on_target=False)
    lab.expect("the number", value, 0.3, roundings=4.0)
    assert (not lab.deviations) == holds
