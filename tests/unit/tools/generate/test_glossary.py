"""The glossary's data contains every row of the page docs/glossary.md. Reports link only words that are
terms.
"""

from __future__ import annotations

import re

import pytest

from conformance.model import glossary
from tests.support import ROOT
from tools.generate.glossary import terms_of_page


def test_rows_of_all_tables_are_terms() -> None:
    page = (
        "| term | meaning | defined in |\n|---|---|---|\n| a `b` | is `c` | `d.py` |\n\ntext\n| x | y | z |\n"
    )
    assert terms_of_page(page) == {"a b": "is c", "x": "y"}
    with pytest.raises(ValueError, match="two rows for 'x'"):
        terms_of_page(page + "| x | again | z |\n")


def test_the_committed_terms_are_those_of_the_page() -> None:
    assert glossary.glossary_meanings() == terms_of_page((ROOT / "docs" / "glossary.md").read_text())
    anchors = [glossary.glossary_anchor(term) for term in glossary.glossary_meanings()]
    assert len(set(anchors)) == len(anchors)


def test_every_linked_word_is_a_term() -> None:
    report = ROOT / "conformance" / "report"
    linked_terms = [
        term
        for script in report.glob("*.js")
        for term in re.findall(r"\bterm\(\"([^\"]+)\"", script.read_text())
    ]
    assert {"cause", "leg", "requirement"} <= set(linked_terms) <= set(glossary.glossary_meanings())
    with pytest.raises(KeyError, match="is not a term"):
        glossary.glossary_anchor("thing")
