"""Every generated expectation file is either accepted or rejected with a one-sentence error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given

from conformance.expectations import aliases, entries
from conformance.target import file as target_file
from tests.support.fuzz import FUZZ, corrupted, is_accepted, temporary_file, toml_text

EXPECTATIONS = target_file.tomllib.loads((Path(aliases.FOLDER) / "cpu" / "numerics.toml").read_text())


@FUZZ
@given(corrupted(EXPECTATIONS))
def test_expectations(data: Any) -> None:
    path = temporary_file("e.toml", toml_text(data).encode("utf-8", "replace"))
    is_accepted(lambda: entries.load_expectations([path]))
