"""``tools.mutation.campaign`` runs results on mutants, determines the fate of each mutant, and keeps a
journal.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from conformance.process_control.child import Child, ChildEnd, EndKind
from conformance.process_control.supervisor import Supervisor
from tests.support import python_path
from tools.mutation import campaign, score
from tools.mutation.campaign import Fate, Job, Journal, MutantResult
from tools.mutation.coverage_run import CoverageData, ResultCoverage, select_results
from tools.mutation.mutant import Mutant

JOB = {
    "do": "attempt",
    "fault": "aten::a last-element 0 0 @any",
    "results": ["value/a@float32"],
    "limit": 1.0,
}
WORDS = {
    "killer": None,
    "how": None,
    "kind": None,
    "parity": False,
    "met": 0,
    "effects": 0,
    "ran": 1,
    "selected": 1,
}


def worker_reply(**changes: Any) -> Mapping[str, Any]:
    return {**WORDS, "seconds": 0.1, "unreliable": [], **changes}


@pytest.mark.parametrize(
    ("reply", "fate"),
    [
        (worker_reply(killer="value/a@float32", how="fail", kind="value"), Fate.KILLED),
        (ChildEnd(EndKind.CRASHED, -11, step="value/a@float32"), Fate.KILLED),
        (ChildEnd(EndKind.STALLED, -15, step="value/a@float32"), Fate.KILLED),
        (worker_reply(met=3, effects=2), Fate.SURVIVED),
        (worker_reply(met=3), Fate.NOT_COVERED),
        (worker_reply(), Fate.NOT_COVERED),
    ],
)
def test_the_fate_of_a_mutant(reply: Mapping[str, Any] | ChildEnd, fate: Fate) -> None:
    outcome = campaign.mutant_result(JOB, reply)
    assert outcome.fate == fate.value
    assert (outcome.killer is not None) == (fate is Fate.KILLED)


def test_a_journal_is_read_without_its_incomplete_last_line(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    journal = Journal(path, "digest")
    journal.add(MutantResult("one", Fate.KILLED.value))
    journal.add(MutantResult("two", Fate.NOT_COVERED.value))
    path.write_text(path.read_text()[:-20])
    reopened = Journal(path, "digest")
    assert list(reopened.done) == ["one"]
    reopened.add(MutantResult("two", Fate.SURVIVED.value))
    assert Journal(path, "digest").done["two"].fate == "survived"


def test_a_journal_of_another_catalogue_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "outcomes.jsonl", "digest")
    with pytest.raises(UsageError, match="was written by a different"):
        Journal(tmp_path / "outcomes.jsonl", "other")


LEARNED = CoverageData(
    "digest",
    ["aten::a last-element 0 0 @any", "aten::a leak 0 0 @any", "aten::b leak 0 0 @any"],
    {
        "bringup": [],
        "core": ["value/a@int64"],
        "training": ["value/a@int64"],
        "full": ["value/a@int64", "x/a@any", "y/a@any", "z/a@any"],
    },
    [
        ResultCoverage("z/a@any", "pass", 0.5, [0, 6, 1, 6], [0, 0, 6]),
        ResultCoverage("y/a@any", "pass", 0.1, [0, 6, 1, 6], [0, 1, 6]),
        ResultCoverage("x/a@any", "fail", 0.1, [0, 6], [1, 0, 6]),
        ResultCoverage("value/a@int64", "pass", 0.9, [0, 4, 1, 4, 2, 4], [0, 0, 4]),
    ],
)


def test_quick_results_of_narrow_levels_come_first_and_failing_results_are_omitted() -> None:
    mutant = Mutant("aten::a", "last-element")
    assert select_results(LEARNED, [mutant], 5).results[mutant] == ["value/a@int64", "y/a@any", "z/a@any"]
    assert select_results(LEARNED, [mutant], 1).results[mutant] == ["value/a@int64", "y/a@any"]


def test_the_designated_property_comes_first() -> None:
    results = [
        "overload-forms/a.Tensor@any",
        "overload-repeats/a@any",
        "overload-repeats/b@any",
        "value/c@any",
    ]
    lessons = [ResultCoverage(result, "pass", 0.1, [1, 6], []) for result in results]
    levels = {"bringup": [], "core": results, "training": results, "full": results}
    mutant = Mutant("aten::a_", "leak")
    learned = CoverageData("digest", ["aten::b leak 0 0 @any", str(mutant)], levels, lessons)
    wanted = [
        "overload-repeats/a@any",
        "overload-forms/a.Tensor@any",
        "overload-repeats/b@any",
        "value/c@any",
    ]
    assert select_results(learned, [mutant], 9).results[mutant] == wanted


def test_a_confined_mutant_is_triggered_by_its_dtype_only() -> None:
    mutant = Mutant("aten::a", "leak", dtype="float32")
    assert select_results(LEARNED, [mutant], 5).results[mutant] == ["y/a@any", "z/a@any"]


def test_call_conditions_are_stored_by_mutation_point() -> None:
    assert select_results(LEARNED, [], 0).calls == {
        ("aten::a", "called"): {"float32", "int64"},
        ("aten::a", "returns-floating"): {"float32"},
        ("aten::b", "called"): {"float32"},
    }


def test_the_mutation_points_of_a_level_are_its_overloads() -> None:
    faults = [f"aten::{name} leak 0 0 @any" for name in ("add.out", "add_.Tensor", "sub.out")]
    levels = {level: ["overload-forms/add.Tensor@any", "value/sub@any"] for level in LEARNED.levels}
    assert CoverageData("digest", faults, levels, []).points_of_checked_overloads("core") == {
        "aten::add.out",
        "aten::add_.Tensor",
    }


def test_a_coverage_file_is_written_and_read_back(tmp_path: Path) -> None:
    LEARNED.write(tmp_path / "learned.jsonl")
    assert CoverageData.read(tmp_path / "learned.jsonl") == LEARNED
    (tmp_path / "learned.jsonl").write_text("{")
    with pytest.raises(UsageError, match="not the output of a coverage run"):
        CoverageData.read(tmp_path / "learned.jsonl")


def test_the_score_by_mutation_operator_and_by_killing_level() -> None:
    outcomes = [
        MutantResult("aten::a last-element 0 0 @any", Fate.KILLED.value, "value/a@int64", "fail"),
        MutantResult("aten::b last-element 0 0 @any", Fate.KILLED.value, "z/a@any", "crash"),
        MutantResult("aten::a leak 0 0 @any", Fate.SURVIVED.value),
        MutantResult("aten::empty flaky 0 7 @any", Fate.SURVIVED.value),
        MutantResult("aten::sin bool-byte 0 0 @any", Fate.NOT_COVERED.value),
    ]
    everything = score.count_outcomes(outcomes, LEARNED)["all"]
    assert (everything.altered, everything.killed, everything.survived) == (4, 2, 2)
    assert (everything.equivalent, everything.not_covered) == (1, 1)
    inside = score.tally_at_points(outcomes, LEARNED, LEARNED.points_called_at("core"))
    # The results of level core call the point aten::a only.
    assert (inside.altered, inside.killed, inside.killed_at("core")) == (2, 1, 1)
    killed = score.count_outcomes(outcomes, LEARNED)["last-element"]
    assert (killed.killed_at("bringup"), killed.killed_at("core"), killed.killed_at("full")) == (0, 1, 2)


WORKER = """
import os, time
from conformance.process_control.parent_link import ParentLink
link = ParentLink.connect()
for job in link.requests():
    link.announce_step(f"result of {job['name']}")
    if job["name"] == "crash":
        os._exit(3)
    if job["name"] == "hang":
        time.sleep(600)
    link.reply({"pid": os.getpid(), "name": job["name"]})
