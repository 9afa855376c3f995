"""Properties as the committed manifest knows them: the kind of their subjects, and what they promise.

Documents name a result by property, subject and dtype only. Properties of extra modules are not in the
manifest; their kind is ``other`` and their promise empty.
"""

from __future__ import annotations

import functools

from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import ManifestProperty

OTHER = "other"


@functools.cache
def _by_name() -> dict[str, list[ManifestProperty]]:
    by_name: dict[str, list[ManifestProperty]] = {}
    for statement in manifest.load().statements:
        by_name.setdefault(statement.name, []).append(statement)
    return by_name


@functools.cache
def _subjects(statement: ManifestProperty) -> frozenset[str]:
    return frozenset(subject for group in statement.groups for subject in group.subjects)


def statement_of(name: str, subject: str) -> ManifestProperty | None:
    """The statement of a property of a subject; None if the manifest has none of that name."""
    statements = _by_name().get(name, [])
    if len(statements) > 1:  # three names stand for a property of two kinds
        return next((statement for statement in statements if subject in _subjects(statement)), None)
    return statements[0] if statements else None


def subject_kind_of(name: str, subject: str) -> str:
    """The kind of a property's subject, one of :data:`conformance.model.vocabulary.KINDS`, or ``other``."""
    statement = statement_of(name, subject)
    return OTHER if statement is None else statement.kind
