"""The capabilities that a property of a subject needs, and those of them that a target lacks."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.model.vocabulary import CAPABILITIES, WITHOUT_REFUSAL

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from conformance.framework.property import Property
    from conformance.target.target import Target


@functools.cache
def _of_subjects() -> dict[tuple[str, str], tuple[str, ...]]:
    data = tomllib.loads((Path(__file__).parent / "levels" / "subject_capabilities.toml").read_text())
    by_subject: dict[tuple[str, str], tuple[str, ...]] = {}
    for kind, table in data.items():
        for word, names in table.items():
            if word not in CAPABILITIES:
                raise ValueError(
                    f"levels/needs.toml names capability {word!r}; see conformance/model/vocabulary.py"
                )
            for name in names:
                by_subject[(kind, name)] = (*by_subject.get((kind, name), ()), word)
    return by_subject


def of_subject(kind: str, name: str) -> tuple[str, ...]:
    """Needs of every property of a subject, from ``levels/needs.toml``: ``bernoulli`` needs ``random``."""
    return _of_subjects().get((kind, name), ())


def needed(entry: Property, kind: str, subject: str) -> tuple[str, ...]:
    """The words that a target must declare to be held to a property of a subject."""
    return tuple(dict.fromkeys((*entry.capabilities, *of_subject(kind, subject))))


def lacking(target: Target, entry: Property, kind: str, subject: str) -> tuple[str, ...]:
    """Those of them that the target file declares to be false."""
    return tuple(word for word in needed(entry, kind, subject) if not target.capable(word))


def exists(target: Target, entry: Property, kind: str, subject: str) -> bool:
    """Return True if the result exists despite what the target lacks."""
    return not WITHOUT_REFUSAL.intersection(lacking(target, entry, kind, subject))
