"""Provide the wheels that images are built from, in ``dist/docker``: torch and the suite."""

from __future__ import annotations

import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

from conformance.builds import build_spec, fork_like
from conformance.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dist" / "docker"


def torch_wheel(version: str, kind: str, python: str) -> Path:
    """Return the path of a CPU wheel of torch of a kind (``public`` or ``fork-like``).

    The wheel is downloaded only once. Raise UsageError if no wheel is available.
    """
    folder = FOLDER / "torch" / f"{version}-{kind}-{python}"
    tag = f"cp{python.replace('.', '')}"
    wheels = sorted(folder.glob(f"torch-*-{tag}-{tag}*.whl"))
    if wheels:
        return wheels[0]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if kind == "fork-like":
        return fork_like.make_fork_like_wheel(torch_wheel(version, "public", python), folder, None)
    return _download_torch_wheel(version, folder, tag)


def _download_torch_wheel(version: str, folder: Path, tag: str) -> Path:
    number = tag.removeprefix("cp")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", f"{number[0]}.{number[1:]}", "-d", str(folder), f"torch=={version}"]
    # Try the wheel folder in pip's configuration first, then PyTorch's CPU index if it responds.
    for options in (["--no-index"], ["--index-url", build_spec.CPU_INDEX] if _cpu_index_responds() else None):
        if options is None:
            continue
        if subprocess.run([*command, *options], capture_output=True).returncode == 0:
            wheels = sorted(folder.glob("torch-*.whl"))
            if len(wheels) == 1:
                return wheels[0]
    raise UsageError(
        f"no CPU wheel of torch {version} for Python {number[0]}.{number[1:]} is available here; "
        f"put one into {folder.relative_to(ROOT)}"
    )


def _cpu_index_responds() -> bool:
    try:
        with urllib.request.urlopen(f"{build_spec.CPU_INDEX}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def suite_wheel() -> Path:
    """Build the wheel of the suite from this checkout and return its path."""
    folder = FOLDER / "suite"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
