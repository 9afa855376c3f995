"""The reader of expectation files accepts each generated file or rejects it with a short UsageError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given

from conformance.expectations import aliases, entries
from conformance.target import file as target_file
from tests.support.fuzz import FUZZ, corrupted_documents, is_accepted, temporary_file, toml_text

EXPECTATIONS = target_file.tomllib.loads((Path(aliases.FOLDER) / "cpu" / "numerics.toml").read_text())


@FUZZ
@given(corrupted_documents(EXPECTATIONS))
def test_generated_expectation_files_are_accepted_or_rejected(data: Any) -> None:
    path = temporary_file("e.toml", toml_text(data).encode("utf-8", "replace"))
    is_accepted(lambda: entries.load_expectations([path]))
