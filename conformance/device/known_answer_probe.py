"""The known-answer probe: small computations with known results, which show whether the device still
works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.target.target import Target

_DTYPES = ("float32", "bfloat16", "float16", "float64", "int64", "int32")


def probe_dtype(target: Target) -> torch.dtype:
    """Return the dtype of the probe: the first declared dtype of a list of dtypes that represent the probe's
    numbers exactly.
    """
    for name in _DTYPES:
        if target.declares(name):
            return getattr(torch, name)  # type: ignore[no-any-return]
    return torch.float32


def _clone_and_expected(start: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return start.clone(), [[0, 1, 2], [3, 4, 5]]


def _sum_and_expected(start: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return start + start, [[0, 2, 4], [6, 8, 10]]


def _product_and_expected(start: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return start @ start.t(), [[5, 14], [14, 50]]


PARTS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, Any]]] = {
    "copy": _clone_and_expected,
    "add": _sum_and_expected,
    "matmul": _product_and_expected,
}


def wrong_answers(target: Target) -> dict[str, str]:
    """Run the parts ``copy``, ``add`` and ``matmul`` of the probe on the device.

    Return an error message for each part that raises or returns a wrong result. The mapping is empty if all
    parts are correct.
    """
    wrong: dict[str, str] = {}
    for name, part in PARTS.items():
        try:
            host = torch.tensor([[0, 1, 2], [3, 4, 5]], dtype=probe_dtype(target))
            value, expected = part(host.to(target.device))
            target.synchronize()
            actual = value.cpu().tolist()
        except Exception as error:
            wrong[name] = f"{name} raised {type(error).__name__}: {str(error)[:500]}"
        else:
            if actual != expected:
                wrong[name] = f"{name} returned {actual} instead of {expected}"
    return wrong
