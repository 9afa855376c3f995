"""Whatever a file of expectations holds, it is taken or refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given

from conformance.expectations import aliases, entries
from conformance.target import file as target_file
from tests.support.fuzz import FUZZ, spoiled, taken_or_refused, toml, written

EXPECTATIONS = target_file.tomllib.loads((Path(aliases.FOLDER) / "cpu" / "numerics.toml").read_text())


@FUZZ
@given(spoiled(EXPECTATIONS))
def test_expectations(data: Any) -> None:
    path = written("e.toml", toml(data).encode("utf-8", "replace"))
    taken_or_refused(lambda: entries.load_expectations([path]))
