"""Convert ``docs/glossary.md`` to a JSON file of terms in the wheel, for reports and for the site."""

from __future__ import annotations

import json
import re


def terms_of_page(text: str) -> dict[str, str]:
    """Return term -> meaning for all rows of the page's tables, in the order of the page.

    Raises ValueError if two rows have the same term.
    """
    terms: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"\| *([^|]+?) *\| *([^|]+?) *\|", line)
        if match is None or match[1] == "term" or set(match[1]) <= {"-"}:
            continue
        term, meaning = (cell.replace("`", "") for cell in match.groups())
        if term in terms:
            raise ValueError(f"docs/glossary.md has two rows for {term!r}; keep one")
        terms[term] = meaning
    return terms


def glossary_text(page: str) -> str:
    """Return the text of the JSON file that is generated from the text of the glossary page."""
    return json.dumps(terms_of_page(page), indent=1, ensure_ascii=False) + "\n"
