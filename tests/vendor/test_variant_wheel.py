"""The variant wheel contains the conforming variants and the tiny device, which are rows of the site."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from sessions import variant_wheel
from tests.support import ROOT
from tests.vendor import harness


def test_a_device_from_the_wheel_passes_level_bringup(tmp_path: Path) -> None:
    harness.environment_with_device()  # builds the kernels for the device in the wheel
    with zipfile.ZipFile(variant_wheel.build_variant_wheel(tmp_path / "wheels")) as wheel:
        wheel.extractall(tmp_path / "installed")
    assert (tmp_path / "installed" / "otherwise_device.py").is_file()
    environment = {
        name: value for name, value in os.environ.items() if name not in ("TINYACCEL_BUILD", "TINY_STAGE")
    }
    path = os.pathsep.join([str(tmp_path / "installed"), str(ROOT)])
    command = [sys.executable, "-m", "conformance", "run", "--level", "bringup", "-n", "2"]
    done = subprocess.run(
        [*command, "--target", str(ROOT / "tests" / "vendor" / "tiny.toml")],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " pass in " in done.stdout and "tiny (simulated)" in done.stdout
