"""Proposed expectations from upstream's lists: unread entries, to be confirmed by a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from conformance.expectations.entries import NEVER, UNREAD, Expectation
from conformance.expectations.index import Index
from conformance.model.id_patterns import matches
from conformance.model.verdicts import Kind
from conformance.upstream.exported_deviations import brief
from conformance.upstream.matching_tests import methods
from conformance.upstream.upstream_list import ListedTest, Listing

#: Kinds that a property's failures have, if a list does not say it; a value else.
_USUAL = {"error-type": Kind.ERROR_TYPE, "error-message": Kind.MESSAGE, "dtypes": Kind.DTYPE}
_KINDS = {kind.value: kind for kind in Kind if kind not in NEVER}

Key: TypeAlias = tuple[str, Kind]


@dataclasses.dataclass(frozen=True)
class Proposals:
    """The new entries; the number of those that are expected already; problems by line."""

    entries: tuple[Expectation, ...]
    known: int
    problems: tuple[str, ...]


def propose(
    listing: Listing, name: str, ids: frozenset[str], existing: Sequence[Expectation], until: str
) -> Proposals:
    """The entries that a list amounts to.

    Args:
        listing: what was read from the list.
        name: of its file.
        ids: the results that the suite has for the target.
        existing: the expectations of the target.
        until: expiry of the new ones.
    """
    index = Index(ids)
    found: dict[Key, Expectation] = {}
    problems = list(listing.problems)
    already: set[Key] = set()
    for listed in listing.entries:
        results, absent = _results(listed, index)
        problems += [f"{name}:{listed.line}: {_said(listed, word)}" for word in absent]
        for result in results:
            for kind, guessed in _kinds(listed, result, listing):
                key = (result, kind)
                if any(entry.kind is kind and matches(entry.id, result) for entry in existing):
                    already.add(key)
                    continue
                found.setdefault(key, _entry(listed, key, name, until, guessed))
    return Proposals(tuple(found.values()), len(already), tuple(problems))


def _results(listed: ListedTest, index: Index) -> tuple[list[str], list[str]]:
    """The ids of results, with a wildcard if the list names no dtype, and the dtypes without a result."""
    results: list[str] = []
    absent: list[str] = []
    for dtype in listed.dtypes or ("*",):
        ids = [f"{name}/{listed.subject}@{dtype}" for name in methods()[listed.test]]
        ids = [found for each in ids for found in _existing(each, index)]
        results += ids
        if not ids:
            absent.append(dtype)
    return results, absent


def _existing(pattern: str, index: Index) -> list[str]:
    matched = index.matching(pattern)
    return sorted(matched) if len(matched) == 1 else [pattern] if matched else []


def _said(listed: ListedTest, dtype: str) -> str:
    of = "" if dtype == "*" else f" in {dtype}"
    words = f"{listed.test.owner}.{listed.test.name} of {listed.subject}{of}"
    return f"{brief(words)} matches no result of the target"


def _kinds(listed: ListedTest, result: str, listing: Listing) -> list[tuple[Kind, bool]]:
    """The kinds of failure of a result, each with whether it is a guess."""
    said = [_KINDS[kind] for kind in listing.kinds.get(result, ()) if kind in _KINDS]
    if said:
        return [(kind, False) for kind in said]
    first = [word.strip() for word in listed.reason.partition(":")[0].split(",")]
    said = [_KINDS[word] for word in first if word in _KINDS]
    if said:
        return [(kind, False) for kind in said]
    return [(_USUAL.get(result.partition("/")[0], Kind.VALUE), True)]


def _entry(listed: ListedTest, key: Key, name: str, until: str, guessed: bool) -> Expectation:
    result, kind = key
    detail = f"imported from {name} ({listed.test.owner}.{listed.test.name}): to be confirmed by a run"
    if guessed:
        detail += "; the kind is a guess"
    return Expectation(
        id=result, kind=kind, reason=UNREAD, link="", until=until, source=name, detail=brief(detail)
    )
