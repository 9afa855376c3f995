"""``upstream.exported_deviations`` selects the deviations of a run that can be exported, and lists every
other result with a reason.
"""

from __future__ import annotations

import pytest

from conformance.errors import UsageError
from conformance.upstream import exported_deviations
from conformance.upstream.exported_deviations import DeviatingResult, NotExported
from conformance.upstream.matching_tests import Databases
from tests.support.sample_deviating_leg import leg, row

KNOWN = Databases({"add": "BinaryUfuncInfo"}, {"nn.Linear": False}, frozenset({"Adam"}))


@pytest.mark.parametrize("verdict", ["fail", "xfail"])
def test_a_failure_is_expected_and_not_skipped(verdict):
    deviation = exported_deviations.deviation_of(row("out/add@float32", verdict, "metadata", "value"))
    assert isinstance(deviation, DeviatingResult) and not deviation.ends_process
    assert deviation.reason == "metadata, value: off by 1"


@pytest.mark.parametrize(
    ("verdict", "kinds"),
    [("crash", []), ("timeout", []), ("xfail", ["crash"]), ("xfail", ["value", "timeout"])],
)
def test_only_crashes_and_timeouts_are_skipped(verdict, kinds):
    deviation = exported_deviations.deviation_of(row("out/add@float32", verdict, *kinds))
    assert isinstance(deviation, DeviatingResult) and deviation.ends_process


def test_an_attempt_that_crashed_counts():
    attempts = [{"verdict": "crash", "attempt": 1, "seconds": 1.0, "kinds": ["crash"]}]
    deviation = exported_deviations.deviation_of(row("out/add@float32", "xfail", "value", attempts=attempts))
    assert (
        isinstance(deviation, DeviatingResult)
        and deviation.kinds == ("value", "crash")
        and deviation.ends_process
    )


def test_a_refusal_is_a_deviation():
    deviation = exported_deviations.deviation_of(
        row("value/add@int8", "unsupported", notes=["no such kernel"])
    )
    assert isinstance(deviation, DeviatingResult)
    assert (deviation.kinds, deviation.message) == (("refused",), "no such kernel")


@pytest.mark.parametrize("verdict", ["pass", "skip"])
def test_passing_and_skipped_results_are_not_deviations(verdict):
    assert exported_deviations.deviation_of(row("out/add@float32", verdict)) is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (row("out/add@float32", "error", "harness"), "could not check"),
        (row("out/add@float32", "vacuous", "vacuous"), "nothing was compared"),
        (row("out/add@float32", "flaky"), "passed and failed"),
        (row("out/add@float32", "xpass"), "it passes"),
        (row("out/add@float32", "fail", "value", intermittent=True), "different outcome"),
        (row("x\ny", "fail", "value"), "id is not a result id"),
        (row("out/add@float32;import os", "fail", "value"), "dtype is not a dtype"),
    ],
)
def test_inconclusive_results_are_listed_with_a_reason(found, reason):
    not_exported = exported_deviations.deviation_of(found)
    assert (
        isinstance(not_exported, NotExported)
        and reason in not_exported.reason
        and "\n" not in not_exported.id
    )


def test_every_result_is_exported_or_listed():
    rows = [
        row("out/add@float32", "fail", "value"),
        row("forward/nn.Linear@float32", "xfail", "value"),
        row("param-groups/Adam@float32", "xfail", "value"),
        row("out_device/add@float32", "fail", "state"),
        row("write-through-select/views@any", "fail", "value"),
        row("value/no_such@float32", "fail", "value"),
        row("value/add@float32", "flaky"),
        row("value/add@float64", "pass"),
    ]
    exported = exported_deviations.export_leg(leg(*rows), KNOWN)
    assert {str(each.id) for each in exported.deviations} == {rows[index]["id"] for index in range(3)}
    reasons = {each.id: each.reason for each in exported.not_exported}
    assert set(reasons) == {rows[index]["id"] for index in (3, 4, 5, 6)}
    assert "no upstream test method" in reasons["out_device/add@float32"]
    assert "not an entry" in reasons["value/no_such@float32"]


def test_the_leg_of_a_mode_is_selected():
    legs = [leg(), leg(mode="lazy")]
    assert exported_deviations.leg_to_export(legs, "lazy")["mode"] == "lazy"
    with pytest.raises(UsageError, match="no leg of mode 'compile'; it has eager, lazy"):
        exported_deviations.leg_to_export(legs, "compile")
    with pytest.raises(UsageError, match="2 legs of mode 'eager'"):
        exported_deviations.leg_to_export([leg(), leg()], "eager")
    with pytest.raises(UsageError, match="not a valid device name"):
        exported_deviations.leg_to_export([leg(device='x"; import os')], "eager")


def test_third_party_text_becomes_one_line_without_paths():
    cleaned = exported_deviations.one_line("a\n\x1b[31m /home/jane/x.py " + "y" * 400)
    assert len(cleaned) == 200 and cleaned.isprintable() and "jane" not in cleaned
