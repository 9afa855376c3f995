"""The Python half of the device, tested against the compiled core.

What happens at import is tried in fresh processes: `run_python` starts one with the backend on its path and
with none of the variables that would change how it loads.
"""

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

RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def device() -> None:
    """Load the backend; without its core every test fails here."""
    import habana_frameworks.torch  # noqa: F401


@pytest.fixture
def run_python() -> RunPython:
    """Function that runs code in a fresh process: `run(code, path=[...], options=[...], **environment)`."""

    def run(
        code: str, path: tuple[object, ...] = (), options: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PT_", "HABANA_", "HLS_", "HPU_", "TORCH"))
        }
        # First of all entries, so that a test can shadow a module of the backend.
        search = [*map(str, path), *(entry for entry in sys.path if entry)]
        kept["PYTHONPATH"] = os.pathsep.join(search)
        kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        kept.update(environment)
        return subprocess.run(
            [sys.executable, *options, "-c", code], env=kept, capture_output=True, text=True, timeout=300
        )

    return run


@pytest.fixture
def output_of(run_python: RunPython) -> Callable[..., str]:
    """As `run_python`, for code that must succeed: returns what it printed."""

    def run(code: str, **arguments: object) -> str:
        done = run_python(code, **arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
