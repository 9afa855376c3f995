"""Errors of torch's own composite kernels, which a device that has no kernel of its own runs.

The CPU has kernels of its own for these operators, so that its results do not show the fault.
"""

from __future__ import annotations

from conformance import torch_testing_internals
from conformance.properties.operators._kernel_origin import composite_key
from conformance.target.target import Target

#: By operator: the overload whose composite kernel fails, a part of its message, and the page about it.
_FAULTS = {
    "native_group_norm": (
        "aten::native_group_norm",
        "view size is not compatible",
        "docs/torch-bugs.md#native_group_norm",
    )
}


def page_of(target: Target, operator: str, error: Exception) -> str:
    """Return the page about a fault of torch's if the error of a call on the target is one, else ""."""
    if operator not in _FAULTS or not isinstance(error, RuntimeError):
        return ""
    overload, words, page = _FAULTS[operator]
    own = composite_key(overload, torch_testing_internals.dispatch_key(target.device)) is None
    return "" if own or words not in str(error) else page
