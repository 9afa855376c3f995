"""The committed manifest equals the manifest that the suite generates."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.nightly("nox -s lint checks the same")
def test_the_committed_manifest_is_current() -> None:
    # Other tests of this process register artificial properties, so the generator runs in a new process.
    command = [sys.executable, "-m", "tools.generate.manifest", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
