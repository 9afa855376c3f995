"""Small promises of the commands that were once broken."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from suite_process import Run, bare_target, environment

from conformance.doctor import facts
from conformance.errors import UsageError
from conformance.samples import extent
from conformance.samples.operators import Sample, SampleSet
from conformance.subjects import catalogue
from conformance.target import file as target_file

Cli = Callable[..., Run]


def test_an_empty_journal_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("")
    run = cli("report", str(tmp_path))
    assert run.code == 2
    assert "journal.jsonl has no run event; it is not the journal of a run" in run.err


@pytest.fixture()
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setattr(extent, "sample_limit", extent.DEFAULT)
    monkeypatch.setattr(extent, "exact", False)
    return extent.choose


@pytest.mark.parametrize(("word", "count"), [("1", 1), ("3", 3), ("10", 10), ("all", 100)])
def test_samples_are_as_many_as_the_user_says(limit: Callable[[str], None], word: str, count: int) -> None:
    limit(word)
    samples = [Sample(index, torch.ones(index % 2)) for index in range(100)]
    assert len(SampleSet("sham", samples).chosen(extent.limit())) == count


def test_collectives_are_missed_only_where_they_are_promised() -> None:
    for modes, word in ((["eager"], None), (["eager", "distributed"], True)):
        target = target_file.load("cpu").target("eager")
        object.__setattr__(target, "modes", modes)
        (fact,) = (fact for fact in facts.collect(target) if fact.subject == "c10d kernels")
        assert fact.ok is word


def test_an_extra_module_that_raises_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "raises_at_import.py").write_text("raise ValueError('no such thing')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "extra module 'raises_at_import' cannot be imported: ValueError: no such thing"
    with pytest.raises(UsageError, match=message):
        catalogue.load_extra(["raises_at_import"])


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_workers_end_with_a_runner_that_is_killed(tmp_path: Path, workers: str) -> None:
    command = [
        sys.executable,
        "-m",
        "conformance",
        "run",
        "--target",
        bare_target(tmp_path),
        "--extra",
        "sham",
    ]
    command += ["-n", workers, "-o", "out"]
    variables = environment(tmp_path, "hang_with_gil,good", SHAM_COPIES="2")
    runner = subprocess.Popen(
        command, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    hanging = wait_for(lambda: open_workers(tmp_path / "out" / "journal.jsonl"))
    assert hanging and all(map(alive, hanging))
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not any(map(alive, hanging)))


def open_workers(path: Path) -> list[int]:
    """Processes of the workers that a journal names, once one of them hangs."""
    text = path.read_text() if path.exists() else ""
    if '"id":"acts/hang_with_gil0@float32"' not in text:
        return []
    return [int(line.split('"pid":')[1].rstrip("}\n")) for line in text.splitlines() if '"pid":' in line]


def wait_for(test: Callable[[], object], seconds: float = 60.0) -> object:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = test()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not so within {seconds:g} s")
