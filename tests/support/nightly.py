"""What is slow and rarely breaks runs at night: ``CONFORMANCE_NIGHTLY=1``, which the nightly workflow sets.

``@pytest.mark.nightly("why")`` leaves a test to the night; its skip says why. ``every`` takes a part of a
list of parameters in the other runs. Both conftest files, that of ``tests`` and that of the reference
device's tests, import the two hooks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

NIGHTLY = os.environ.get("CONFORMANCE_NIGHTLY") == "1"


def every(step: int, rows: Sequence[T]) -> Sequence[T]:
    """Return all rows in the nightly run, and every ``step``-th of them, from the first on, in others."""
    return rows[:: 1 if NIGHTLY else step]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "nightly(why): slow and rarely breaks; only with CONFORMANCE_NIGHTLY=1"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is left to the night; a marker without a reason is an error."""
    for item in items:
        marker = item.get_closest_marker("nightly")
        if marker is None:
            continue
        if len(marker.args) != 1 or not isinstance(marker.args[0], str) or len(marker.args[0]) < 10:
            raise pytest.UsageError(f"{item.nodeid}: the marker nightly needs one argument, the reason")
        if not NIGHTLY and not any(mark.name == "skip" for mark in item.own_markers):
            item.add_marker(pytest.mark.skip(reason=f"nightly: {marker.args[0]}"))
