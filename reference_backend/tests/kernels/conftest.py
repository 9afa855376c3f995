"""Fixture: each test must leave a working device."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture(autouse=True)
def _after_each_test(device_works: None) -> None:
    """See `device_works`."""
