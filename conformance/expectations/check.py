"""Problems of a target's entries, each sentence with its remedy."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from conformance.expectations import entry_states
from conformance.expectations.entries import Book, Expectation
from conformance.expectations.index import Index
from conformance.model.records import Leg


def static(
    book: Book, plans: Mapping[str, frozenset[str]], today: datetime.date, versions: Sequence[str]
) -> list[str]:
    """Problems that need no run: unknown names and modes, duplicates, expired entries."""
    indices = {mode: Index(ids) for mode, ids in plans.items()}
    everything = Index(name for ids in plans.values() for name in ids)
    here = [entry for entry in book.entries if any(_on(entry, version) for version in versions)]
    problems = [text for entry in here for text in _names(entry, indices, everything)]
    problems += [text for version in versions for text in _expired(book, today, version)]
    return [*problems, *_twice(book.entries)]


def _on(entry: Expectation, version: str) -> bool:
    return any(entry.speaks_of(mode, version) for mode in (entry.modes or ("eager",)))


def _names(entry: Expectation, indices: Mapping[str, Index], everything: Index) -> Iterator[str]:
    if not everything.matching(entry.id):
        near = everything.nearest(entry.id)
        hint = f"rename it to {' or '.join(near)}, or remove it" if near else "remove it"
        yield f"expectation {entry} names no result of this target; {hint}"
        return
    for mode in entry.modes:
        if mode not in indices:
            known = ", ".join(indices)
            yield f"expectation {entry} names mode {mode!r}, which the target lacks; drop it or use {known}"
        elif not indices[mode].matching(entry.id):
            yield f"expectation {entry} matches no result in mode {mode!r}; take the word from its modes"


def _expired(book: Book, today: datetime.date, version: str) -> Iterator[str]:
    for entry in book.entries:
        if _on(entry, version) and entry.expired(today, version):
            yield (
                f"expectation {entry} expired on {entry.until}; look at {entry.link} and give it a later "
                "day, or remove it"
            )


def _twice(entries: Sequence[Expectation]) -> Iterator[str]:
    """Entries that say the same of the same modes and versions."""
    seen: dict[tuple[str, str], list[Expectation]] = {}
    for entry in entries:
        alike = seen.setdefault((entry.id, entry.kind.value), [])
        for earlier in alike:
            modes = not entry.modes or not earlier.modes or set(entry.modes) & set(earlier.modes)
            if modes and (entry.torch == earlier.torch or not entry.torch or not earlier.torch):
                yield f"expectation {entry} also stands in {earlier.source}; remove one of them"
        alike.append(entry)


def against(book: Book, leg: Leg, today: datetime.date) -> list[str]:
    """Entries that a whole leg shows to be stale or over-broad; part of a leg shows nothing."""
    if not entry_states.decides(leg):
        return []
    rows = {row["id"]: row for row in leg["results"]}
    current = [
        record
        for record in entry_states.records(rows, book, leg["mode"], leg["torch"], today)
        if not record["expired"]
    ]
    return entry_states.problems(current, leg["mode"])
