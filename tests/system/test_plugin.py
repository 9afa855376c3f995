"""pytest runs the suite's test module with the suite's plugin, without ``conformance run``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.cli_process import environment_with_subjects


def test_the_plugin_works_without_the_runner(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "conformance.plugin",
        "-p",
        "no:cacheprovider",
        "--pyargs",
    ]
    command += [
        "conformance.pytest_modules",
        "tests.support.misbehaving_subjects",
        "--conformance-extra",
        "tests.support.misbehaving_subjects",
        "-n",
        "2",
        "--conformance-level",
        "core",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment_with_subjects(tmp_path, "good,fail,error,unsupported"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 1 passed, 1 skipped" in done.stdout
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "value: 2 of 3 elements differ" in done.stdout
