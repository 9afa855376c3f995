"""Fixtures for ``torch.compile(backend="hpu_backend")``. The tests need only the built backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest
import torch

Compile = Callable[..., Callable[..., Any]]


@pytest.fixture(autouse=True)
def _fresh(device_works: None) -> None:
    """Clear Dynamo's caches before each test, and assert a working device after it."""
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiling(executable: str) -> Compile:
    """Return `torch.compile` with recipes of one form: ``compile(function, dynamic=..., option=...)``."""

    def compile_for(function: Callable[..., Any], dynamic: bool | None = None, **options: Any) -> Any:
        options = {"executable": executable, **options}
        return torch.compile(function, backend="hpu_backend", dynamic=dynamic, options=options)

    return compile_for


@pytest.fixture
def interpreted() -> Compile:
    """Compile to interpreted recipes, which is fast."""
    return compiling("interpreted")


@pytest.fixture
def fused() -> Compile:
    """Compile to fused recipes, which takes a second or more."""
    return compiling("fused")


@pytest.fixture(params=["interpreted", "fused"])
def compiled(request: pytest.FixtureRequest) -> Compile:
    """Compile to recipes of each form."""
    return compiling(request.param)
