"""``python -m sessions.variant_wheel DIR``: build one wheel with the device packages of the tests.

The site shows these devices in separate rows: the tiny device of the vendor guide, and the reference device
with other correct kernels. The tiny device's kernels are built for the torch of this process, so the wheel
works with this torch and Python only.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENDOR = ROOT / "tests" / "vendor"
OTHER_KERNELS = ROOT / "tests" / "conforming_variants" / "other_kernels" / "otherwise_device.py"
_PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "conformance-stand-ins"
version = "0"

[tool.setuptools]
packages = ["tinyaccel"]
py-modules = ["tinyaccel_build", "otherwise_device"]

[tool.setuptools.package-data]
tinyaccel = ["csrc/*", "build/*/*.so"]
"""


def build_variant_wheel(output: Path) -> Path:
    """Build the wheel into a folder and return its path. Needs torch, setuptools, ninja and a compiler."""
    subprocess.run([sys.executable, "-m", "tinyaccel_build"], cwd=VENDOR, check=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        source.mkdir()
        shutil.copytree(
            VENDOR / "tinyaccel", source / "tinyaccel", ignore=shutil.ignore_patterns("__pycache__", "lock")
        )
        for file in (VENDOR / "tinyaccel_build.py", OTHER_KERNELS):
            shutil.copy(file, source)
        (source / "pyproject.toml").write_text(_PROJECT)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "--wheel-dir", scratch, str(source)], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, output))


def main() -> None:
    """Build the wheel into the folder on the command line, and print the path of the wheel."""
    parser = argparse.ArgumentParser(prog="python -m sessions.variant_wheel", description=main.__doc__)
    parser.add_argument("output", type=Path, metavar="DIR", help="folder for the wheel")
    print(build_variant_wheel(parser.parse_args().output.resolve()))


if __name__ == "__main__":
    main()
