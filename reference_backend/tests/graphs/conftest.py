"""Graphs, metrics and steps, tested through their Python interface."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE_TREE = Path(__file__).parents[2]

if list((SOURCE_TREE / "habana_frameworks" / "torch").glob("_C*.so")):
    sys.path.insert(0, str(SOURCE_TREE))


@pytest.fixture(scope="session", autouse=True)
def device() -> None:
    """Load the backend; without its core every test fails here."""
    import habana_frameworks.torch  # noqa: F401


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Function that runs code in a fresh process, in an empty folder: `run(code, **environment)`."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PT_", "HABANA_", "HLS_", "HPU_", "TORCH", "OMPI_", "GRAPH_"))
            and name not in ("RANK", "PYTHONPATH")
        }
        kept["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        kept.update(environment)
        return subprocess.run(
            [sys.executable, "-c", code], env=kept, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )

    return run


@pytest.fixture
def output_of(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """As `run_python`, for code that must succeed: returns what it printed."""

    def run(code: str, **environment: str) -> str:
        done = run_python(code, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
