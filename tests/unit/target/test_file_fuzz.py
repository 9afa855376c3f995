"""Whatever a target file holds, it is taken or refused in one sentence."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conformance.target import file as target_file
from tests.support.fuzz import FUZZ, spoiled, taken_or_refused, toml, written

TARGET = target_file.tomllib.loads(target_file.find_target_file("hpu-reference").read_text())


@FUZZ
@given(spoiled(TARGET))
def test_target_files(data: Any) -> None:
    path = written("t.toml", toml(data).encode("utf-8", "replace"))
    taken_or_refused(lambda: target_file.load(str(path)))


@FUZZ
@given(st.binary(max_size=300))
def test_target_files_of_any_bytes(data: bytes) -> None:
    path = written("t.toml", data)
    taken_or_refused(lambda: target_file.load(str(path)))
