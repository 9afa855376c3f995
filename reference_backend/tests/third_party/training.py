"""Starts `trainer_program.py` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).with_name("trainer_program.py"))
#: By how much, relatively, a loss may differ from the CPU's.
ROUNDING, ROUNDING_OF_BFLOAT16 = 1e-4, 2e-2
#: Seconds for a program.
PATIENCE = 600


def trained(folder: Path, *words: str, launcher: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run the program; return the device, the number of ranks and the loss of each step."""
    command = [sys.executable, *launcher, PROGRAM, "--output", str(folder), *words]
    here = str(Path(sys.executable).parent)  # optimum-habana starts pip
    environment = os.environ | {
        "PT_HPU_LAZY_MODE": "0",
        "HF_HUB_OFFLINE": "1",
        "PATH": here + os.pathsep + os.environ["PATH"],
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads((folder / "losses.json").read_text())
    return {**found, "losses": {int(step): loss for step, loss in found["losses"].items()}}
