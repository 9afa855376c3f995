"""Fixtures that build and run the command-line tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build libhlml.so in a copy of the package ``hpu_reference_tools``, and return its path."""
    copy = tmp_path_factory.mktemp("tools") / "tools"
    shutil.copytree(TOOLS, copy, ignore=shutil.ignore_patterns("*.so", "build", "*.egg-info"))
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(build, cwd=copy, check=True)
    return copy / "hpu_reference_tools" / "libhlml.so"


@pytest.fixture(scope="session")
def smi(library: Path) -> Run:
    """Return a function that runs hl-smi with arguments. Keyword arguments are environment variables."""

    def run_tool(*arguments: str, module: str = "smi", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(library.parents[1])} | variables
        command = [sys.executable, "-m", f"hpu_reference_tools.{module}", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run_tool
