"""Expectations: declared deviations of a target, and what keeps them true."""

from __future__ import annotations

from conformance.expectations.aliases import FOLDER, Aliases
from conformance.expectations.entries import (
    NEVER,
    REASONS,
    UNREAD,
    Book,
    Expectation,
    is_expiry,
    load,
    sources,
)
from conformance.expectations.index import Index

__all__ = [
    "FOLDER",
    "NEVER",
    "REASONS",
    "UNREAD",
    "Aliases",
    "Book",
    "Expectation",
    "Index",
    "is_expiry",
    "load",
    "sources",
    "unmatched",
]


def unmatched(entries: list[Expectation], ids: list[str]) -> list[Expectation]:
    """The entries that match none of the ids."""
    index = Index(ids)
    return [entry for entry in entries if not index.matching(entry.id)]
