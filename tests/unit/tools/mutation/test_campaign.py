"""The fates of mutants, the journal, and the pool of processes that run them."""

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from tools.mutation import campaign, pool, score
from tools.mutation.campaign import Fate, Journal, MutantResult
from tools.mutation.coverage_run import Learned, ResultCoverage, reach
from tools.mutation.mutant import Fault
from tools.mutation.pool import Answer, Pool

JOB = {
    "do": "attempt",
    "fault": "aten::a last-element 0 0 @any",
    "results": ["value/a@float32"],
    "limit": 1.0,
}
WORDS = {"killer": None, "how": None, "kind": None, "met": 0, "effects": 0, "ran": 1, "due": 1}


def words(**changes: Any) -> Mapping[str, Any]:
    return {**WORDS, "seconds": 0.1, "unreliable": [], **changes}


@pytest.mark.parametrize(
    ("answer", "fate"),
    [
        (Answer(words(killer="value/a@float32", how="fail", kind="value")), Fate.KILLED),
        (Answer({}, "crash", "value/a@float32"), Fate.KILLED),
        (Answer({}, "timeout", "value/a@float32"), Fate.KILLED),
        (Answer(words(met=3, effects=2)), Fate.SURVIVED),
        (Answer(words(met=3)), Fate.ASLEEP),
        (Answer(words()), Fate.ASLEEP),
    ],
)
def test_the_fate_of_a_mutant(answer: Answer, fate: Fate) -> None:
    outcome = campaign.outcome(JOB, answer)
    assert outcome.fate == fate.value
    assert (outcome.killer is not None) == (fate is Fate.KILLED)


def test_a_journal_is_read_again_without_the_line_that_was_being_written(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    journal = Journal(path, "digest")
    journal.add(MutantResult("one", Fate.KILLED.value))
    journal.add(MutantResult("two", Fate.ASLEEP.value))
    path.write_text(path.read_text()[:-20])
    again = Journal(path, "digest")
    assert list(again.done) == ["one"]
    again.add(MutantResult("two", Fate.SURVIVED.value))
    assert Journal(path, "digest").done["two"].fate == "survived"


def test_a_journal_of_another_catalogue_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "outcomes.jsonl", "digest")
    with pytest.raises(UsageError, match="belongs to another"):
        Journal(tmp_path / "outcomes.jsonl", "other")


