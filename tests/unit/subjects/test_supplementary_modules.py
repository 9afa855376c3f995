"""The suite's own entries beside torch's database of modules."""

from __future__ import annotations

from conformance.subjects import supplementary_modules
from conformance.subjects.torch_databases import subjects


def test_extra_entries_give_way_to_those_of_torch() -> None:
    assert [one.name for one in supplementary_modules.entries(["nn.Dropout"])].count("nn.Dropout") == 0
    names = [one.name for one in subjects("module")]
    assert len(names) == len(set(names))
