"""A pytest plugin for runs of all tests: ``python -m pytest -p tests.support.longest_first_plugin --dist loadfile``.

The files that take longest start first (``tests/durations.json``), so that no worker is left alone with a
long one at the end; add ``--no-loadscope-reorder``, without which xdist orders by the number of tests.

Objects that outlive a file are frozen: captures of graphs and Dynamo call ``gc.collect()``, which would walk
over everything that thousands of collected tests hold, seconds each time.

A test that leaves the collector off fails, since each later test of its process would run without it.
"""

from __future__ import annotations

import gc

import pytest

from tests.support import durations

#: Seconds of a file without a record: among the long ones, so that a new file cannot be the last.
UNKNOWN = 20.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by their recorded seconds, the tests of a file as they are."""
    seconds = durations.load()
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], UNKNOWN))


def pytest_collection_finish() -> None:
    """Freeze what collection has made."""
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After a test, see that the collector is on; after the last of a file, freeze what it has left."""
    if not gc.isenabled():
        gc.enable()
        pytest.fail(f"{item.nodeid} leaves the garbage collector off", pytrace=False)
    if nextitem is not None and nextitem.path != item.path:
        _freeze()


def _freeze() -> None:
    gc.collect()
    gc.freeze()
