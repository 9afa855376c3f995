"""A pytest plugin for runs of all tests that starts the longest files first.

Usage: ``python -m pytest -p tests.support.longest_first_plugin --dist loadfile --no-loadscope-reorder``. With
the recorded times (``tests/durations.json``) no worker runs a long file alone at the end. Without the last
option xdist would order the files by their number of tests.

Objects that outlive a file are frozen. Graph captures and Dynamo call ``gc.collect()``, which would traverse
all objects of thousands of collected tests, for seconds each time.

A test that leaves the garbage collector off fails, because each later test of its process would run without
the collector.
"""

from __future__ import annotations

import gc

import pytest

from tests.support import durations

#: Seconds of a file without a record. The value is large, so that a new file does not run last.
UNKNOWN = 20.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files by their recorded seconds. The order within a file is unchanged."""
    seconds = durations.load()
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], UNKNOWN))


def pytest_collection_finish() -> None:
    """Freeze the objects that the collection created."""
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Assert after a test that the garbage collector is on. After the last test of a file, freeze the
    remaining objects.
    """
    if not gc.isenabled():
        gc.enable()
        pytest.fail(f"{item.nodeid} leaves the garbage collector off", pytrace=False)
    if nextitem is not None and nextitem.path != item.path:
        _freeze()


def _freeze() -> None:
    gc.collect()
    gc.freeze()
