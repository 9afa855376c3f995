"""The wheels that images are made from, of torch and of the suite, in ``dist/docker``."""

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


def torch(version: str, kind: str, python: str) -> Path:
    """Return a CPU wheel of torch of a kind, downloaded once. UsageError if none is available."""
    place = FOLDER / "torch" / f"{version}-{kind}-{python}"
    tag = f"cp{python.replace('.', '')}"
    wheels = sorted(place.glob(f"torch-*-{tag}-{tag}*.whl"))
    if wheels:
        return wheels[0]
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if kind == "fork-like":
        return fork_like.repack(torch(version, "public", python), place, None)
    return _download(version, place, tag)


def _download(version: str, place: Path, tag: str) -> Path:
    number = tag.removeprefix("cp")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", f"{number[0]}.{number[1:]}", "-d", str(place), f"torch=={version}"]
    # A folder of wheels that pip is set up with comes first; then PyTorch's CPU index, if it is there.
    for options in (["--no-index"], ["--index-url", build_spec.CPU_INDEX] if _answers() else None):
        if options is None:
            continue
        if subprocess.run([*command, *options], capture_output=True).returncode == 0:
            wheels = sorted(place.glob("torch-*.whl"))
            if len(wheels) == 1:
                return wheels[0]
    raise UsageError(
        f"no CPU wheel of torch {version} for Python {number[0]}.{number[1:]} is available here; "
        f"put one into {place.relative_to(ROOT)}"
    )


def _answers() -> bool:
    try:
        with urllib.request.urlopen(f"{build_spec.CPU_INDEX}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def suite() -> Path:
    """Build the wheel of the suite from this checkout."""
    place = FOLDER / "suite"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(place), str(ROOT)], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel
