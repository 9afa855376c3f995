"""A hook in a target file that does not name a function is a usage error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_process import write_bare_target


def run_conformance(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def usage_error_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and len(lines[0]) < 500, done.stderr[-2000:]
    return lines[0]


@pytest.mark.nightly("each case starts a run", every=3)
@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("torch.cpu:nosuch", "cannot be imported"),
        ("nosuch:f", "cannot be imported"),
        ("torch.version:git_version", "str"),
    ],
)
def test_a_hook_that_is_not_a_function_is_a_usage_error(tmp_path: Path, hook: str, message: str) -> None:
    path = tmp_path / write_bare_target(tmp_path)
    path.write_text(path.read_text() + f'\n[hooks]\nsynchronize = "{hook}"\n')
    done = run_conformance(
        tmp_path, "run", "--target", path.name, "--level", "smoke", "-k", "value/add", "-n", "1"
    )
    assert message in usage_error_of(done)
