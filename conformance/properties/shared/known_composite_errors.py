"""Known errors of torch's own composite kernels, which a device runs if it has no kernel of its own.

The CPU has its own kernels for these operators, so its results do not show the bug.
"""

from __future__ import annotations

from conformance import torch_testing_internals
from conformance.properties.shared.kernel_origin import composite_key
from conformance.target.target import Target

#: Maps an operator to the overload whose composite kernel fails, a part of the error message, and the page
#: about the bug.
_FAULTS = {
    "native_group_norm": (
        "aten::native_group_norm",
        "view size is not compatible",
        "docs/torch-bugs.md#native_group_norm",
    )
}


def page_about_error(target: Target, operator: str, error: Exception) -> str:
    """Return the page about the known bug of torch that caused the error of a call on the target, else ""."""
    if operator not in _FAULTS or not isinstance(error, RuntimeError):
        return ""
    overload, message_part, page = _FAULTS[operator]
    has_own_kernel = composite_key(overload, torch_testing_internals.dispatch_key(target.device)) is None
    return "" if has_own_kernel or message_part not in str(error) else page
