"""The form of a promise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch

from conformance.samples.operators import Sample


@dataclasses.dataclass(frozen=True)
class Claim:
    """Two tensors of one shape that must agree: exactly, or within the operator's tolerance of ``scale``.

    ``scale`` is the size at which rounding happens, such as a norm of the input.
    """

    label: str
    actual: torch.Tensor
    expected: torch.Tensor
    exact: bool = False
    scale: float = 0.0


#: (result on the CPU, result of the oracle, sample on the CPU) -> claims. A promise that returns None has
#: nothing to add for this sample: the values are then compared as usual.
Promise = Callable[[Any, Any, Sample], "Iterable[Claim] | None"]
