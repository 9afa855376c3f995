"""No behaviour fails on a device that is correct and rounds otherwise."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from different import RoundsOtherwise

from conformance.behaviours import behaviour
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, ResultId, Verdict
from conformance.properties.registry import find, properties
from conformance.subjects.databases import find as find_subject
from conformance.target import file as target_file

TARGET = target_file.load("cpu").target("eager")


@contextlib.contextmanager
def different() -> Iterator[None]:
    behaviour.replace_target_side(None, lambda lab: RoundsOtherwise())
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)


#: Torch refuses control flow operators under a dispatch mode, which this device is.
NAMES = [e.name for e in properties("api") if behaviour.BEHAVIOURS[e.name].area != "control-flow"]


@pytest.mark.parametrize("name", NAMES)
def test_another_rounding_is_no_failure(name: str) -> None:
    entry = find("api", name)
    area = behaviour.BEHAVIOURS[name].area
    subject = find_subject("api", area)
    for dtype in entry.applies(TARGET, subject):
        recorder = Recorder(ResultId(CaseId(name, area), dtype), seed=7)
        with warnings.catch_warnings(), different():
            warnings.simplefilter("ignore")
            entry.check(TARGET, subject, recorder)
        result = recorder.result()
        values = [failure.message for failure in result.failures if failure.kind is Kind.VALUE]
        assert result.verdict is Verdict.PASS or not values, values
