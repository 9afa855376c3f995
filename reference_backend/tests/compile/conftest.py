"""Tests of ``torch.compile(backend="hpu_backend")``. They need the built backend and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest
import torch

Compile = Callable[..., Callable[..., Any]]


@pytest.fixture(autouse=True)
def _fresh(device_works: None) -> None:
    """Each test compiles for itself, and leaves a device that works."""
    torch._dynamo.reset()
    torch.manual_seed(0)


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
