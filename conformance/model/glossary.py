"""The terms of the project's glossary with their meanings, generated from ``docs/glossary.md``."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

PATH = Path(__file__).with_suffix(".json")


@functools.cache
def glossary_meanings() -> dict[str, str]:
    """Return the meaning of each term."""
    terms: dict[str, str] = json.loads(PATH.read_text())
    return terms


def glossary_anchor(term: str) -> str:
    """Return the name of a term's anchor in an address: ``matrix-cell`` for ``matrix cell``.

    Raises KeyError for a word that the glossary does not define.
    """
    if term not in glossary_meanings():
        raise KeyError(f"{term!r} is not a term of docs/glossary.md")
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")
