"""Fixture that resets the engine after each test, and asserts that the next call on the device works."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture(autouse=True)
def _after_each_test(device_works: None, engine_idle: None) -> None:
    """Request `device_works` and `engine_idle` for each test."""
