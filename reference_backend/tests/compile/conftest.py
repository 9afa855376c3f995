"""Fixtures for tests of ``torch.compile(backend="hpu_backend")``, which need only the built backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest
import torch

Compile = Callable[..., Callable[..., Any]]


@pytest.fixture(autouse=True)
def _reset_dynamo(device_works: None) -> None:
    """Clear Dynamo's caches before each test. Assert after the test that the device works."""
    torch._dynamo.reset()
    torch.manual_seed(0)


def compile_function_for(executable: str) -> Compile:
    """Return ``compile_for(function, dynamic=…, option=…)``, which compiles a function to one kind of recipe.

    A recipe is a compiled graph. Its kind is ``interpreted`` or ``fused``.
    """

    def compile_for(function: Callable[..., Any], dynamic: bool | None = None, **options: Any) -> Any:
        options = {"executable": executable, **options}
        return torch.compile(function, backend="hpu_backend", dynamic=dynamic, options=options)

    return compile_for


@pytest.fixture
def interpreted() -> Compile:
    """Return a function that compiles to interpreted recipes, which takes little time."""
    return compile_function_for("interpreted")


@pytest.fixture
def fused() -> Compile:
    """Return a function that compiles to fused recipes, which takes a second or more."""
    return compile_function_for("fused")


@pytest.fixture(params=["interpreted", "fused"])
def compiled(request: pytest.FixtureRequest) -> Compile:
    """Run the test twice: once with the fixture ``interpreted``, and once with ``fused``."""
    return compile_function_for(request.param)
