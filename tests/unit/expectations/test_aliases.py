"""``expectations.aliases`` translates former names of properties and subjects."""

from __future__ import annotations

from conformance.expectations.aliases import Aliases


def test_aliases_follow_renamed_properties_and_subjects() -> None:
    aliases = Aliases({"old": "new"}, {"was": "is"})
    assert aliases.resolve("old/was@float32") == "new/is@float32"
    assert aliases.resolve("value/add@*") == "value/add@*"
