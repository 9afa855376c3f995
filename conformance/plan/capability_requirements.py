"""Find the capabilities that a property requires for a subject, and those which a target does not declare."""

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
def _subject_capabilities() -> dict[tuple[str, str], tuple[str, ...]]:
    data = tomllib.loads((Path(__file__).parent / "levels" / "subject_capabilities.toml").read_text())
    by_subject: dict[tuple[str, str], tuple[str, ...]] = {}
    for kind, table in data.items():
        for capability, names in table.items():
            if capability not in CAPABILITIES:
                raise ValueError(
                    f"levels/subject_capabilities.toml names capability {capability!r}, which does not "
                    "exist; see conformance/model/vocabulary.py"
                )
            for name in names:
                by_subject[(kind, name)] = (*by_subject.get((kind, name), ()), capability)
    return by_subject


def capabilities_of_subject(kind: str, name: str) -> tuple[str, ...]:
    """Return the capabilities that all properties of a subject require, such as ``random`` for ``bernoulli``.

    The table is ``levels/subject_capabilities.toml``.
    """
    return _subject_capabilities().get((kind, name), ())


def required_capabilities(entry: Property, kind: str, subject: str) -> tuple[str, ...]:
    """Return the capabilities that a property of this subject requires."""
    return tuple(dict.fromkeys((*entry.capabilities, *capabilities_of_subject(kind, subject))))


def undeclared_capabilities(target: Target, entry: Property, kind: str, subject: str) -> tuple[str, ...]:
    """Return the required capabilities that the target file declares to be false."""
    return tuple(
        capability
        for capability in required_capabilities(entry, kind, subject)
        if not target.capable(capability)
    )


def result_exists(target: Target, entry: Property, kind: str, subject: str) -> bool:
    """Return True unless an undeclared capability removes the results of this property and subject.

    ``WITHOUT_REFUSAL`` lists the capabilities that remove results. If any other capability is undeclared,
    the results remain, and the target may refuse the calls.
    """
    return not WITHOUT_REFUSAL.intersection(undeclared_capabilities(target, entry, kind, subject))
