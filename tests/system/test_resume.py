"""Runs that go on: after they were killed, and where something failed. All attempts are kept."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from conformance.results.journal import Journal
from tests.support.cli_process import Run, bare_target, environment

Cli = Callable[..., Run]


CORE = ("-n", "1", "--level", "core")


def events(folder: Path, word: str) -> list[dict[str, object]]:
    lines = (folder / "journal.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == word]


def killed(folder: Path, sham: str, *more: str) -> Run:
    """A run that one of its own cases ends with kill -9."""
    program = (
        "import os; os.environ['SHAM_RUNNER'] = str(os.getpid());"
        "from conformance.cli import main; raise SystemExit(main())"
    )
    words = [
        sys.executable,
        "-c",
        program,
        "run",
        "--target",
        bare_target(folder),
        "--extra",
        "tests.support.misbehaving_subjects",
    ]
    words += ["-n", "1", "--level", "core", "-o", str(folder / "out"), *more]
    done = subprocess.run(
        words, cwd=folder, env=environment(folder, sham), capture_output=True, text=True, timeout=120
    )
    return Run(done, folder / "out")


def test_a_killed_run_goes_on_where_it_was(cli: Cli, tmp_path: Path) -> None:
    sham = "good,kills,fail"
    assert killed(tmp_path, sham).code == -9
    assert not (tmp_path / "out" / "results.json").exists()
    shown = cli("report", "out", sham=sham)
    assert (shown.code, "\ngo on with: conformance run --resume out\n" in shown.out) == (3, True), shown.out
    before = {event["result"]["id"] for event in events(tmp_path / "out", "result")}  # type: ignore[index]
    assert before == {"acts/good0@float32", "acts/good0@int64"}
    run = cli("run", "--resume", "out", sham=sham)
    assert (run.code, run.results["complete"]) == (1, True), run.err
    assert {name: found["verdict"] for name, found in run.rows.items()} == {
        f"acts/{name}0@{dtype}": verdict
        for name, verdict in (("good", "pass"), ("kills", "pass"), ("fail", "fail"))
        for dtype in ("float32", "int64")
    }
    counts = collections.Counter(
        event["result"]["id"]  # type: ignore[index]
        for event in events(run.folder, "result")
    )
    assert set(counts.values()) == {1}, (
        "what was there is not run again, and no result is blamed for the kill"
    )
    assert "go on with" not in run.out
    assert cli("report", "out").code == 1


def test_where_nothing_is_left_to_do_it_says_so_at_once(cli: Cli, tmp_path: Path) -> None:
    run = cli("run", *CORE, sham="good,fails_once")
    assert (run.code, run.results["complete"]) == (1, True)
    # Bringing the target up would find other subjects, and refuse to go on.
    again = cli("run", "--resume", "out", sham="good")
    assert (again.code, again.results) == (1, run.results), again.err
    assert again.out.startswith("nothing to do: the run in out is complete\n")
    assert "unexpected results: exit 1" in again.out
    (tmp_path / "out" / "results.json").unlink()
    assert cli("run", "--resume", "out", sham="good").code == 1
    assert (tmp_path / "out" / "results.json").exists(), "killed before it wrote them"
    mended = cli("run", "--rerun-failed", "out", sham="good,fails_once")
    assert (mended.code, "nothing to do" in mended.out) == (1, False), "there was something to try again"
    done = cli("run", "--rerun-failed", "out", sham="good")
    assert (done.code, done.results["totals"]) == (1, {"flaky": 2, "pass": 2})
    assert done.out.startswith("nothing to do: the run in out holds no failure to try again\n")
    assert [event["failed"] for event in events(tmp_path / "out", "resume")] == [True]
    Journal(tmp_path / "out" / "journal.jsonl").write("resume", failed=True)
    killed = cli("run", "--resume", "out", sham="good,fails_once")
    assert (killed.code, "nothing to do" in killed.out) == (1, False), "that one had not come to its end"


def test_a_killed_run_of_several_modes_goes_on(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager", "lazy"]\n'
        '[environment.eager]\nSHAM = "good,kills"\n'
    )
    assert killed(tmp_path, "good", "--target", "mine.toml").code == -9
    assert "\ngo on with: conformance run --resume out\n" in cli("report", "out").out
    run = cli("run", "--target", "mine.toml", "--resume", "out")
    assert (run.code, run.results["totals"]) == (0, {"pass": 6})
    assert [(leg["mode"], leg["planned"]) for leg in run.results["legs"]] == [("eager", 4), ("lazy", 2)]
    again = cli("run", "--target", "mine.toml", "--rerun-failed", "out")
    assert (again.code, again.results["legs"]) == (0, run.results["legs"]), "nothing failed in either"
    assert again.out.startswith("nothing to do: ")


def test_a_run_goes_on_only_as_what_it_was(cli: Cli, tmp_path: Path) -> None:
    first = cli("run", *CORE, sham="good,fail")
    assert first.code == 1
    for words, message in (
        (("--level", "full"), "--level is full, but the run in out has core; leave it out"),
        (("-k", "good"), "-k is good, but the run in out has none"),
        (("--mode", "lazy"), "--mode is lazy, but the run in out has eager"),
    ):
        refused = cli("run", "--rerun-failed", "out", *words, sham="good,fail")
        assert (refused.code, message in refused.err) == (2, True), refused.err
    more = cli("run", "--rerun-failed", "out", sham="good,fail,unsupported")
    assert more.code == 2
    assert "the run in " in more.err and "cannot go on: the digest of manifest was " in more.err
    path = tmp_path / "bare.toml"
    words = ["run", "--rerun-failed", "out", "--target", "other.toml"]
    (tmp_path / "other.toml").write_text(path.read_text())
    assert "--target is " in cli(*words, sham="good,fail").err
    header = (tmp_path / "out" / "journal.jsonl").read_text()
    (tmp_path / "out" / "journal.jsonl").write_text(header.replace('"backend":null', '"backend":"abc"', 1))
    refused = cli("run", "--rerun-failed", "out", sham="good,fail")
    assert "the digest of backend was abc and is None; put that back, or run it anew" in refused.err
    assert first.results["totals"] == {"fail": 2, "pass": 2}, "what was refused has changed nothing"


def test_a_run_that_still_writes_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    cli("run", *CORE, sham="good,fail")
    other = Journal(tmp_path / "out" / "journal.jsonl")
    assert other.lock()
    refused = cli("run", "--rerun-failed", "out", sham="good,fail")
    other.close()
    assert (refused.code, "a run still writes to " in refused.err) == (2, True)


def test_only_what_failed_runs_once_more_and_a_pass_is_flaky_forever(cli: Cli) -> None:
    sham = "good,fails_once,fail,unsupported"
    first = cli("run", *CORE, sham=sham)
    assert first.results["totals"] == {"fail": 4, "unsupported": 2, "pass": 2}
    for expected in (["fail", "pass"], ["fail", "pass"]):
        run = cli("run", "--rerun-failed", "out", sham=sham)
        assert run.code == 1
        assert run.results["totals"] == {"fail": 2, "flaky": 2, "unsupported": 2, "pass": 2}
        found = run.rows["acts/fails_once0@int64"]
        assert [kept["verdict"] for kept in found["attempts"]] == expected
        assert found["attempts"][0]["kinds"] == ["value"]
        assert found["failures"][0]["message"] == "1 of 3 elements differs"
    assert [kept["attempt"] for kept in run.rows["acts/fail0@int64"]["attempts"]] == [1, 2, 3]
    assert "attempts" not in run.rows["acts/good0@int64"]
    assert [event["failed"] for event in events(run.folder, "resume")] == [True, True]


def test_what_cannot_go_on_says_so(cli: Cli, tmp_path: Path) -> None:
    assert "gone holds no journal of a run" in cli("run", "--resume", "gone").err
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "journal.jsonl").write_text('{"event":"run","mode":"eager"}\n')
    assert "does not begin with a run and its plan" in cli("run", "--resume", "odd").err
    for mode in ("eager", "lazy"):
        part = tmp_path / "both" / "legs" / f"x-{mode}"
        part.mkdir(parents=True)
        Journal(part / "journal.jsonl").write("run", options={"modes": [mode]})
        Journal(part / "journal.jsonl").write("plan", cases=[], dtypes=[])
    refused = cli("run", "--resume", "both").err
    assert "both holds the results of 2 runs, which were merged; name the one that is to go on: " in refused
