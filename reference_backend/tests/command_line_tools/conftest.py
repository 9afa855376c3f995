"""Fixtures that find libhlml.so and run the command-line tools."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def hlml_path() -> Path:
    """Return the path of libhlml.so. The build of the reference device writes this file."""
    path = BACKEND / "hpu_reference_tools" / "libhlml.so"
    assert path.exists(), f"{path} is missing. Run `python setup.py build_ext --inplace` in {BACKEND}."
    return path


@pytest.fixture(scope="session")
def smi(hlml_path: Path) -> Run:
    """Return a function that runs hl-smi with arguments. Keyword arguments are environment variables."""

    def run_tool(*arguments: str, module: str = "smi", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(hlml_path.parents[1])} | variables
        command = [sys.executable, "-m", f"hpu_reference_tools.{module}", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run_tool
