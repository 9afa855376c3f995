"""The fixture ``browser``: a headless Chromium, started once for each test file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a headless Chromium."""
    chromium.require_chromium()
    driver = chromium.start_chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
