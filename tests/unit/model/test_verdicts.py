"""``model.verdicts``: result ids are parsed and printed, seeds are fixed, and verdicts have an order."""

from __future__ import annotations

import itertools

import pytest

from conformance.model.verdicts import CaseId, Failure, Kind, Result, ResultId, Verdict, seed_of


def test_ids_parse_and_print() -> None:
    result_id = ResultId.parse("value/nn.functional.conv2d@float32")
    assert (str(result_id), str(result_id.case)) == (
        "value/nn.functional.conv2d@float32",
        "value/nn.functional.conv2d",
    )
    for wrong in ("value", "value/add", "value/add@", "/add@x", "value@x"):
        with pytest.raises(ValueError, match="is not of the form"):
            ResultId.parse(wrong)
    assert CaseId.parse("a/b/c") == CaseId("a", "b/c")


def test_seeds_never_change() -> None:
    assert seed_of("add", "float32") == 1781496931
    assert seed_of("add", "float32") != seed_of("add", "float64")


def test_the_verdict_of_a_case_is_its_worst_verdict() -> None:
    order = [
        "crash", "timeout", "error", "fail", "vacuous", "xpass",
        "flaky", "xfail", "parity", "unsupported", "skip", "pass",
    ]  # fmt: skip
    assert [verdict.value for verdict in Verdict] == order
    for worse, better in itertools.pairwise(order):
        assert Verdict.worst([Verdict(better), Verdict(worse)]) is Verdict(worse)
    assert Verdict.worst([]) is Verdict.VACUOUS


def test_unexpected_verdicts_are_those_of_exit_code_1() -> None:
    assert {verdict.value for verdict in Verdict if verdict.unexpected} == {
        "fail", "error", "crash", "timeout", "xpass", "vacuous", "flaky"
    }  # fmt: skip


def test_results_are_converted_to_json_and_back() -> None:
    failures = [Failure(Kind.VALUE, "m", 2)]
    name = ResultId.parse("value/nn.functional.relu@bool")
    result = Result(name, Verdict.FAIL, 4, 1, failures, ["note"], 3, 9, None, 0.25, 7, 2)
    assert Result.from_json(result.to_json()) == result
