"""Call CPU code on device tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch import _C


def call_on_host(
    function: Callable[[list[Any]], Sequence[Any]], values: list[Any], writes: bool = True
) -> list[Any]:
    """Call `function` with host aliases of device tensors, and convert its results to device tensors.

    Nothing is copied. If the function writes to an argument, it writes to the device tensor. A result that
    shares memory with an argument shares memory with the device tensor.

    Args:
        function: takes a list of values, which it may empty, and returns CPU tensors and numbers.
        values: device tensors and numbers.
        writes: the function writes to its arguments. If False, it can run concurrently with work that reads
            them.

    Raises:
        RuntimeError: an HPU Graph is being captured. The graph would not contain the call.
    """
    if _C.is_capturing():
        raise RuntimeError(
            "a fused recipe of torch.compile cannot be part of an HPU Graph. Capture the function without "
            "torch.compile, or compile it with options={'executable': 'interpreted'}."
        )
    results: list[Any] = _C.call_on_host(function, values, writes)
    return results
