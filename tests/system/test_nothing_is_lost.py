"""A command that fails does not change the files of a finished run."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_process import Run, conformance, environment_with_subjects

TARGET = """schema = 1
name = "mine"
device = "cpu"
modes = ["eager", "lazy"]
[environment.lazy]
SUBJECTS = "good"
"""


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a finished run of one mode in ``one``, and a finished run of two
    modes in ``two``.
    """
    folder = tmp_path_factory.mktemp("finished")
    (folder / "mine.toml").write_text(TARGET)
    for name, mode in (("one", "eager"), ("two", "eager,lazy")):
        run = conformance(
            folder, "run", "--target", "mine.toml", "--mode", mode, "-n", "1", "--level", "core"
        )
        assert run.code == 0, run.err
        run.folder.rename(folder / name)
    return folder


@pytest.fixture
def folder_of_finished_runs(finished_runs: Path, tmp_path: Path) -> Path:
    """Return a copy of the finished runs that the test may change."""
    return shutil.copytree(finished_runs, tmp_path / "runs")


def bytes_of_files(folder_of_finished_runs: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder, by relative path."""
    files = (path for path in folder_of_finished_runs.rglob("*") if path.is_file())
    return {str(path.relative_to(folder_of_finished_runs)): path.read_bytes() for path in files}


def run_into(folder_of_finished_runs: Path, name: str, *options: str, **variables: str) -> Run:
    """Run the target ``mine.toml`` with the folder of the finished run ``name`` as output folder."""
    (folder_of_finished_runs / name).rename(folder_of_finished_runs / "out")
    try:
        return conformance(
            folder_of_finished_runs, "run", "--target", "mine.toml", "-n", "1", *options, **variables
        )
    finally:
        (folder_of_finished_runs / "out").rename(folder_of_finished_runs / name)


WRONG_OPTIONS = {
    "a module that does not exist": ("--extra", "no_such_module"),
    "a level that does not exist": ("--level", "cor"),
    "a mode that does not exist": ("--mode", "eeger"),
    "an empty mode": ("--mode", ""),
    "an empty level": ("--level=",),
    "a shard beyond the last": ("--shard", "3/2"),
    "a selection that matches nothing": ("-k", "nothing_is_called_so"),
    "a selection in place of the whole run": ("-k", "good"),
    "a wrong number of samples": ("--samples", "few"),
}


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("options", WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_a_wrong_option_of_run(folder_of_finished_runs: Path, name: str, options: tuple[str, ...]) -> None:
    before = bytes_of_files(folder_of_finished_runs / name)
    level = () if any("level" in option for option in options) else ("--level", "core")
    run = run_into(folder_of_finished_runs, name, *level, *options)
    assert run.code == 2, run.out + run.err
    assert bytes_of_files(folder_of_finished_runs / name) == before


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_target_that_cannot_start(folder_of_finished_runs: Path, name: str) -> None:
    before = bytes_of_files(folder_of_finished_runs / name)
    (folder_of_finished_runs / "mine.toml").write_text(TARGET.replace("modes", 'module = "gone"\nmodes'))
    run = run_into(folder_of_finished_runs, name, "--level", "core")
    assert run.code == 2 and "'gone'" in run.err, run.err
    assert bytes_of_files(folder_of_finished_runs / name) == before


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_stopped_before_it_starts(
    folder_of_finished_runs: Path, name: str, stop: signal.Signals
) -> None:
    before = bytes_of_files(folder_of_finished_runs / name)
    command = [
        sys.executable,
        "-m",
        "conformance",
        "run",
        "--target",
        "mine.toml",
        "--level",
        "core",
        "-o",
        name,
    ]
    process = subprocess.Popen(
        [*command, "--extra", "tests.support.misbehaving_subjects"],
        cwd=folder_of_finished_runs,
        env=environment_with_subjects(folder_of_finished_runs, "good", PYTHONHASHSEED="0"),
        stderr=subprocess.DEVNULL,
    )
    time.sleep(1)  # the process that loads the backend imports torch, which takes longer
    process.send_signal(stop)
    process.wait(60)
    assert bytes_of_files(folder_of_finished_runs / name) == before


@pytest.mark.parametrize("part", [(), ("--part",)], ids=["", "part"])
def test_files_of_others_beside_a_target_that_cannot_start(
    folder_of_finished_runs: Path, part: tuple[str, ...]
) -> None:
    (folder_of_finished_runs / "theirs").mkdir()
    (folder_of_finished_runs / "theirs" / "report.html").write_text("mine")
    (folder_of_finished_runs / "mine.toml").write_text(TARGET.replace("modes", 'module = "gone"\nmodes'))
    before = bytes_of_files(folder_of_finished_runs / "theirs")
    run = run_into(folder_of_finished_runs, "theirs", "--level", "core", *part)
    assert run.code == 2, run.out + run.err
    assert bytes_of_files(folder_of_finished_runs / "theirs") == before


def test_a_report_replaces_a_damaged_results_file(folder_of_finished_runs: Path) -> None:
    whole = (folder_of_finished_runs / "one" / "results.json").read_bytes()
    (folder_of_finished_runs / "one" / "results.json").write_text("{}")
    report = conformance(folder_of_finished_runs, "report", "one")
    assert report.code == 0, report.err
    assert len((folder_of_finished_runs / "one" / "results.json").read_bytes()) == len(whole)


def damage_journal(journal: Path) -> None:
    """Remove the second half of the lines of a journal."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_report_of_a_damaged_journal(folder_of_finished_runs: Path, name: str) -> None:
    for journal in (folder_of_finished_runs / name).rglob("journal.jsonl"):
        damage_journal(journal)
    before = bytes_of_files(folder_of_finished_runs / name)
    report = conformance(folder_of_finished_runs, "report", name)
    assert report.code == 2 and "the journal was damaged after the run" in report.err, report.err
    assert bytes_of_files(folder_of_finished_runs / name) == before


FAILING_COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "a merge with a folder that does not exist": lambda name: ("merge", name, "nowhere", "-o", name),
    "a merge of a run with itself": lambda name: ("merge", name, name, "-o", name),
    "a report for a target that does not exist": lambda name: ("report", name, "--target", "nowhere"),
    "a resumed run with another level": lambda name: ("run", "--resume", name, "--level", "smoke"),
    "a rerun of a target that does not exist": lambda name: ("run", "--rerun-failed", name, "--target", "no"),
    "a comparison with a run that does not exist": lambda name: ("diff", name, "nowhere"),
}


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("command", FAILING_COMMANDS.values(), ids=FAILING_COMMANDS)
def test_a_command_that_fails(
    folder_of_finished_runs: Path, name: str, command: Callable[[str], tuple[str, ...]]
) -> None:
    before = bytes_of_files(folder_of_finished_runs / name)
    arguments = [sys.executable, "-m", "conformance", *command(name)]
    done = subprocess.run(
        arguments,
        cwd=folder_of_finished_runs,
        env=environment_with_subjects(folder_of_finished_runs, "good", PYTHONHASHSEED="0"),
        capture_output=True,
        text=True,
    )
    assert done.returncode in (2, 3), done.stdout + done.stderr
    assert bytes_of_files(folder_of_finished_runs / name) == before


def limit_file_size() -> None:
    """Make every write beyond 12 KiB of a file fail, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 10, 12 << 10))


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("command", ["report", "merge"])
def test_a_full_disk(folder_of_finished_runs: Path, name: str, command: str) -> None:
    before = bytes_of_files(folder_of_finished_runs / name)
    arguments = [sys.executable, "-m", "conformance", command, name]
    done = subprocess.run(
        [*arguments, "-o", name] if command == "merge" else arguments,
        cwd=folder_of_finished_runs,
        env={**os.environ, **environment_with_subjects(folder_of_finished_runs, "good", PYTHONHASHSEED="0")},
        capture_output=True,
        text=True,
        preexec_fn=limit_file_size,
    )
    assert done.returncode in (2, 3), done.stdout + done.stderr
    assert bytes_of_files(folder_of_finished_runs / name) == before
