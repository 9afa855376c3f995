"""Test unmodified optimum-habana: its modules can be imported, and its trainer learns as on the CPU.

optimum-habana is not a requirement of the project. Without it, these tests are skipped. optimum-habana asks
pip for the distribution habana-torch-plugin, whose metadata the build of the device writes.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .run_trainer import ROUNDING_OF_BFLOAT16, run_trainer

try:
    importlib.metadata.version("optimum-habana")
except importlib.metadata.PackageNotFoundError:
    pytestmark = pytest.mark.skip(reason="optimum-habana is not installed.")

#: Modules that cannot be imported with trl 0.9. ``grpo_trainer`` requires ``GRPOTrainer``, which trl has
#: since version 0.14. The tests use trl 0.9, because other modules require names that later versions
#: do not have.
_NEEDS_NEWER_TRL = ["optimum.habana.trl.trainer.grpo_trainer"]
#: Script that imports every module of optimum-habana and prints a line for each import.
_IMPORTS = """
import importlib, pkgutil
import optimum.habana

def refuse(name):
    print("refused:", name)

for found in pkgutil.walk_packages(optimum.habana.__path__, "optimum.habana.", onerror=refuse):
    try:
        importlib.import_module(found.name)
        print("imported:", found.name)
    except Exception as error:
        print("refused:", found.name, type(error).__name__, error)
"""


def test_every_module_can_be_imported() -> None:
    here = str(Path(sys.executable).parent)
    environment = os.environ | {"PT_HPU_LAZY_MODE": "0", "PATH": here + os.pathsep + os.environ["PATH"]}
    command = [sys.executable, "-c", _IMPORTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = done.stdout.splitlines()
    refused = [line.split()[1] for line in lines if line.startswith("refused:")]
    assert refused == _NEEDS_NEWER_TRL, [line for line in lines if line.startswith("refused:")]
    assert sum(line.startswith("imported:") for line in lines) > 200


@pytest.mark.parametrize("words", [(), ("--bf16",)], ids=["fp32", "bf16"])
def test_trainer_has_the_losses_of_the_cpu(tmp_path: Path, words: tuple[str, ...]) -> None:
    on_cpu = run_trainer(tmp_path / "cpu", "--cpu")["losses"]
    report = run_trainer(tmp_path / "hpu", "--gaudi", *words)
    assert (report["device"], report["ranks"]) == ("hpu", 1)
    assert on_cpu[12] < on_cpu[1] - 1
    # Losses differ by more than ROUNDING, because the device's fused optimizer adds epsilon before the bias
    # correction.
    assert report["losses"] == pytest.approx(on_cpu, rel=ROUNDING_OF_BFLOAT16)
