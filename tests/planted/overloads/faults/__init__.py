"""Wrong kernels, planted on purpose: faults for every property of overloads.

A fault replaces some forms of an overload by Python functions that are wrong in one way; the CPU's answers
come from torch's own overload.
"""

from tests.planted.overloads.faults import (
    errors,
    forms,
    indices,
    layouts,
    options,
    random,
    repeats,
    shapes,
    values,
)
from tests.planted.overloads.faults.planting import FAULTS, Fault, broken

__all__ = [
    "FAULTS",
    "Fault",
    "broken",
    "errors",
    "forms",
    "indices",
    "layouts",
    "options",
    "random",
    "repeats",
    "shapes",
    "values",
]
