"""Claims: a target promises something of a call only if it declares every dtype that the call needs.

Those are the dtypes of the tensors that it takes and returns, and those that its arguments name: float64 for
``softmax(x, dtype=torch.float64)``, complex64 for ``fft.rfft`` of float32. What a device does in a dtype that
its target file does not declare is not promised, so that no property may call it wrong.
"""

from __future__ import annotations

from typing import Any

import torch

from conformance.checking import trees
from conformance.target.file import DTYPES
from conformance.target.target import Target

_DECLARABLE = frozenset(DTYPES)


def dtypes_of(*values: Any) -> frozenset[str]:
    """Return the names of the dtypes that values name or hold, as far as a target can declare them."""
    found: set[torch.dtype] = set()
    for leaf in trees.leaves(values):
        if isinstance(leaf, torch.dtype):
            found.add(leaf)
        elif isinstance(leaf, torch.Tensor):
            found.add(leaf.dtype)
    return _DECLARABLE & {str(dtype).removeprefix("torch.") for dtype in found}


def declares_all(target: Target) -> bool:
    """Return whether a target declares every dtype, so that nothing is left to ask."""
    return target.dtypes >= _DECLARABLE


def unclaimed(target: Target, *values: Any) -> frozenset[str]:
    """Return the names of the dtypes in trees of values that a target does not declare."""
    return frozenset() if declares_all(target) else dtypes_of(*values) - target.dtypes
