"""Fixtures of the tests of the suite. Runs use the subjects of ``tests/support/misbehaving_subjects.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_process import Run, conformance
from tests.support.nightly import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]


@pytest.fixture()
def cli(tmp_path: Path) -> Callable[..., Run]:
    """Return a function that runs a ``conformance`` command in the test's own folder."""

    def call(*arguments: str, subjects: str = "good", **more: str) -> Run:
        return conformance(tmp_path, *arguments, subjects=subjects, **more)

    return call
