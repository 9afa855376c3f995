"""Promises for results that the documentation leaves free.

Singular vectors have a free sign, equal keys a free order, ``empty`` free values, ``randn`` all of them. For
such operators a *promise* turns the result into claims that must hold instead: that a factorisation
multiplies back, that indices point at the values that came with them, that nothing but metadata is fixed.
"""

from __future__ import annotations

from conformance.oracle.relations.registry import promise_of
from conformance.oracle.relations.relation import Claim, Promise
from conformance.oracle.relations.unspecified import (
    free_of_values,
    free_parts,
    is_random,
    is_uninitialised,
    may_be_refused,
    statistics,
)

__all__ = [
    "Claim",
    "Promise",
    "free_of_values",
    "free_parts",
    "is_random",
    "is_uninitialised",
    "may_be_refused",
    "promise_of",
    "statistics",
]
