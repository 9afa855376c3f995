"""The committed manifest is that of the suite."""

from __future__ import annotations

import os
import subprocess
import sys


def test_the_manifest_is_that_of_the_suite() -> None:
    # In a process of its own: other tests here register properties that are not the suite's.
    command = [sys.executable, "-m", "tools.generate.manifest", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
