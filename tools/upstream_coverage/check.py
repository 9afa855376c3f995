"""Checks and figures of the coverage map: properties that it names, and shares of covered test methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conformance.upstream.coverage_map import Method


@dataclasses.dataclass(frozen=True)
class Figures:
    """Counts of methods."""

    total: int
    covered: int
    exempt: int

    @property
    def share(self) -> float:
        """The covered share of the methods that no reason exempts."""
        due = self.total - self.exempt
        return self.covered / due if due else 1.0


def unknown_properties(mapped: Sequence[Method]) -> list[str]:
    """List the names in maps that the suite does not have: properties, and subjects without a case."""
    from conformance.model.vocabulary import KINDS
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    names: dict[str, set[str]] = {}
    for kind in KINDS:
        subjects = {subject.name for subject in catalogue.subjects(kind)}
        for entry in properties(kind):
            names.setdefault(entry.name, set()).update(subjects)
    unknown = []
    for method in mapped:
        for word in method.covered_by:
            name, _, subject = word.partition("/")
            if name not in names or (subject and subject not in names[name]):
                unknown.append(f"{method.file} {method.owner}.{method.name}: {word}")
    return unknown + _wrong_areas(mapped)


def _wrong_areas(mapped: Sequence[Method]) -> list[str]:
    from conformance.behaviours.behaviour import BEHAVIOURS

    wrong = []
    for method in mapped:
        for word in method.covered_by:
            name, _, subject = word.partition("/")
            entry = BEHAVIOURS.get(name)
            if entry is not None and subject != entry.area:
                wrong.append(f"{method.file} {method.owner}.{method.name}: {word} is {name}/{entry.area}")
    return wrong


def figures(mapped: Sequence[Method]) -> Figures:
    """Count methods by their entries."""
    return Figures(
        total=len(mapped),
        covered=sum(bool(method.covered_by) for method in mapped),
        exempt=sum(method.reason is not None for method in mapped),
    )
