"""Look up the subject kind and the requirement of a property in the committed manifest.

A results document identifies a result by property, subject and dtype only. The manifest has no properties of
extra modules: their kind is ``other``, and they have no requirement.
"""

from __future__ import annotations

import functools

from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import ManifestProperty

OTHER = "other"


@functools.cache
def _manifest_records_by_name() -> dict[str, list[ManifestProperty]]:
    by_name: dict[str, list[ManifestProperty]] = {}
    for statement in manifest.load().statements:
        by_name.setdefault(statement.name, []).append(statement)
    return by_name


@functools.cache
def _subjects_of_manifest_property(statement: ManifestProperty) -> frozenset[str]:
    return frozenset(subject for group in statement.groups for subject in group.subjects)


def manifest_property_of(name: str, subject: str) -> ManifestProperty | None:
    """Return the manifest's record of a property, or None if the manifest has no property of this name."""
    statements = _manifest_records_by_name().get(name, [])
    if len(statements) > 1:  # a few property names exist for two subject kinds each
        return next(
            (statement for statement in statements if subject in _subjects_of_manifest_property(statement)),
            None,
        )
    return statements[0] if statements else None


def subject_kind_of(name: str, subject: str) -> str:
    """Return the subject kind of a property: one of ``vocabulary.KINDS``, or ``other``."""
    statement = manifest_property_of(name, subject)
    return OTHER if statement is None else statement.kind
