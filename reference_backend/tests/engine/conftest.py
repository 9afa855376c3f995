"""Fixture: each test must leave an idle engine."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture(autouse=True)
def _after_each_test(engine_idle: None) -> None:
    """See `engine_idle`."""
