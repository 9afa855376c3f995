"""``conformance doctor`` and ``conformance targets --new`` try each capability on the tiny device. A crash
ends only the trial in which it occurs.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conformance.doctor import capability_trials, trial_process
from conformance.errors import UsageError
from conformance.target import file as target_file
from tests.vendor import harness


def missing_capabilities(text: str) -> list[str]:
    return re.findall(r"^MISSING (\S+)", text, re.M)


def test_doctor_finds_nothing_missing_on_the_complete_device(tmp_path: Path) -> None:
    done = harness.run_conformance(tmp_path, "doctor", "--target", harness.write_target(tmp_path))
    assert (done.returncode, missing_capabilities(done.stdout)) == (0, []), done.stdout + done.stderr
    assert re.search(r"^- +c10d kernels", done.stdout, re.M)


def test_each_missing_declared_capability_is_reported_with_a_step(tmp_path: Path) -> None:
    file = harness.write_target(
        tmp_path,
        'modes = ["eager", "distributed"]',
        streams=True,
        generator=True,
        serialization=True,
        inplace=False,
    )
    done = harness.run_conformance(tmp_path, "doctor", "--target", file)
    assert done.returncode == 1
    assert {"streams", "generator", "c10d", "serialization", "module"} <= set(
        missing_capabilities(done.stdout)
    )
    assert "or declare streams = false" in done.stdout
    assert "inplace" not in missing_capabilities(done.stdout)
    assert "works although it is not declared: remove inplace = false?" in done.stdout


def test_a_trial_that_crashes_is_recorded_in_the_drafted_target(tmp_path: Path) -> None:
    """At its second stage, the tiny device crashes on a negated view by endless recursion. The drafted target
    file records the crash.
    """
    done = harness.run_conformance(tmp_path, "targets", "--new", "tiny", "--module", "tinyaccel", stage=2)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "tiny.toml").read_text()
    assert re.search(r'killed by signal \d+\n#   blocks .*\nconj_neg_views = "crashes"', text)
    assert re.search(
        r"#   blocks [\d,]+ of core, [\d,]+ of full results; openreg: csrc/runtime/OpenRegStream", text
    )
    failed_capabilities = re.findall(r"^(\w+) = (?:false|\"crashes\")$", text, re.MULTILINE)
    assert (
        failed_capabilities == sorted(failed_capabilities, key=capability_trials.ORDER.index)
        and len(failed_capabilities) > 10
    )
    first = done.stdout.splitlines()[-1]
    assert first.startswith(
        f"{len(failed_capabilities)} capabilities are missing; implement {failed_capabilities[0]} first"
    )
    assert "\nfunctorch = false" in text
    file = target_file.load(str(tmp_path / "tiny.toml"))
    assert file.dtypes == {"float32", "int64", "bool"}
    assert not file.capabilities["asynchronous"]
    assert "views" not in file.capabilities


def test_the_drafted_target_of_a_complete_device_declares_all_capabilities(tmp_path: Path) -> None:
    assert (
        harness.run_conformance(tmp_path, "targets", "--new", "tiny", "--module", "tinyaccel").returncode == 0
    )
    file = target_file.load(str(tmp_path / "tiny.toml"))
    assert file.dtypes == {"float32", "float64", "int32", "int64", "bool"}
    assert not {"autograd", "inplace", "views", "foreach", "conj_neg_views"} & set(file.capabilities)
    lacks = ("random", "generator", "streams", "events", "autocast", "sparse", "pinned_memory", "dlpack")
    assert not any(file.capabilities[capability] for capability in lacks)


def test_a_trial_that_hangs_costs_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sleepy.py").write_text(
        "import time, torch\ntorch._neg_view = lambda tensor: time.sleep(600)\n"
    )
    (tmp_path / "sleepy.toml").write_text('schema = 1\nname = "sleepy"\nmodule = "sleepy"\ndevice = "cpu"\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ["capability:inplace", "capability:conj_neg_views", "capability:out_variants"]
    facts = trial_process.run_trials(tmp_path / "sleepy.toml", "eager", names, seconds=15)
    assert [facts[name].ok for name in names] == [True, False, True]
    assert facts[names[1]].text == "the process hung for 15 s"


def test_a_backend_that_cannot_be_imported_ends_the_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise OSError('no driver')\n")
    (tmp_path / "broken.toml").write_text('schema = 1\nname = "b"\nmodule = "broken"\ndevice = "cpu"\n')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"could not start: the process ended with code 1.*no driver"):
        trial_process.run_trials(tmp_path / "broken.toml", "eager", ["capability:inplace"])


def test_the_next_steps_state_how_many_results_they_unblock(tmp_path: Path) -> None:
    done = harness.run_conformance(
        tmp_path, "doctor", "--target", harness.write_target(tmp_path, streams=True), stage=1
    )
    assert done.returncode == 1
    kernels = done.stdout.partition("register these kernels under")[2].splitlines()[1]
    assert re.search(
        r"blocks \d+ of bringup, [\d,]+ of full results; openreg: csrc/aten/OpenRegMinimal", kernels
    )
    done = harness.run_conformance(
        tmp_path, "doctor", "--target", harness.write_target(tmp_path, streams=True)
    )
    assert re.search(r"blocks \d+ of full results; openreg: csrc/runtime/OpenRegStream", done.stdout)


def test_watch_reruns_doctor_if_the_target_file_changes(tmp_path: Path) -> None:
    file = tmp_path / harness.write_target(tmp_path, streams=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance", "doctor", "--target", str(file), "--watch"],
        cwd=tmp_path,
        env=harness.environment_with_device(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell starts background jobs with SIGINT ignored, and child processes inherit this setting.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    limit = threading.Timer(300, process.kill)
    limit.start()
    try:
        first = output_until_watching(process)
        assert re.search(r"^MISSING streams", first, re.M)
        file.write_text(file.read_text().replace("streams = true", "streams = false"))
        second = output_until_watching(process)
        assert second == (
            f"{file.name} changed\nfixed    module tinyaccel\nfixed    streams\nnothing is missing\n\n"
        )
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        limit.cancel()
        process.kill()
        process.wait()


def output_until_watching(process: subprocess.Popen[str]) -> str:
    """Read the output of ``doctor --watch`` up to the line that says that it watches, and
    return this output.
    """
    assert process.stdout is not None
    lines = []
    while (line := process.stdout.readline()) != "watching; stop with Ctrl-C\n":
        assert line, f"the process exited: {''.join(lines)}"
        lines.append(line)
    return "".join(lines)
