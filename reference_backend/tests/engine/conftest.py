"""Fixture that resets the engine after each test, and asserts that no work is pending."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture(autouse=True)
def _after_each_test(engine_idle: None) -> None:
    """Request `engine_idle` for each test."""
