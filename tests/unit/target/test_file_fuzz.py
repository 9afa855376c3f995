"""The reader of target files accepts each generated file or rejects it with a short UsageError."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conformance.target import file as target_file
from tests.support.fuzz import FUZZ, corrupted_documents, is_accepted, temporary_file, toml_text

TARGET = target_file.tomllib.loads(target_file.find_target_file("hpu-reference").read_text())


@FUZZ
@given(corrupted_documents(TARGET))
def test_generated_target_files_are_accepted_or_rejected(data: Any) -> None:
    path = temporary_file("t.toml", toml_text(data).encode("utf-8", "replace"))
    is_accepted(lambda: target_file.load(str(path)))


@FUZZ
@given(st.binary(max_size=300))
def test_random_bytes_are_rejected_cleanly(data: bytes) -> None:
    path = temporary_file("t.toml", data)
    is_accepted(lambda: target_file.load(str(path)))
