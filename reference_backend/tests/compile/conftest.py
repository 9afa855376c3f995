"""Tests of ``torch.compile(backend="hpu_backend")``. They need the built backend and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest
import torch

BACKEND = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

Compile = Callable[..., Callable[..., Any]]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Each test compiles for itself, and leaves a device that works."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2.0, 2.0, 2.0]


def compiling(executable: str) -> Compile:
    """`torch.compile` with recipes of one form: ``compile(function, dynamic=..., option=...)``."""

    def compile_for(function: Callable[..., Any], dynamic: bool | None = None, **options: Any) -> Any:
        options = {"executable": executable, **options}
        return torch.compile(function, backend="hpu_backend", dynamic=dynamic, options=options)

    return compile_for


@pytest.fixture
def interpreted() -> Compile:
    """Compiles to interpreted recipes, which is quick."""
    return compiling("interpreted")


@pytest.fixture
def fused() -> Compile:
    """Compiles to fused recipes, which takes a second and more."""
    return compiling("fused")


@pytest.fixture(params=["interpreted", "fused"])
def compiled(request: pytest.FixtureRequest) -> Compile:
    """Compiles to recipes of each form."""
    return compiling(request.param)


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a fresh interpreter: what comes before the device, script, environment variables."""

    def run(script: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(p for p in (BACKEND, os.environ.get("PYTHONPATH", "")) if p)
        return subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                f"{before}\nimport torch, habana_frameworks.torch\n{script}",
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | {"PYTHONPATH": path} | environment,
        )

    return run
