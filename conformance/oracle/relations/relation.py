"""The types of a relation and of its equations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch

from conformance.samples.operators import Sample


@dataclasses.dataclass(frozen=True)
class Equation:
    """Two tensors of one shape that must be equal, exactly or within the operator's tolerance for values of
    size ``scale``.

    ``scale`` is the size at which rounding happens, such as a norm of the input.
    """

    label: str
    actual: torch.Tensor
    expected: torch.Tensor
    exact: bool = False
    scale: float = 0.0


#: A function (result of the target on the CPU, reference outputs, sample on the CPU) -> equations. It returns
#: None if the values of this sample are specified and are compared directly.
Relation = Callable[[Any, Any, Sample], "Iterable[Equation] | None"]
