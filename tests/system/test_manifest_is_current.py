"""The committed manifest matches the suite."""

from __future__ import annotations

import os
import subprocess
import sys


def test_the_manifest_is_that_of_the_suite() -> None:
    # The test needs a separate process, because other tests register properties that are not the suite's.
    command = [sys.executable, "-m", "tools.generate.manifest", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
