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
    is_only_metadata_specified,
    is_random,
    is_uninitialised,
    may_device_refuse,
    outputs_unspecified,
    outputs_with_unspecified_dtype,
    outputs_with_unspecified_indices,
    outputs_with_unspecified_values,
)

__all__ = [
    "OVERLOAD_RELATIONS",
    "RELATIONS",
    "Equation",
    "Relation",
    "is_only_metadata_specified",
    "is_random",
    "is_uninitialised",
    "may_device_refuse",
    "outputs_unspecified",
    "outputs_with_unspecified_dtype",
    "outputs_with_unspecified_indices",
    "outputs_with_unspecified_values",
]