LEARNED = Learned(
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


def test_results_of_narrow_levels_and_quick_ones_come_first_and_failing_ones_never() -> None:
    mutant = Fault("aten::a", "last-element")
    assert reach(LEARNED, [mutant], 5).results[mutant] == ["value/a@int64", "y/a@any", "z/a@any"]
    assert reach(LEARNED, [mutant], 1).results[mutant] == ["value/a@int64", "y/a@any"]


def test_the_property_that_is_there_to_see_a_kind_comes_first() -> None:
    results = [
        "overload-forms/a.Tensor@any",
        "overload-repeats/a@any",
        "overload-repeats/b@any",
        "value/c@any",
    ]
    lessons = [ResultCoverage(result, "pass", 0.1, [1, 6], []) for result in results]
    levels = {"bringup": [], "core": results, "training": results, "full": results}
    mutant = Fault("aten::a_", "leak")
    learned = Learned("digest", ["aten::b leak 0 0 @any", str(mutant)], levels, lessons)
    wanted = [
        "overload-repeats/a@any",
        "overload-forms/a.Tensor@any",
        "overload-repeats/b@any",
        "value/c@any",
    ]
    assert reach(learned, [mutant], 9).results[mutant] == wanted


def test_a_mutant_that_is_confined_is_woken_by_its_dtype_only() -> None:
    mutant = Fault("aten::a", "leak", dtype="float32")
    assert reach(LEARNED, [mutant], 5).results[mutant] == ["y/a@any", "z/a@any"]


def test_what_calls_were_like_is_kept_by_place() -> None:
    assert reach(LEARNED, [], 0).calls == {
        ("aten::a", "called"): {"float32", "int64"},
        ("aten::a", "returns-floating"): {"float32"},
        ("aten::b", "called"): {"float32"},
    }


def test_the_places_of_a_level_are_those_of_its_overloads() -> None:
    faults = [f"aten::{name} leak 0 0 @any" for name in ("add.out", "add_.Tensor", "sub.out")]
    levels = {level: ["overload-forms/add.Tensor@any", "value/sub@any"] for level in LEARNED.levels}
    assert Learned("digest", faults, levels, []).taken_at("core") == {"aten::add.out", "aten::add_.Tensor"}


def test_a_learning_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    LEARNED.write(tmp_path / "learned.jsonl")
    assert Learned.read(tmp_path / "learned.jsonl") == LEARNED
    (tmp_path / "learned.jsonl").write_text("{")
    with pytest.raises(UsageError, match="not what a learning run wrote"):
        Learned.read(tmp_path / "learned.jsonl")


def test_the_score_counts_by_kind_and_by_the_level_that_killed() -> None:
    outcomes = [
        MutantResult("aten::a last-element 0 0 @any", Fate.KILLED.value, "value/a@int64", "fail"),
        MutantResult("aten::b last-element 0 0 @any", Fate.KILLED.value, "z/a@any", "crash"),
        MutantResult("aten::a leak 0 0 @any", Fate.SURVIVED.value),
        MutantResult("aten::sin bool-byte 0 0 @any", Fate.ASLEEP.value),
        MutantResult("aten::_assert_async bool-byte 0 0 @any", Fate.ASLEEP.value),
    ]
    calls = {("aten::sin", "called"): {"float32"}}
    tallies = score.count(outcomes, LEARNED, calls)
    assert (tallies["all"].counted, tallies["all"].killed) == (4, 2)
    assert (tallies["all"].excused, tallies["all"].asleep, tallies["all"].survived) == (1, 1, 1)
    inside = score.within(outcomes, LEARNED, calls, LEARNED.called_at("core"))
    assert (inside.counted, inside.killed, inside.killed_at("core")) == (2, 1, 1)  # core calls a alone
    killed = tallies["last-element"]
    assert (killed.killed_at("bringup"), killed.killed_at("core"), killed.killed_at("full")) == (0, 1, 2)


WORKER = """
import json, os, sys, time
say = lambda **words: print(json.dumps(words), flush=True)
say(ready=True)
for line in sys.stdin:
    job = json.loads(line)
    say(at=f"result of {job['name']}")
    if job["name"] == "crash":
        os._exit(3)
    if job["name"] == "hang":
        time.sleep(600)
    say(pid=os.getpid(), name=job["name"])
"""


class PoolOfScripts(Pool):
    """A pool whose workers need neither torch nor a device."""

    def __init__(self, folder: Path, workers: int, text: str = WORKER) -> None:
        super().__init__("none", "eager", workers, folder, {})
        script = folder / "worker.py"
        script.write_text(textwrap.dedent(text))
        self._command = [sys.executable, str(script)]


def test_a_process_that_dies_or_hangs_is_replaced_and_its_job_answered(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {}
    jobs = [{"name": name} for name in ("one", "crash", "two", "hang", "three")]
    PoolOfScripts(tmp_path, 2).run(
        jobs,
        lambda job: 2.0 if job["name"] == "hang" else 600.0,
        lambda job, answer: answers.update({job["name"]: answer}),
    )
    assert {name: answer.ended for name, answer in answers.items()} == {
        "one": None,
        "crash": "crash",
        "two": None,
        "hang": "timeout",
        "three": None,
    }
    assert answers["crash"].at == "result of crash"
    assert answers["hang"].at == "result of hang"


def test_a_worker_that_does_not_start_ends_the_pool_with_its_words(tmp_path: Path) -> None:
    text = "import sys; print('no device', file=sys.stderr); sys.exit(1)"
    with pytest.raises(RuntimeError, match="did not start"):
        PoolOfScripts(tmp_path, 1, text).run([{"name": "one"}], lambda job: 2.0, lambda job, answer: None)
    assert "no device" in (tmp_path / "workers.log").read_text()


def test_an_error_while_an_answer_is_taken_reaches_the_caller(tmp_path: Path) -> None:
    def taken(job: pool.Job, answer: Answer) -> None:
        raise ValueError("unfit")

    with pytest.raises(ValueError, match="unfit"):
        PoolOfScripts(tmp_path, 2).run([{"name": "one"}, {"name": "two"}], lambda job: 2.0, taken)
