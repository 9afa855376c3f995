"""Start `trainer_program.py` in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).with_name("trainer_program.py"))
#: Allowed relative differences between a loss on hpu, in float32 and in bfloat16, and the loss on the CPU.
ROUNDING, ROUNDING_OF_BFLOAT16 = 1e-4, 2e-2
#: Time limit of a training, in seconds.
PATIENCE = 600


def run_trainer(folder: Path, *arguments: str, launcher: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run `trainer_program.py`. Return the device, the number of ranks and the loss of each step."""
    command = [sys.executable, *launcher, PROGRAM, "--output", str(folder), *arguments]
    here = str(Path(sys.executable).parent)  # optimum-habana runs pip, which it finds on PATH
    environment = os.environ | {
        "PT_HPU_LAZY_MODE": "0",
        "HF_HUB_OFFLINE": "1",
        "PATH": here + os.pathsep + os.environ["PATH"],
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    report = json.loads((folder / "losses.json").read_text())
    return {**report, "losses": {int(step): loss for step, loss in report["losses"].items()}}
