"""Fixture that asserts after each test that the device works."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture(autouse=True)
def _after_each_test(device_works: None) -> None:
    """Request `device_works` for each test."""
