"""Slow tests that rarely fail run at night only: the nightly workflow sets ``CONFORMANCE_NIGHTLY=1``.

``@pytest.mark.nightly("why")`` skips a test in other runs; the skip shows the reason. ``every_nth`` selects a
part of a parameter list in other runs. Both conftest files, in ``tests`` and in the reference device's tests,
import the two hooks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

NIGHTLY = os.environ.get("CONFORMANCE_NIGHTLY") == "1"


def every_nth(step: int, rows: Sequence[T]) -> Sequence[T]:
    """Return all rows in the nightly run, and otherwise every ``step``-th row from the first on."""
    return rows[:: 1 if NIGHTLY else step]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "nightly(why): slow and rarely breaks; only with CONFORMANCE_NIGHTLY=1"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip nightly tests in other runs. A marker without a reason is an error."""
    for item in items:
        marker = item.get_closest_marker("nightly")
        if marker is None:
            continue
        if len(marker.args) != 1 or not isinstance(marker.args[0], str) or len(marker.args[0]) < 10:
            raise pytest.UsageError(f"{item.nodeid}: the marker nightly needs one argument, the reason")
        if not NIGHTLY and not any(mark.name == "skip" for mark in item.own_markers):
            item.add_marker(pytest.mark.skip(reason=f"nightly: {marker.args[0]}"))
