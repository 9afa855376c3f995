"""``results.final_verdicts`` computes final verdicts: expectations and waivers excuse failures."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from conformance.results.final_verdicts import apply_waivers, final_rows, give_parity_verdicts
from tests.support.sample_legs import expectation, row


@pytest.mark.parametrize(
    ("verdict", "kinds", "excused", "final"),
    [
        ("fail", ["value"], ["value"], "xfail"),
        ("fail", ["value"], ["metadata"], "fail"),
        ("fail", ["value", "metadata"], ["value"], "fail"),
        ("fail", ["value", "metadata"], ["value", "metadata"], "xfail"),
        ("crash", ["crash"], ["crash"], "xfail"),
        ("crash", ["crash"], ["value"], "crash"),
        ("timeout", ["timeout"], ["timeout"], "xfail"),
        ("fail", [], ["value"], "fail"),
        ("unsupported", [], ["refused"], "unsupported"),
        ("pass", [], ["value"], "xpass"),
    ],
)
def test_expectations_excuse_the_kinds_that_they_name(
    verdict: str, kinds: list[str], excused: list[str], final: str
) -> None:
    entries = [expectation("p/s@d", kind) for kind in excused]
    assert final_rows({"p/s@d": [row("p/s@d", verdict, *kinds)]}, entries).rows["p/s@d"]["verdict"] == final


def test_an_expectation_is_obsolete_only_when_all_its_results_pass() -> None:
    attempts = {"p/a@d": [row("p/a@d", "pass")], "p/b@d": [row("p/b@d", "fail", "value")]}
    some = final_rows(attempts, [expectation("p/*@d", "value")])
    assert [some.rows[key]["verdict"] for key in attempts] == ["pass", "xfail"]
    attempts["p/b@d"] = [row("p/b@d", "pass")]
    none = final_rows(attempts, [expectation("p/*@d", "value")])
    assert [none.rows[key]["verdict"] for key in attempts] == ["xpass", "xpass"]
    assert len(none.obsolete) == 1


@pytest.mark.parametrize(
    ("verdict", "kinds", "final"),
    [
        ("fail", ["value"], "xfail"),
        ("fail", ["value", "dtype"], "fail"),
        ("fail", ["dtype"], "fail"),
        ("crash", ["crash"], "crash"),
        ("pass", [], "pass"),
        ("error", ["harness"], "error"),
    ],
)
def test_a_waiver_excuses_its_failure_kinds(verdict: str, kinds: list[str], final: str) -> None:
    rows = {"p/s@d": row("p/s@d", verdict, *kinds)}
    apply_waivers(rows, {"p/s@d": {"value": "a-link"}, "p/other@d": {"value": "a-link"}})
    assert rows["p/s@d"]["verdict"] == final
    assert ("a-link" in str(rows["p/s@d"].get("notes"))) == (final == "xfail")


def test_expectations_must_cover_the_failures_of_every_attempt() -> None:
    crash, wrong = row("p/s@d", "crash", "crash"), row("p/s@d", "fail", "value", attempt=2)
    rows = final_rows({"p/s@d": [crash, wrong]}, [expectation("p/s@d", "crash")]).rows
    assert rows["p/s@d"]["verdict"] == "crash", (
        "the expectation of a crash excused the wrong value of the second attempt"
    )
    both = [expectation("p/s@d", "crash"), expectation("p/s@d", "value")]
    assert final_rows({"p/s@d": [crash, wrong]}, both).rows["p/s@d"]["verdict"] == "xfail"


@pytest.mark.parametrize(("verdict", "final"), [("pass", "pass"), ("fail", "xfail")])
def test_an_expectation_for_some_processors_may_pass_on_others(verdict: str, final: str) -> None:
    entry = dataclasses.replace(expectation("p/s@d", "value"), processor="with AVX-512")
    kinds = ["value"] if verdict == "fail" else []
    outcome = final_rows({"p/s@d": [row("p/s@d", verdict, *kinds)]}, [entry])
    assert (outcome.rows["p/s@d"]["verdict"], outcome.obsolete) == (final, [])


def _failing_row(*bases: str) -> dict[str, Any]:
    failures = [{"kind": "value", "message": "off", "basis": basis} for basis in bases]
    return {**row("p/s@d", "fail"), "failures": failures}


@pytest.mark.parametrize(
    ("bases", "verdict"),
    [
        (["parity"], "parity"),
        (["parity", "parity"], "parity"),
        (["parity", "documented"], "fail"),
        (["consistency"], "fail"),
        ([], "fail"),
    ],
)
def test_a_result_has_the_verdict_parity_if_all_its_deviations_have_that_basis(
    bases: list[str], verdict: str
) -> None:
    rows = final_rows({"p/s@d": [_failing_row(*bases)]}, []).rows
    give_parity_verdicts(rows)
    assert rows["p/s@d"]["verdict"] == verdict


def test_the_deviations_of_every_attempt_must_have_basis_parity() -> None:
    first, second = _failing_row("documented"), {**_failing_row("parity"), "attempt": 2}
    rows = final_rows({"p/s@d": [first, second]}, []).rows
    give_parity_verdicts(rows)
    assert rows["p/s@d"]["verdict"] == "fail"


@pytest.mark.parametrize("verdict", ["crash", "timeout", "error"])
def test_only_a_failure_becomes_parity(verdict: str) -> None:
    rows = final_rows({"p/s@d": [{**_failing_row("parity"), "verdict": verdict}]}, []).rows
    give_parity_verdicts(rows)
    assert rows["p/s@d"]["verdict"] == verdict


def test_an_expectation_of_a_parity_deviation_is_neither_stale_nor_obsolete() -> None:
    outcome = final_rows({"p/s@d": [_failing_row("parity")]}, [expectation("p/s@d", "value")])
    give_parity_verdicts(outcome.rows)
    assert (outcome.rows["p/s@d"]["verdict"], outcome.obsolete) == ("xfail", [])
