"""Skip slow tests that rarely fail, except in the nightly workflow, which sets ``CONFORMANCE_NIGHTLY=1``.

Outside the nightly run, ``@pytest.mark.nightly("why")`` skips a test and shows the reason. With ``every=3``,
every third parameter set of the test still runs. ``every_nth`` selects a part of a list.
``tests/conftest.py`` and the conftest file of the reference device's tests import the two pytest hooks.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

NIGHTLY = os.environ.get("CONFORMANCE_NIGHTLY") == "1"


def every_nth(step: int, rows: Sequence[T]) -> Sequence[T]:
    """Return all rows in the nightly run. In other runs return the first row and every
    ``step``-th after it.
    """
    return rows[:: 1 if NIGHTLY else step]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker ``nightly``."""
    config.addinivalue_line(
        "markers",
        "nightly(why, every=None): run this slow test only if CONFORMANCE_NIGHTLY=1; with every=N, run every "
        "N-th parameter set in all other runs, too",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests with the marker ``nightly`` outside the nightly run. Raise UsageError for a marker without a
    reason, or with a step that is not an integer above 1.
    """
    numbers: collections.Counter[str] = collections.Counter()
    for item in items:
        marker = item.get_closest_marker("nightly")
        if marker is None:
            continue
        if len(marker.args) != 1 or not isinstance(marker.args[0], str) or len(marker.args[0]) < 10:
            raise pytest.UsageError(f"{item.nodeid}: the marker nightly needs one argument, the reason")
        step = marker.kwargs.get("every")
        if marker.kwargs.keys() - {"every"} or not (step is None or (isinstance(step, int) and step > 1)):
            raise pytest.UsageError(
                f"{item.nodeid}: the marker nightly has {marker.kwargs}; "
                "its only option is every=N, with an integer N above 1"
            )
        test = item.nodeid.partition("[")[0]
        is_selected = step is not None and numbers[test] % step == 0
        numbers[test] += 1
        if not NIGHTLY and not is_selected and not any(mark.name == "skip" for mark in item.own_markers):
            item.add_marker(pytest.mark.skip(reason=f"nightly: {marker.args[0]}"))
