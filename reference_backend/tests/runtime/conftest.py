"""Fixture that asserts after each test that the engine is idle and the device works."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture(autouse=True)
def _after_each_test(device_works: None, engine_idle: None) -> None:
    """Request `device_works` and `engine_idle` for each test."""
