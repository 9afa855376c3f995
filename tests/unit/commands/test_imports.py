"""The command line starts without torch: help is quick, and repro can fork the process that it guards."""

from __future__ import annotations

import subprocess
import sys


def test_commands_load_no_torch() -> None:
    code = "import sys, conformance.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
