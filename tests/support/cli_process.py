"""The command line of the suite in a process of its own, with the subjects of ``sham.py``.

The process is a fork of one that has imported torch (``command_server.py``): the imports cost more than most
of the commands. Tests of how the command starts, is killed or is read by a scheduler start an interpreter.
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
        found: dict[str, Any] = json.loads((self.folder / "results.json").read_text())
        return found

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.results["legs"][0]["results"]}


def environment(folder: Path, sham: str, **more: str) -> dict[str, str]:
    """Variables of a process that knows only the subjects named by ``sham``."""
    state = folder / "state"
    state.mkdir(exist_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": python_path(),
        "CONFORMANCE_KINDS": "sham",
        "SHAM": sham,
        "SHAM_STATE": str(state),
        "OMP_NUM_THREADS": "1",
        **more,
    }


def bare_target(folder: Path) -> str:
    """A target file for the CPU in eager mode; no expectations, since those of cpu speak of operators."""
    text = (ROOT / "conformance" / "target" / "known" / "cpu.toml").read_text()
    text = re.sub(r"(?m)^modes = .*$", 'modes = ["eager"]', text)
    (folder / "bare.toml").write_text(text.replace('name = "cpu"', 'name = "bare"'))
    return "bare.toml"


def conformance(folder: Path, *arguments: str, sham: str = "good", **more: str) -> Run:
    """Run the command line in a folder; ``run`` writes to its subfolder ``out``."""
    command = [sys.executable, "-m", "conformance", *arguments]
    if arguments[0] in ("run", "repro"):
        command += ["--extra", "tests.support.misbehaving_subjects"]
        if "--target" not in arguments:
            command += ["--target", bare_target(folder)]
    if arguments[0] == "run":
        command += ["-o", str(folder / "out")]
    return Run(forked(command, folder, environment(folder, sham, **more)), folder / "out")


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start the server of this process; it ends with it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.command_server"],
        env={**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


def forked(
    command: list[str], folder: Path, variables: dict[str, str], seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m conformance …`` in a folder as a fork; as `subprocess.run`."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as place:
        files = {name: Path(place, name) for name in ("out", "err")}
        request = {
            "arguments": command[3:],
            # With any other hash seed the command would start again, as an interpreter of its own.
            "variables": variables | {"PYTHONHASHSEED": "0"},
            "cwd": str(folder),
            "seconds": seconds,
            **{name: str(file) for name, file in files.items()},
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the server of commands ended with code {server.wait()}")
        said = {name: file.read_text(errors="replace") for name, file in files.items()}
    code = json.loads(answer)["code"]
    if code is None:
        raise subprocess.TimeoutExpired(command, seconds, said["out"], said["err"])
    return subprocess.CompletedProcess(command, code, said["out"], said["err"])