"""


def supervisor_of(folder: Path, workers: int, text: str = WORKER) -> Supervisor[Job]:
    """Return a supervisor whose workers run the script ``text``, which needs neither torch nor a device."""
    variables = {**os.environ, "PYTHONPATH": python_path()}

    def spawn() -> Child:
        return Child.exec([sys.executable, "-c", text], variables, log=folder / "workers.log", channel=True)

    return Supervisor(spawn, start=600.0, workers=workers)


def test_a_worker_that_crashes_or_hangs_kills_its_mutant(tmp_path: Path) -> None:
    jobs = [{"name": name, "fault": name, "results": ["a"]} for name in ("one", "crash", "two", "hang")]
    with supervisor_of(tmp_path, 2) as workers:
        replies = {job["name"]: reply for job, reply in workers.run_units(jobs, silence=2.0)}
    assert replies["one"]["name"] == "one" and replies["two"]["name"] == "two"
    for name, how in (("crash", "crash"), ("hang", "timeout")):
        mutant_result = campaign.mutant_result({"fault": name, "results": ["a"]}, replies[name])
        assert (mutant_result.fate, mutant_result.killer, mutant_result.how) == (
            "killed",
            f"result of {name}",
            how,
        )


def test_a_campaign_runs_only_mutants_that_its_journal_lacks(tmp_path: Path) -> None:
    text = f"""
from conformance.process_control.parent_link import ParentLink
link = ParentLink.connect()
for job in link.requests():
    print(job["fault"], flush=True)
    link.reply({{**{worker_reply(met=3)!r}, "killer": job["results"][0] if "leak" in job["fault"] else None}})
"""
    mutants = [Mutant("aten::a", kind) for kind in ("leak", "last-element", "stale")]
    results = {mutants[0]: ["x/a@any"], mutants[1]: ["y/a@any"], mutants[2]: []}
    fates = [Fate.KILLED.value, Fate.NOT_COVERED.value, Fate.NOT_COVERED.value]
    for _ in range(2):
        journal = Journal(tmp_path / "outcomes.jsonl", "digest")
        with supervisor_of(tmp_path, 2, text) as workers:
            mutant_results = campaign.run_mutants(workers, mutants, results, journal)
        assert [mutant_result.fate for mutant_result in mutant_results] == fates
    assert sorted((tmp_path / "workers.log").read_text().splitlines()) == sorted(map(str, mutants[:2]))
