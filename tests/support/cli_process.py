"""Run ``conformance`` commands in separate processes, with the artificial subjects of
``misbehaving_subjects.py``.

Each process is a fork of the command server (``command_server.py``), which has imported torch. A fork saves
the imports, which take longer than most commands. Tests of how a command starts, ends or schedules its work
do not use this module. They start a new interpreter.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support import ROOT, python_path


class Run:
    """A finished ``conformance`` process."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.folder = folder

    @property
    def results(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "results.json").read_text())
        return document

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.results["legs"][0]["results"]}


def environment_with_subjects(folder: Path, subjects: str, **more: str) -> dict[str, str]:
    """Return the environment of a process whose only subjects are the artificial subjects that ``subjects``
    names.
    """
    state = folder / "state"
    state.mkdir(exist_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": python_path(),
        "CONFORMANCE_KINDS": "artificial",
        "ARTIFICIAL_SUBJECTS": subjects,
        "ARTIFICIAL_STATE": str(state),
        "OMP_NUM_THREADS": "1",
        **more,
    }


def write_bare_target(folder: Path) -> str:
    """Write a target file for the CPU in eager mode, and return the name of the file. The target has no
    expectations. The expectations of target cpu match operators, so a run of artificial subjects would report
    them as stale.
    """
    text = (ROOT / "conformance" / "target" / "known" / "cpu.toml").read_text()
    text = re.sub(r"(?m)^modes = .*$", 'modes = ["eager"]', text)
    (folder / "bare.toml").write_text(text.replace('name = "cpu"', 'name = "bare"'))
    return "bare.toml"


def conformance(folder: Path, *arguments: str, subjects: str = "good", **more: str) -> Run:
    """Run a ``conformance`` command in ``folder``. The command ``run`` writes its results to the subfolder
    ``out``.
    """
    command = [sys.executable, "-m", "conformance", *arguments]
    if arguments[0] in ("run", "repro"):
        command += ["--extra", "tests.support.misbehaving_subjects"]
        if "--target" not in arguments:
            command += ["--target", write_bare_target(folder)]
    if arguments[0] == "run":
        command += ["-o", str(folder / "out")]
    return Run(
        run_in_fork(command, folder, environment_with_subjects(folder, subjects, **more)), folder / "out"
    )


@functools.cache
def _command_server() -> subprocess.Popen[str]:
    """Return this process's command server, which the first call starts. The server is killed when this
    process exits.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.command_server"],
        env={**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


def run_in_fork(
    command: list[str], folder: Path, variables: dict[str, str], seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the ``command``, which starts with ``python -m conformance``, in a fork of the command server.
    Return the same result as `subprocess.run`.
    """
    server = _command_server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as output_folder:
        files = {name: Path(output_folder, name) for name in ("out", "err")}
        request = {
            "arguments": command[3:],
            # The command restarts in a new interpreter if the hash seed is different.
            "variables": variables | {"PYTHONHASHSEED": "0"},
            "cwd": str(folder),
            "seconds": seconds,
            **{name: str(file) for name, file in files.items()},
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the command server exited with code {server.wait()}")
        outputs = {name: file.read_text(errors="replace") for name, file in files.items()}
    code = json.loads(answer)["code"]
    if code is None:
        raise subprocess.TimeoutExpired(command, seconds, outputs["out"], outputs["err"])
    return subprocess.CompletedProcess(command, code, outputs["out"], outputs["err"])
