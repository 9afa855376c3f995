"""A pytest plugin that starts the longest test files first, for runs of all tests.

Usage: ``python -m pytest -p tests.support.longest_first_plugin --dist loadfile --no-loadscope-reorder``. The
order comes from the recorded times in ``tests/durations.json``, so that no worker runs a long file alone at
the end. Without ``--no-loadscope-reorder`` xdist would order the files by their number of tests.

After each file the plugin calls ``gc.freeze()``. Graph captures and Dynamo call ``gc.collect()``, which would
otherwise traverse all objects of thousands of collected tests, for seconds each time.

A test fails if it leaves Python's garbage collector off, because all later tests of the process would run
without the collector.
"""

from __future__ import annotations

import gc

import pytest

from tests.support import durations

#: Assumed seconds of a file that has no recorded time. The value is large, so that a new file does not run
#: last.
UNKNOWN = 20.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the test files by their recorded seconds, longest first. Keep the order of tests
    within a file.
    """
    seconds = durations.recorded_durations()
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], UNKNOWN))


def pytest_collection_finish() -> None:
    """Make garbage collection skip all objects that exist after the collection of tests."""
    _collect_and_freeze_garbage()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Fail the test if it left the garbage collector off. After the last test of a file, make
    garbage collection skip the remaining objects.
    """
    if not gc.isenabled():
        gc.enable()
        pytest.fail(f"{item.nodeid} leaves the garbage collector off", pytrace=False)
    if nextitem is not None and nextitem.path != item.path:
        _collect_and_freeze_garbage()


def _collect_and_freeze_garbage() -> None:
    gc.collect()
    gc.freeze()
