"""Injected faults of overloads: wrong kernels for every property of overloads.

A fault replaces some call forms of an overload by Python functions that are wrong in one way. The reference
comes from torch's own overload.
"""

from tests.injected_faults.overloads.faults import (
    errors,
    forms,
    indices,
    layouts,
    magnitudes,
    numbers,
    options,
    random,
    repeats,
    shapes,
    values,
)
from tests.injected_faults.overloads.faults.fault_registry import FAULTS, Fault, subject_with_fault

__all__ = [
    "FAULTS",
    "Fault",
    "errors",
    "forms",
    "indices",
    "layouts",
    "magnitudes",
    "numbers",
    "options",
    "random",
    "repeats",
    "shapes",
    "subject_with_fault",
    "values",
]
