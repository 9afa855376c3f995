"""The fewest patterns that match some result ids and no others."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator

from conformance.expectations.index import Index


def minimal(ids: Collection[str], universe: Collection[str]) -> list[str]:
    """Patterns that together match all of ``ids`` and nothing else of ``universe``.

    A wildcard stands for a dtype, for the end of a subject's name after a dot, for a whole subject or for a
    property, and only if it matches at least two results. The rest is named one by one.
    """
    left = set(ids)
    everything = left | set(universe)
    index = Index(everything)
    inside: collections.Counter[str] = collections.Counter()
    there: collections.Counter[str] = collections.Counter()
    for name in everything:
        for pattern in _wider(name):
            there[pattern] += 1
            inside[pattern] += name in left
    candidates = [pattern for pattern, count in inside.items() if 2 <= count == there[pattern]]
    candidates.sort(key=lambda pattern: (-inside[pattern], pattern.count("*"), pattern))
    chosen: list[tuple[str, set[str]]] = []
    for pattern in candidates:
        if len(left) < 2:
            break
        matched = set(index.matching(pattern))
        # A star may reach further than the part of the id that it stands for.
        if len(matched & left) >= 2 and matched <= set(ids):
            chosen.append((pattern, matched))
            left -= matched
    return sorted([pattern for pattern, _ in chosen] + list(left))


def _wider(name: str) -> Iterator[str]:
    """The patterns that a result id may be part of."""
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
