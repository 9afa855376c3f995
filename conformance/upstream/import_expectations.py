"""Propose expectations from an upstream list of failing tests. The reason ``unread`` marks them as
unconfirmed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from conformance.expectations.entries import NEVER, UNREAD, Expectation
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model.id_patterns import matches
from conformance.model.verdicts import Kind
from conformance.upstream.exported_deviations import one_line
from conformance.upstream.matching_tests import covering_properties
from conformance.upstream.upstream_list import ListedTest, Listing

#: The failure kind of a property if the list contains none. The default is ``value``.
_KIND_OF_PROPERTY = {"error-type": Kind.ERROR_TYPE, "error-message": Kind.MESSAGE, "dtypes": Kind.DTYPE}
_KINDS = {kind.value: kind for kind in Kind if kind not in NEVER}

Key: TypeAlias = tuple[str, Kind]


@dataclasses.dataclass(frozen=True)
class ImportedExpectations:
    """The new entries, the number of already expected failures, and a problem for each unusable line."""

    entries: tuple[Expectation, ...]
    already_expected: int
    problems: tuple[str, ...]


def propose_expectations(
    listing: Listing, name: str, ids: frozenset[str], existing: Sequence[Expectation], until: str
) -> ImportedExpectations:
    """Return the proposed expectations for a list.

    Args:
        listing: the parsed list.
        name: the name of its file.
        ids: all result ids of the target.
        existing: the expectations of the target.
        until: the expiry of the new entries.
    """
    index = ResultIdIndex(ids)
    proposed: dict[Key, Expectation] = {}
    problems = list(listing.problems)
    already: set[Key] = set()
    for listed_test in listing.entries:
        results, absent = _result_ids_of_test(listed_test, index)
        problems += [f"{name}:{listed_test.line}: {_no_result_text(listed_test, dtype)}" for dtype in absent]
        for result in results:
            for kind, guessed in _kinds_of_result(listed_test, result, listing):
                key = (result, kind)
                if any(entry.kind is kind and matches(entry.id, result) for entry in existing):
                    already.add(key)
                    continue
                proposed.setdefault(key, _proposed_entry(listed_test, key, name, until, guessed))
    return ImportedExpectations(tuple(proposed.values()), len(already), tuple(problems))


def _result_ids_of_test(listed_test: ListedTest, index: ResultIdIndex) -> tuple[list[str], list[str]]:
    """Return the result ids of a test, and the dtypes of the test that have no result.

    A test without dtypes is converted to a pattern with a wildcard dtype.
    """
    results: list[str] = []
    absent: list[str] = []
    for dtype in listed_test.dtypes or ("*",):
        ids = [f"{name}/{listed_test.subject}@{dtype}" for name in covering_properties()[listed_test.test]]
        ids = [result_id for each in ids for result_id in _existing_id_or_pattern(each, index)]
        results += ids
        if not ids:
            absent.append(dtype)
    return results, absent


def _existing_id_or_pattern(pattern: str, index: ResultIdIndex) -> list[str]:
    matched = index.ids_matching(pattern)
    return sorted(matched) if len(matched) == 1 else [pattern] if matched else []


def _no_result_text(listed_test: ListedTest, dtype: str) -> str:
    of = "" if dtype == "*" else f" in {dtype}"
    test_name = f"{listed_test.test.owner}.{listed_test.test.name} of {listed_test.subject}{of}"
    return f"{one_line(test_name)} matches no result of the target"


def _kinds_of_result(listed_test: ListedTest, result: str, listing: Listing) -> list[tuple[Kind, bool]]:
    """Return the failure kinds of a result. The second item is True if the kind is a guess."""
    stated_kinds = [_KINDS[kind] for kind in listing.kinds.get(result, ()) if kind in _KINDS]
    if stated_kinds:
        return [(kind, False) for kind in stated_kinds]
    first = [kind_name.strip() for kind_name in listed_test.reason.partition(":")[0].split(",")]
    stated_kinds = [_KINDS[kind_name] for kind_name in first if kind_name in _KINDS]
    if stated_kinds:
        return [(kind, False) for kind in stated_kinds]
    return [(_KIND_OF_PROPERTY.get(result.partition("/")[0], Kind.VALUE), True)]


def _proposed_entry(listed_test: ListedTest, key: Key, name: str, until: str, guessed: bool) -> Expectation:
    result, kind = key
    detail = (
        f"imported from {name} ({listed_test.test.owner}.{listed_test.test.name}): to be confirmed by a run"
    )
    if guessed:
        detail += "; the kind is a guess"
    return Expectation(
        id=result, kind=kind, reason=UNREAD, link="", until=until, source=name, detail=one_line(detail)
    )
