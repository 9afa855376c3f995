"""Hold out half of the mutation operators and half of the parameters, by a hash of their names.

The score page counts held-out mutants apart, and does not list their survivors. An author of the suite
should not read these survivors before a change: the difference between both halves then shows whether the
suite was fitted to the mutants.
"""

from __future__ import annotations

import hashlib

from tools.mutation import parameters
from tools.mutation.mutant import Mutant


def is_operator_held_out(operator: str) -> bool:
    """Return whether a mutation operator is held out."""
    return _is_in_second_half(f"operator {operator}")


def has_parameter(mutant: Mutant) -> bool:
    """Return whether the mutant has a drawn parameter."""
    return mutant.operator in parameters.RANGES


def has_held_out_parameter(mutant: Mutant) -> bool:
    """Return whether the mutant has a drawn parameter that is held out."""
    return has_parameter(mutant) and _is_in_second_half(f"parameter {mutant.operator} {mutant.value}")


def is_held_out(mutant: Mutant) -> bool:
    """Return whether the mutant's operator or parameter is held out."""
    return is_operator_held_out(mutant.operator) or has_held_out_parameter(mutant)


def _is_in_second_half(name: str) -> bool:
    return hashlib.sha256(f"hold-out {name}".encode()).digest()[0] >= 128
