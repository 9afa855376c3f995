"""The command line of the suite in a process of its own, with the subjects of ``sham.py``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, sham, **more),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Run(done, folder / "out")
