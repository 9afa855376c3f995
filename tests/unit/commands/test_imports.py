"""The command line starts without torch, so that ``--help`` is fast and ``repro`` can fork its guarded
process.
"""

from __future__ import annotations

import subprocess
import sys


def test_commands_load_no_torch() -> None:
    code = "import sys, conformance.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
