"""Relations that replace the comparison of values when several results are correct.

The sign of singular vectors, the order of equal keys and the values of ``empty`` and ``randn`` are
unspecified. A *relation* turns the result of such an operator into equations that every correct result
fulfils. Examples: a product of factors equals the input; indices point at the values that were returned with
them.
"""

from __future__ import annotations

from conformance.oracle.relations.registry import OVERLOAD_RELATIONS, RELATIONS
from conformance.oracle.relations.relation import Equation, Relation
from conformance.oracle.relations.unspecified import (
    has_unspecified_values,
    is_random,
    is_refusable,
    is_uninitialised,
    saved_statistics,
    unspecified_indices,
    unspecified_outputs,
    unspecified_values,
)

__all__ = [
    "OVERLOAD_RELATIONS",
    "RELATIONS",
    "Equation",
    "Relation",
    "has_unspecified_values",
    "is_random",
    "is_refusable",
    "is_uninitialised",
    "saved_statistics",
    "unspecified_indices",
    "unspecified_outputs",
    "unspecified_values",
]
