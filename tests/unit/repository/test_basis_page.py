"""The counts in docs/basis.md equal the numbers of properties in the code."""

from __future__ import annotations

import collections
import re
from pathlib import Path

from conformance.model.verdicts import Basis
from conformance.model.vocabulary import KINDS
from conformance.properties.registry import properties

PAGE = Path(__file__).parents[3] / "docs" / "basis.md"


def test_the_page_counts_the_properties_by_basis() -> None:
    counts = {kind: collections.Counter(entry.basis for entry in properties(kind)) for kind in KINDS}
    counts["all"] = sum(counts.values(), collections.Counter())
    expected = {kind: [number[basis] for basis in Basis] for kind, number in counts.items()}
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.M)
    assert {kind: list(map(int, numbers)) for kind, *numbers in rows} == expected
