"""The suite adds module entries to torch's database, except those that the database already has."""

from __future__ import annotations

from conformance.subjects import supplementary_modules
from conformance.subjects.torch_databases import subjects


def test_an_entry_that_torch_has_is_not_added() -> None:
    assert [
        module_subject.name for module_subject in supplementary_modules.supplementary_entries(["nn.Dropout"])
    ].count("nn.Dropout") == 0
    names = [module_subject.name for module_subject in subjects("module")]
    assert len(names) == len(set(names))
