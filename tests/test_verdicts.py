"""The algebra of verdicts: attempts, expectations, cases, totals and exit codes."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pytest

from conformance.checking.recorder import MAX_FAILURES_KEPT, Recorder
from conformance.expectations.aliases import Aliases
from conformance.expectations.entries import Book, Expectation
from conformance.expectations.index import Index
from conformance.model.verdicts import Failure, Kind, Result, ResultId, Verdict
from conformance.plan.plan import Case, Plan
from conformance.results import document, exit_codes
from conformance.results.ledger import Ledger, settle
from conformance.results.outcome import decide, waive

DAY = datetime.date(2030, 1, 1)


def row(result_id: str, verdict: str, *kinds: str, attempt: int = 1) -> dict[str, Any]:
    failures = [{"kind": kind, "message": "m"} for kind in kinds]
    return {"id": result_id, "verdict": verdict, "seconds": 0.5, "failures": failures, "attempt": attempt}


def expected(pattern: str, kind: str, until: str = "2999-01-01", modes: tuple[str, ...] = ()) -> Expectation:
    return Expectation(
        pattern, Kind(kind), "accuracy", "https://example.org", until, "file.toml", modes=modes
    )


def test_a_case_shows_its_worst_verdict() -> None:
    order = [
        "crash", "timeout", "error", "fail", "vacuous", "xpass",
        "flaky", "xfail", "unsupported", "skip", "pass",
    ]  # fmt: skip
    assert [verdict.value for verdict in Verdict] == order
    for worse, better in itertools.pairwise(order):
        assert Verdict.worst([Verdict(better), Verdict(worse)]) is Verdict(worse)
    assert Verdict.worst([]) is Verdict.VACUOUS


def test_unexpected_verdicts_are_those_of_exit_code_1() -> None:
    assert {verdict.value for verdict in Verdict if verdict.unexpected} == {
        "fail", "error", "crash", "timeout", "xpass", "vacuous", "flaky"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        (["pass"], "pass"),
        (["fail"], "fail"),
        (["crash", "pass"], "flaky"),
        (["timeout", "unsupported"], "flaky"),
        (["timeout", "crash"], "crash"),
        (["crash", "timeout"], "crash"),
        (["pass", "crash"], "crash"),
        (["pass", "crash", "pass"], "flaky"),
        (["vacuous", "fail"], "fail"),
    ],
)
def test_attempts_settle(attempts: list[str], verdict: str) -> None:
    found, shown = settle([row("p/s@d", attempt) for attempt in attempts])
    assert found == verdict
    assert (shown["verdict"] == verdict) or verdict == "flaky"


def test_a_blamed_attempt_gives_way_to_one_in_a_fresh_process_but_is_not_forgotten() -> None:
    attempts = [row("p/s@d", "fail", "value", "state"), row("p/s@d", "vacuous", "vacuous", attempt=2)]
    verdict, shown = settle(attempts)
    assert verdict == "vacuous"
    assert [failure["kind"] for failure in shown["failures"]] == ["vacuous", "state"]
    attempts[1] = row("p/s@d", "fail", "value", attempt=2)
    rows = decide({"p/s@d": attempts}, [expected("p/s@d", "value")]).rows
    assert rows["p/s@d"]["verdict"] == "fail", "the broken device must not be excused as a wrong value"


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
    entries = [expected("p/s@d", kind) for kind in excused]
    assert decide({"p/s@d": [row("p/s@d", verdict, *kinds)]}, entries).rows["p/s@d"]["verdict"] == final


def test_an_expectation_is_obsolete_only_when_all_its_results_pass() -> None:
    attempts = {"p/a@d": [row("p/a@d", "pass")], "p/b@d": [row("p/b@d", "fail", "value")]}
    some = decide(attempts, [expected("p/*@d", "value")])
    assert [some.rows[key]["verdict"] for key in attempts] == ["pass", "xfail"]
    attempts["p/b@d"] = [row("p/b@d", "pass")]
    none = decide(attempts, [expected("p/*@d", "value")])
    assert [none.rows[key]["verdict"] for key in attempts] == ["xpass", "xpass"]
    assert len(none.obsolete) == 1


def test_expectations_expire_by_day_and_by_torch() -> None:
    book = Book((expected("a/a@a", "value", "2030-01-01"), expected("b/b@b", "value", "2030-01-02"),
                 expected("c/c@c", "value", "torch 2.13"),
                 expected("d/d@d", "value", "torch 2.14")), "")  # fmt: skip
    assert [entry.id for entry in book.active("eager", DAY, "2.13.1+cpu")] == ["b/b@b", "d/d@d"]
    assert [entry.id for entry in book.expired(DAY, "2.13.1+cpu")] == ["a/a@a", "c/c@c"]
    assert [entry.id for entry in book.active("eager", DAY, "2.9.0")] == ["b/b@b", "c/c@c", "d/d@d"]


def test_expectations_keep_to_their_modes() -> None:
    book = Book((expected("a/a@a", "value", modes=("lazy",)),), "")
    assert not book.active("eager", DAY, "2.13")
    assert book.active("lazy", DAY, "2.13")


def test_expectations_that_match_nothing_are_found() -> None:
    ids = ["value/add@float32", "value/fft.fft@float32"]
    entries = [
        expected(pattern, "value")
        for pattern in ("value/fft.*@*", "*/add@float3?", "value/[a]dd@*", "out/add@*")
    ]
    index = Index(ids)
    assert [entry.id for entry in entries if not index.matching(entry.id)] == ["value/[a]dd@*", "out/add@*"]


def test_aliases_follow_renamed_properties_and_subjects() -> None:
    aliases = Aliases({"old": "new"}, {"was": "is"})
    assert aliases.resolve("old/was@float32") == "new/is@float32"
    assert aliases.resolve("value/add@*") == "value/add@*"


def test_a_recorder_that_compared_nothing_is_vacuous() -> None:
    result_id = ResultId.parse("value/add@float32")
    empty = Recorder(result_id, seed=0)
    empty.compared(0)
    assert empty.result().verdict is Verdict.VACUOUS
    about_emptiness = Recorder(result_id, seed=0, about_emptiness=True)
    about_emptiness.compared(0)
    assert about_emptiness.result().verdict is Verdict.PASS


def test_a_recorder_keeps_one_failure_of_every_kind() -> None:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    for _ in range(3 * MAX_FAILURES_KEPT):
        recorder.fail(Kind.VALUE, "differs")
    recorder.fail(Kind.METADATA, "strides")
    result = recorder.result()
    assert result.failure_count == 3 * MAX_FAILURES_KEPT + 1
    assert [failure.kind for failure in result.failures] == [Kind.VALUE] * MAX_FAILURES_KEPT + [Kind.METADATA]


def test_results_survive_the_way_through_json() -> None:
    failures = [Failure(Kind.VALUE, "m", 2)]
    name = ResultId.parse("value/nn.functional.relu@bool")
    result = Result(name, Verdict.FAIL, 4, 1, failures, ["note"], 3, 9, None, 0.25, 7, 2)
    assert Result.from_json(result.to_json()) == result


HEADER = {
    "name": "t-eager",
    "mode": "eager",
    "target": {"name": "cpu", "file": "cpu.toml", "device": "cpu", "precision": "ieee"},
    "level": "full",
    "shard": "1/1",
    "selection": None,
    "samples": "default",
    "started": "2030-01-01T00:00:00+00:00",
    "workers": 1,
    "facts": {"torch": {"version": "2.13.0"}},
    "digests": dict.fromkeys(("suite", "manifest", "target", "expectations", "torch", "backend")),
    "left_out": 0,
}


def leg(
    *verdicts: str, planned: int | None = None, ended: bool = True, events: tuple[dict[str, Any], ...] = ()
) -> Any:
    ledger = Ledger()
    count = len(verdicts) if planned is None else planned
    plan = Plan([Case("sham", "p", f"s{index}", ("d",)) for index in range(count)])
    ledger.apply({"event": "run", **HEADER})
    ledger.apply({"event": "plan", **plan.to_json()})
    for index, verdict in enumerate(verdicts):
        ledger.apply({"event": "result", "worker": "w", "result": row(f"p/s{index}@d", verdict)})
    for event in events:
        ledger.apply(event)
    if ended:
        ledger.apply({"event": "end", "seconds": 1.0})
    return document.leg(ledger, Book((), ""), today=DAY)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["pass", "unsupported"], 0),
        *[(["pass", verdict], 1) for verdict in ("fail", "error", "crash", "timeout", "vacuous")],
    ],
)
def test_exit_codes_of_complete_runs(verdicts: list[str], code: int) -> None:
    assert leg(*verdicts)["exit"] == code


def test_incomplete_beats_unexpected() -> None:
    found = leg("pass", "fail", planned=3)
    assert (found["exit"], found["complete"]) == (3, False)
    assert found["missing"] == {"count": 1, "first": ["p/s2@d"]}


@pytest.mark.parametrize(
    "broken",
    [
        {"ended": False},
        {"planned": 0},
        {"events": ({"event": "interrupted"},)},
        {"events": ({"event": "oracle-check", "checked": 1, "differences": ["differs"]},)},
    ],
)
def test_what_makes_a_run_incomplete(broken: dict[str, Any]) -> None:
    verdicts = [] if broken.get("planned") == 0 else ["pass"]
    assert leg(*verdicts, **broken)["exit"] == 3


def test_exit_codes_of_several_legs() -> None:
    assert [exit_codes.worst(codes) for codes in ([0, 1], [1, 3, 0], [3, 2, 1], [0])] == [1, 3, 2, 0]
    assert document.document([])["complete"] is False


def test_a_process_that_died_in_the_probe_left_the_device_unusable() -> None:
    events = (
        {"event": "probe", "worker": "w", "id": "p/s0@d", "state": "start"},
        {"event": "lost", "worker": "w"},
    )
    found = leg("unsupported", events=events)
    assert found["results"][0]["verdict"] == "fail"
    assert found["results"][0]["failures"][-1]["kind"] == "state"


def test_a_malformed_event_is_a_problem_and_not_the_end() -> None:
    found = leg("pass", events=({"event": "result", "worker": "w"}, {"event": "unheard-of"}))
    assert found["problems"] == ["event 'result' of the journal is malformed: KeyError('result')"]
    assert found["exit"] == 0


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
def test_what_is_waived_for_everyone_is_expected_of_everyone(
    verdict: str, kinds: list[str], final: str
) -> None:
    rows = {"p/s@d": row("p/s@d", verdict, *kinds)}
    waive(rows, {"p/s@d": {"value": "a-link"}, "p/other@d": {"value": "a-link"}})
    assert rows["p/s@d"]["verdict"] == final
    assert ("a-link" in str(rows["p/s@d"].get("notes"))) == (final == "xfail")
