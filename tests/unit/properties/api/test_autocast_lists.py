"""The properties that check a target's autocast lists pass if the target declares no list."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.framework.recorder import CHECKED_NOTHING
from conformance.model.verdicts import Result, Verdict
from conformance.plan.plan import Case
from conformance.target import file as target_file
from conformance.target.target import Target
from conformance.worker.executor import Executor

PROPERTIES = ("operators-declared-to-be-lowered", "operators-declared-to-keep-float32",
              "operators-declared-to-promote")  # fmt: skip


def _autocast_result(name: str, target: Target) -> Result:
    return Executor(target).run(Case("api", name, "autocast", ("float32",)))[0]


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_target_without_lists_passes(name: str) -> None:
    target = dataclasses.replace(target_file.load("cpu").target("eager"), autocast={})
    result = _autocast_result(name, target)
    assert result.verdict is Verdict.PASS
    assert result.comparisons == 0
    assert result.notes[0].startswith(CHECKED_NOTHING)


def test_one_of_two_lists_is_compared() -> None:
    target = dataclasses.replace(target_file.load("cpu").target("eager"), autocast={"lower": ["mm"]})
    result = _autocast_result(PROPERTIES[0], target)
    assert result.verdict is Verdict.PASS
    assert result.comparisons > 0
    assert not result.notes
