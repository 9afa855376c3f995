"""The known-answer probe: sums that are exact in every dtype show whether the device still computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.target.target import Target

_DTYPES = ("float32", "bfloat16", "float16", "float64", "int64", "int32")


def dtype_of(target: Target) -> torch.dtype:
    """Return the dtype in which the probe computes: the first declared one that holds its numbers exactly."""
    for name in _DTYPES:
        if target.declares(name):
            return getattr(torch, name)  # type: ignore[no-any-return]
    return torch.float32


def _copy(start: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return start.clone(), [[0, 1, 2], [3, 4, 5]]


def _add(start: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return start + start, [[0, 2, 4], [6, 8, 10]]


def _matmul(start: torch.Tensor) -> tuple[torch.Tensor, Any]:
    return start @ start.t(), [[5, 14], [14, 50]]


PARTS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, Any]]] = {
    "copy": _copy,
    "add": _add,
    "matmul": _matmul,
}


def known_answers(target: Target) -> dict[str, str]:
    """Return a sentence for each wrong part of the probe by its name; empty if everything is right.

    Runs ``copy``, ``add`` and ``matmul`` on the device and waits for it. A part that raises is wrong too.
    """
    wrong: dict[str, str] = {}
    for name, part in PARTS.items():
        try:
            host = torch.tensor([[0, 1, 2], [3, 4, 5]], dtype=dtype_of(target))
            value, expected = part(host.to(target.device))
            target.synchronize()
            answer = value.cpu().tolist()
        except Exception as error:
            wrong[name] = f"{name} raised {type(error).__name__}: {str(error)[:500]}"
        else:
            if answer != expected:
                wrong[name] = f"{name} gave {answer} instead of {expected}"
    return wrong
