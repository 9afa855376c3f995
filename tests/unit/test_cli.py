"""``conformance.cli`` does not import torch, so that ``--help`` is fast and ``conformance
repro`` can fork.
"""

from __future__ import annotations

import subprocess
import sys


def test_commands_load_no_torch() -> None:
    code = "import sys, conformance.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
