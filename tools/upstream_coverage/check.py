"""Check the names in the coverage map, and count covered test methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from conformance.upstream.coverage_map import UpstreamTestMethod


@dataclasses.dataclass(frozen=True)
class MethodCounts:
    """Counts of upstream test methods."""

    total: int
    covered: int
    exempt: int

    @property
    def share(self) -> float:
        """The share of covered methods among the methods that are not exempt."""
        required = self.total - self.exempt
        return self.covered / required if required else 1.0


def unknown_properties(mapped: Sequence[UpstreamTestMethod]) -> list[str]:
    """Return the names in the maps that the suite does not have: properties, and subjects without a case."""
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
        for reference in method.covered_by:
            name, _, subject = reference.partition("/")
            if name not in names or (subject and subject not in names[name]):
                unknown.append(f"{method.file} {method.owner}.{method.name}: {reference}")
    return unknown + _references_with_wrong_area(mapped)


def _references_with_wrong_area(mapped: Sequence[UpstreamTestMethod]) -> list[str]:
    from conformance.behaviours.behaviour import BEHAVIOURS

    wrong = []
    for method in mapped:
        for reference in method.covered_by:
            name, _, subject = reference.partition("/")
            entry = BEHAVIOURS.get(name)
            if entry is not None and subject != entry.area:
                wrong.append(
                    f"{method.file} {method.owner}.{method.name}: {reference} is {name}/{entry.area}"
                )
    return wrong


def count_methods(mapped: Sequence[UpstreamTestMethod]) -> MethodCounts:
    """Return the numbers of all methods, of covered methods, and of methods that are exempt for a reason."""
    return MethodCounts(
        total=len(mapped),
        covered=sum(bool(method.covered_by) for method in mapped),
        exempt=sum(method.reason is not None for method in mapped),
    )
