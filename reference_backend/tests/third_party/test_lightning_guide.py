"""Run the programs of `lightning_guide_program`, each in its own process.

lightning-habana and DeepSpeed are not requirements of the project. Without them, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("lightning_habana") is None or importlib.util.find_spec("deepspeed") is None,
    reason="lightning-habana and DeepSpeed are not installed.",
)

PROGRAM = Path(__file__).with_name("lightning_guide_program.py")
NAMES = re.findall(r"@program\ndef (\w+)", PROGRAM.read_text())
#: Time limit of a program, in seconds.
PATIENCE = 300


@pytest.mark.parametrize("name", NAMES)
def test_a_program_of_the_guide_runs(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), name],
        cwd=tmp_path,
        env=os.environ | {"PT_HPU_LAZY_MODE": "0"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0 and f"{name} done" in done.stdout, done.stdout[-1000:] + done.stderr[-4000:]
