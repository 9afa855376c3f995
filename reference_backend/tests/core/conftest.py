"""Tests of the compiled core. They need the built backend and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest
import torch

BACKEND = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a fresh interpreter, with extra environment variables."""

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(p for p in (BACKEND, os.environ.get("PYTHONPATH", "")) if p)
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", "import torch, habana_frameworks.torch\n" + script],
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"PYTHONPATH": path} | environment,
        )

    return run


@pytest.fixture(autouse=True)
def _device_still_works():
    """Whatever a test did, the next call on the device works."""
    yield
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0, 2.0, 2.0]
