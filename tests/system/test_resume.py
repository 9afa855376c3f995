"""``conformance run --resume``: a killed run continues, failed results are retried, and all attempts are
kept.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.results.journal import Journal
from tests.support.cli_process import Run, environment_with_subjects, write_bare_target

Cli = Callable[..., Run]


CORE = ("-n", "1", "--level", "core")


def journal_events(folder: Path, event_name: str) -> list[dict[str, object]]:
    lines = (folder / "journal.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == event_name]


def killed_run(folder: Path, subjects: str, *more: str) -> Run:
    """Start a run whose subject ``kills`` sends SIGKILL to the runner. Return the killed run."""
    program = (
        "import os; os.environ['ARTIFICIAL_RUNNER'] = str(os.getpid());"
        "from conformance.cli import main; raise SystemExit(main())"
    )
    arguments = [
        sys.executable,
        "-c",
        program,
        "run",
        "--target",
        write_bare_target(folder),
        "--extra",
        "tests.support.misbehaving_subjects",
    ]
    arguments += ["-n", "1", "--level", "core", "-o", str(folder / "out"), *more]
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment_with_subjects(folder, subjects),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Run(done, folder / "out")


def test_a_resumed_run_continues_after_the_recorded_results(cli: Cli, tmp_path: Path) -> None:
    subjects = "good,kills,fail"
    assert killed_run(tmp_path, subjects).code == -9
    assert not (tmp_path / "out" / "results.json").exists()
    report = cli("report", "out", subjects=subjects)
    assert (report.code, "\nresume with: conformance run --resume out\n" in report.out) == (3, True), (
        report.out
    )
    before = {event["result"]["id"] for event in journal_events(tmp_path / "out", "result")}  # type: ignore[index]
    # The result in float32 kills the runner. The result in the other dtype, int64, runs before.
    assert before == {"acts/good0@float32", "acts/good0@int64", "acts/kills0@int64"}
    run = cli("run", "--resume", "out", subjects=subjects)
    assert (run.code, run.results["complete"]) == (1, True), run.err
    assert {name: row["verdict"] for name, row in run.rows.items()} == {
        f"acts/{name}0@{dtype}": verdict
        for name, verdict in (("good", "pass"), ("kills", "pass"), ("fail", "fail"))
        for dtype in ("float32", "int64")
    }
    counts = collections.Counter(
        event["result"]["id"]  # type: ignore[index]
        for event in journal_events(run.folder, "result")
    )
    assert set(counts.values()) == {1}, (
        "a recorded result ran again, or the kill was counted as an attempt of a result"
    )
    assert "resume with" not in run.out
    assert cli("report", "out").code == 1


@pytest.mark.nightly("starts several runs")
def test_resuming_a_complete_run_reports_nothing_to_do(cli: Cli, tmp_path: Path) -> None:
    run = cli("run", *CORE, subjects="good,fails_once")
    assert (run.code, run.results["complete"]) == (1, True)
    # ARTIFICIAL_SUBJECTS lists different subjects than in the recorded run. If the command started the
    # target, it would find these subjects and reject the run.
    second_resume = cli("run", "--resume", "out", subjects="good")
    assert (second_resume.code, second_resume.results) == (1, run.results), second_resume.err
    assert second_resume.out.startswith("nothing to do: the run in out is complete\n")
    assert "unexpected results: exit 1" in second_resume.out
    (tmp_path / "out" / "results.json").unlink()
    assert cli("run", "--resume", "out", subjects="good").code == 1
    assert (tmp_path / "out" / "results.json").exists(), (
        "--resume did not write the results of the killed run"
    )
    mended = cli("run", "--rerun-failed", "out", subjects="good,fails_once")
    assert (mended.code, "nothing to do" in mended.out) == (1, False), "the failed result was not retried"
    done = cli("run", "--rerun-failed", "out", subjects="good")
    assert (done.code, done.results["totals"]) == (1, {"flaky": 2, "pass": 2})
    assert done.out.startswith("nothing to do: the run in out has no failure to rerun\n")
    assert [event["failed"] for event in journal_events(tmp_path / "out", "resume")] == [True]
    Journal(tmp_path / "out" / "journal.jsonl").write("resume", failed=True)
    killed = cli("run", "--resume", "out", subjects="good,fails_once")
    assert (killed.code, "nothing to do" in killed.out) == (1, False), (
        "the interrupted result was not run again"
    )


@pytest.mark.nightly("a killed run of one mode is resumed in every run")
def test_a_killed_run_of_several_modes_can_be_resumed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager", "lazy"]\n'
        '[environment.eager]\nARTIFICIAL_SUBJECTS = "good,kills"\n'
    )
    assert killed_run(tmp_path, "good", "--target", "mine.toml").code == -9
    assert "\nresume with: conformance run --resume out\n" in cli("report", "out").out
    run = cli("run", "--target", "mine.toml", "--resume", "out")
    assert (run.code, run.results["totals"]) == (0, {"pass": 6})
    assert [(leg["mode"], leg["planned"]) for leg in run.results["legs"]] == [("eager", 4), ("lazy", 2)]
    rerun = cli("run", "--target", "mine.toml", "--rerun-failed", "out")
    assert (rerun.code, rerun.results["legs"]) == (0, run.results["legs"]), "a run without failures was rerun"
    assert rerun.out.startswith("nothing to do: ")


def test_resume_rejects_different_options_and_digests(cli: Cli, tmp_path: Path) -> None:
    first = cli("run", *CORE, subjects="good,fail")
    assert first.code == 1
    for options, message in (
        (("--level", "full"), "--level is full, but the run in out has core; omit it"),
        (("-k", "good"), "-k is good, but the run in out has none"),
        (("--mode", "lazy"), "--mode is lazy, but the run in out has eager"),
    ):
        refused = cli("run", "--rerun-failed", "out", *options, subjects="good,fail")
        assert (refused.code, message in refused.err) == (2, True), refused.err
    more = cli("run", "--rerun-failed", "out", subjects="good,fail,unsupported")
    assert more.code == 2
    assert "the run in " in more.err and "cannot be resumed: the digest of manifest was " in more.err
    path = tmp_path / "bare.toml"
    options = ["run", "--rerun-failed", "out", "--target", "other.toml"]
    (tmp_path / "other.toml").write_text(path.read_text())
    assert "--target is " in cli(*options, subjects="good,fail").err
    header = (tmp_path / "out" / "journal.jsonl").read_text()
    (tmp_path / "out" / "journal.jsonl").write_text(header.replace('"backend":null', '"backend":"abc"', 1))
    refused = cli("run", "--rerun-failed", "out", subjects="good,fail")
    assert "the digest of backend was abc and is None; undo this change, or start a new run" in refused.err
    assert first.results["totals"] == {"fail": 2, "pass": 2}, "a rejected command changed the results"


def test_resume_rejects_a_run_that_still_writes(cli: Cli, tmp_path: Path) -> None:
    cli("run", *CORE, subjects="good,fail")
    second_journal = Journal(tmp_path / "out" / "journal.jsonl")
    assert second_journal.lock()
    refused = cli("run", "--rerun-failed", "out", subjects="good,fail")
    second_journal.close()
    assert (refused.code, "a run still writes to " in refused.err) == (2, True)


@pytest.mark.nightly("starts several runs")
def test_rerun_failed_retries_only_failures_and_a_later_pass_is_flaky(cli: Cli) -> None:
    subjects = "good,fails_once,fail,unsupported"
    first = cli("run", *CORE, subjects=subjects)
    assert first.results["totals"] == {"fail": 4, "unsupported": 2, "pass": 2}
    for expected in (["fail", "pass"], ["fail", "pass"]):
        run = cli("run", "--rerun-failed", "out", subjects=subjects)
        assert run.code == 1
        assert run.results["totals"] == {"fail": 2, "flaky": 2, "unsupported": 2, "pass": 2}
        row = run.rows["acts/fails_once0@int64"]
        assert [attempt["verdict"] for attempt in row["attempts"]] == expected
        assert row["attempts"][0]["kinds"] == ["value"]
        assert row["failures"][0]["message"] == "1 of 3 elements differs"
    assert [attempt["attempt"] for attempt in run.rows["acts/fail0@int64"]["attempts"]] == [1, 2, 3]
    assert "attempts" not in run.rows["acts/good0@int64"]
    assert [event["failed"] for event in journal_events(run.folder, "resume")] == [True, True]


def test_resume_reports_why_a_folder_cannot_be_resumed(cli: Cli, tmp_path: Path) -> None:
    assert "gone does not contain the journal of a run" in cli("run", "--resume", "gone").err
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "journal.jsonl").write_text('{"event":"run","mode":"eager"}\n')
    assert "does not begin with a run and its plan" in cli("run", "--resume", "odd").err
    for mode in ("eager", "lazy"):
        part = tmp_path / "both" / "legs" / f"x-{mode}"
        part.mkdir(parents=True)
        Journal(part / "journal.jsonl").write("run", options={"modes": [mode]})
        Journal(part / "journal.jsonl").write("plan", cases=[], dtypes=[])
    refused = cli("run", "--resume", "both").err
    assert "both has the merged results of 2 runs; name the folder of the run to resume: " in refused
