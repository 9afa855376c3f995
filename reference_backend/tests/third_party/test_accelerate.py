"""Run the unmodified installation test scripts of accelerate on one rank and on two ranks.

accelerate is not a requirement of the project. Without it, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.find_spec("accelerate")
pytestmark = pytest.mark.skipif(_SPEC is None, reason="accelerate is not installed.")

#: Time limit of a script, in seconds.
PATIENCE = 600
#: Scripts with their supported numbers of ranks.
SCRIPTS = {
    "test_script": (1, 2),
    "test_sync": (1, 2),
    "test_ops": (1, 2),
    "test_cli": (1, 2),
    "test_distributed_data_loop": (2,),
    "test_ddp_comm_hook": (2,),
}


def run_script(name: str, ranks: int) -> str:
    """Run a script on the given number of ranks, and return its output."""
    assert _SPEC is not None and _SPEC.origin is not None
    script = Path(_SPEC.origin).parent / "test_utils" / "scripts" / f"{name}.py"
    command = [
        *(sys.executable, "-m", "accelerate.commands.launch", "--num_processes", str(ranks)),
        *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
        *(() if ranks == 1 else ("--main_process_port", "0")),
        str(script),
    ]
    environment = os.environ | {"PT_HPU_LAZY_MODE": "0", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "ranks"), [(name, rank_count) for name, all in SCRIPTS.items() for rank_count in all]
)
def test_a_script_of_accelerate(name: str, ranks: int) -> None:
    output = run_script(name, ranks)
    if name == "test_script":
        expected = "DistributedType.MULTI_HPU  Backend: hccl" if ranks > 1 else "Device: hpu"
        assert expected in output
