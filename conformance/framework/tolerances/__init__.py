"""Tolerance rules: a table defines the allowed error of a result by operator, dtype and direction.

The allowed error of an element with reference value ``e`` is

    allowed = k * u * growth * (|e| + sensitivity + scale) + floor

``u``
    The unit of the coarsest floating dtype in the computation: ``torch.finfo(dtype).eps``. It is 2**-10 in
    the precision class ``tf32`` for float32 and the operators that the table marks ``matrix``.
``sensitivity``
    The change of the *reference* (float64 on the CPU) relative to the change of the inputs, when every input
    element changes by half a unit in a random direction (:mod:`conformance.oracle.sensitivity`). For a sum
    the sensitivity has the size of ``|x|``, for ``exp`` it is ``|x * exp(x)|``, for a solve it is the
    condition number times the solution. If the function jumps within a unit, the sensitivity covers the jump.
    The sensitivity depends on the function and not on an implementation, so that no tolerance is fitted to
    the errors of a CPU or a device. If ``local`` is false, the sensitivity of each element is at least the
    mean over its result. If ``separate`` is true, each argument is changed alone, up and down, and the
    effects are added, so that the effects of two arguments cannot cancel. ``fixed`` is the index of an
    argument that is not changed, because the operator rounds it down exactly.
``scale``
    The size of the intermediate values, for operators whose results are of order one by construction
    (probabilities, windows, normalised values); else 0.
``growth``
    1, or the square root of the number of input elements if rounding errors accumulate. For a dtype with a
    significand of less than 24 bits the growth is at most 8 plus the growth of float32, because sums are kept
    in float32. Without this limit the allowed error of 65,536 elements in bfloat16 would exceed any value.
    Nothing is computed in float8: the allowed error is the float16 error plus one float8 unit.
``k``
    A small constant of the operator's class: the number of roundings of intermediate values in a reasonable
    implementation. A backward pass doubles it.
``floor``
    The smallest subnormal number of the result's dtype. In the precision class ``flush-denormals`` it is the
    smallest normal number.

The class ``exact`` allows nothing. Integers and booleans are exact in every class.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from pathlib import Path
from typing import Any

import torch

from conformance.model.id_patterns import matches

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DIRECTIONS = ("forward", "backward")
TF32_UNIT = 2.0**-10
#: The maximum growth of the rounding error in a dtype with a significand of less than 24 bits. It is the
#: square root of 64, for 64 partial sums that are rounded to that dtype.
_LOW_GROWTH = 8.0


@dataclasses.dataclass(frozen=True)
class Rule:
    """The tolerance rule of one operator, dtype and direction.

    It is the operator's class in ``table.toml``, changed by the overrides that match.
    """

    name: str
    k: float
    growth: str = "none"
    local: bool = True
    separate: bool = False
    matrix: bool = False
    oracle: str = "float64"
    scale: float = 0.0
    logarithmic: bool = False
    fixed: int | None = None

    @property
    def exact(self) -> bool:
        """True for the class that allows no difference."""
        return self.name == "exact"

    def tolerance(
        self,
        result: torch.dtype,
        computed: torch.dtype | None = None,
        *,
        elements: int = 1,
        precision: str = "ieee",
    ) -> Tolerance:
        """Return the tolerance for a result with dtype ``result`` that is computed from dtype ``computed``.

        ``elements`` is the number of input elements. ``precision`` is the target's precision class (``ieee``,
        ``tf32`` or ``flush-denormals``).
        """
        if not (result.is_floating_point or result.is_complex) or self.exact:
            return Tolerance(0.0, 0.0)
        unit = _unit_of_computation_dtype(result)
        if computed is not None and (computed.is_floating_point or computed.is_complex):
            unit = max(unit, _unit_of_computation_dtype(computed))
        single = unit_of(torch.float32)
        growth = math.sqrt(max(1, elements)) if self.growth == "sqrt" else 1.0
        if precision == "tf32" and self.matrix and unit == single:
            unit = TF32_UNIT * growth
        elif unit > single:
            unit = unit * min(growth, _LOW_GROWTH) + single * growth
        else:
            unit *= growth
        info = torch.finfo(result)
        floor = float(info.tiny) if precision == "flush-denormals" else float(info.tiny) * float(info.eps)
        relative = self.k * unit
        if result.itemsize == 1:
            relative += unit_of(result)
        return Tolerance(relative, floor + relative * self.scale)


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """An allowed error: ``relative`` times the magnitude, plus ``floor``. If both are 0, elements must be
    equal bit for bit.
    """

    relative: float
    floor: float

    @property
    def exact(self) -> bool:
        """True if values must be equal bit for bit."""
        return self.relative == 0.0

    def allowed(self, magnitude: torch.Tensor) -> torch.Tensor:
        """Return the allowed absolute errors as float64, for magnitudes ``|e| + sensitivity``."""
        return magnitude * self.relative + self.floor

    def widened(self, factor: float) -> Tolerance:
        """Return this tolerance multiplied by ``factor``, to compare two results that both have an error."""
        return Tolerance(self.relative * factor, self.floor * factor)


EXACT = Tolerance(0.0, 0.0)


def unit_of(dtype: torch.dtype) -> float:
    """Return the distance from 1.0 to the next larger number of a floating or complex dtype."""
    return float(torch.finfo(dtype).eps)


def _unit_of_computation_dtype(dtype: torch.dtype) -> float:
    """Return the unit of the dtype in which results of ``dtype`` are computed. For float8 that is float16,
    because float8 results are computed in float16 or wider and rounded once.
    """
    return unit_of(torch.float16 if dtype.itemsize == 1 else dtype)


@functools.lru_cache(maxsize=1)
def _tolerance_table() -> dict[str, Any]:
    with (Path(__file__).parent / "table.toml").open("rb") as file:
        loaded: dict[str, Any] = tomllib.load(file)
        return loaded


@functools.cache
def rule(operator: str, dtype: torch.dtype, direction: str = "forward") -> Rule:
    """Return the rule of an operator, dtype and direction.

    The rule is the operator's class in the table, to which the matching overrides are applied in the order of
    the table. Raise LookupError for an unknown direction.
    """
    if direction not in DIRECTIONS:
        raise LookupError(f"no direction {direction!r}; use one of {', '.join(DIRECTIONS)}")
    table = _tolerance_table()
    name = next(
        (
            name
            for name, entry in table["class"].items()
            if any(matches(p, operator) for p in entry["operators"])
        ),
        table["default"],
    )
    entry = {key: value for key, value in table["class"][name].items() if key not in ("operators", "because")}
    if direction == "backward":
        # The derivative of a data movement sums gradients, so it is not exact. Derivatives multiply and add,
        # so ``k`` is doubled.
        if name == "exact":
            name, entry = "elementwise", {"k": 2.0, "growth": "sqrt", "local": False}
        entry["k"] = 2 * entry["k"]
        entry["oracle"] = "float64"
    dtype_name = str(dtype).removeprefix("torch.")
    for override in table.get("override", ()):
        if (
            any(matches(pattern, operator) for pattern in override["operators"])
            and (dtype_name in override.get("dtypes", (dtype_name,)))
            and (direction == override.get("direction", direction))
        ):
            entry.update(
                {
                    k: v
                    for k, v in override.items()
                    if k
                    in (
                        "k",
                        "growth",
                        "local",
                        "separate",
                        "matrix",
                        "oracle",
                        "scale",
                        "logarithmic",
                        "fixed",
                    )
                }
            )
    return Rule(name=name, **entry)
