"""Tolerances of results against the oracle: a table, looked up by operator, dtype and direction.

The bound of an element with expected value ``e`` is

    allowed = k * u * growth * (|e| + spread + scale) + floor

``u``
    The unit of the coarsest floating dtype that took part: ``torch.finfo(dtype).eps``; 2**-10 in the
    precision class ``tf32`` for the operators that the table marks ``matrix`` and dtype float32.
``spread``
    The condition term, in units of a relative change of the inputs: how much the *oracle* (float64 on the
    CPU) moves when every input element moves by half a unit in a random direction
    (:mod:`conformance.oracle.sensitivity`). For a sum it is of the size of ``|x|``, for ``exp`` it is
    ``|x * exp(x)|``, for a solve it is the condition number times the solution, and if the function jumps
    within a unit it covers the jump. It is a property of the function, not of any implementation, so
    nothing is fitted to the errors that a CPU or a device makes. If ``local`` is false an element has at
    least the mean of its result. If ``separate`` is true each argument moves alone, up and down, and the
    movements are added, so that those of two arguments cannot cancel. ``fixed`` is the place of an argument
    that does not move: a number that is rounded down, exactly.
``scale``
    For operators whose results are of order one by construction (probabilities, windows, normalised values)
    the size at which intermediate values round; else 0.
``growth``
    1, or the square root of the number of input elements if rounding errors accumulate. A dtype of less
    than 24 bits has 8 at most, since sums are kept in float32, and beside it the growth of float32: without
    a limit the bound of 65,536 elements in bfloat16 would be above any value.
    Nothing is computed in float8: its results are those of float16, with one unit more for their rounding.
``k``
    A small constant of the operator's class: how many roundings of intermediate values a reasonable
    implementation makes. A backward pass doubles it.
``floor``
    The smallest subnormal number of the result's dtype; the smallest normal one in the precision class
    ``flush-denormals``.

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
#: The growth of up to 64 partial sums that a device keeps in a dtype of less than 24 bits.
_LOW_GROWTH = 8.0


@dataclasses.dataclass(frozen=True)
class Rule:
    """One class of the table with the overrides of one operator, dtype and direction applied."""

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
        """Return the bound for a result of dtype ``result`` computed from inputs of dtype ``computed``.

        ``elements`` is the number of input elements; ``precision`` is the target's precision class (``ieee``,
        ``tf32`` or ``flush-denormals``).
        """
        if not (result.is_floating_point or result.is_complex) or self.exact:
            return Tolerance(0.0, 0.0)
        unit = _unit_of_arithmetic(result)
        if computed is not None and (computed.is_floating_point or computed.is_complex):
            unit = max(unit, _unit_of_arithmetic(computed))
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
    """A bound: ``relative`` times magnitude plus ``floor``, in the units of the result; two zeros mean bit
    for bit.
    """

    relative: float
    floor: float

    @property
    def exact(self) -> bool:
        """True if only equal bits agree."""
        return self.relative == 0.0

    def allowed(self, magnitude: torch.Tensor) -> torch.Tensor:
        """Return the allowed absolute errors (float64, the shape of ``magnitude``); ``magnitude`` is ``|e| +
        spread``.
        """
        return magnitude * self.relative + self.floor

    def widened(self, factor: float) -> Tolerance:
        """Return the bound for the comparison of two results that may each be off by this one."""
        return Tolerance(self.relative * factor, self.floor * factor)


EXACT = Tolerance(0.0, 0.0)


def unit_of(dtype: torch.dtype) -> float:
    """Return the distance of 1.0 to the next number of a floating or complex dtype."""
    return float(torch.finfo(dtype).eps)


def _unit_of_arithmetic(dtype: torch.dtype) -> float:
    """Nothing is computed in float8: results are rounded to it, once, from float16 or wider."""
    return unit_of(torch.float16 if dtype.itemsize == 1 else dtype)


@functools.lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    with (Path(__file__).parent / "table.toml").open("rb") as file:
        loaded: dict[str, Any] = tomllib.load(file)
        return loaded


@functools.cache
def rule(operator: str, dtype: torch.dtype, direction: str = "forward") -> Rule:
    """Return the rule of (operator, dtype, direction): its class, then the matching overrides in the table's
    order.

    Raises LookupError for an unknown direction.
    """
    if direction not in DIRECTIONS:
        raise LookupError(f"no direction {direction!r}; use one of {', '.join(DIRECTIONS)}")
    table = _table()
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
        # The derivative of a function that moves data adds values up; that of any other multiplies and adds.
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
