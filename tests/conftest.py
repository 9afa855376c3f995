"""Tests of the suite itself. What runs cases does it with the subjects of ``sham.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_process import Run, conformance
from tests.support.nightly import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]


@pytest.fixture()
def cli(tmp_path: Path) -> Callable[..., Run]:
    """The command line in a folder of its own."""

    def call(*arguments: str, sham: str = "good", **more: str) -> Run:
        return conformance(tmp_path, *arguments, sham=sham, **more)

    return call
