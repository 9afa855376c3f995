"""Find a short list of patterns that match given result ids and no other ids."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator

from conformance.expectations.result_id_index import ResultIdIndex


def minimal_patterns(ids: Collection[str], universe: Collection[str]) -> list[str]:
    """Return patterns that together match all of ``ids`` and no other id in ``universe``.

    A wildcard replaces a dtype, the end of a subject's name after a dot, a whole subject or a property. A
    pattern with a wildcard must match at least two of ``ids``. The remaining ids are listed one by one.
    """
    remaining = set(ids)
    everything = remaining | set(universe)
    index = ResultIdIndex(everything)
    inside: collections.Counter[str] = collections.Counter()
    totals: collections.Counter[str] = collections.Counter()
    for name in everything:
        for pattern in _wider_patterns(name):
            totals[pattern] += 1
            inside[pattern] += name in remaining
    candidates = [pattern for pattern, count in inside.items() if 2 <= count == totals[pattern]]
    candidates.sort(key=lambda pattern: (-inside[pattern], pattern.count("*"), pattern))
    chosen: list[tuple[str, set[str]]] = []
    for pattern in candidates:
        if len(remaining) < 2:
            break
        matched = set(index.ids_matching(pattern))
        # A star may match more than the part of the id that it replaces.
        if len(matched & remaining) >= 2 and matched <= set(ids):
            chosen.append((pattern, matched))
            remaining -= matched
    return sorted([pattern for pattern, _ in chosen] + list(remaining))


def _wider_patterns(name: str) -> Iterator[str]:
    """Yield the patterns with wildcards that match a result id."""
    head, _, rest = name.partition("/")
    subject, _, dtype = rest.rpartition("@")
    subjects = [subject, "*"]
    if "." in subject:
        subjects.append(f"{subject.rpartition('.')[0]}.*")
    for name_part in (head, "*"):
        for subject_part in subjects:
            for dtype_part in (dtype, "*"):
                if "*" in (name_part, dtype_part) or subject_part != subject:
                    yield f"{name_part}/{subject_part}@{dtype_part}"
