"""Behaviours of binary elementwise operators: augmented assignments, errors, overlapping memory, and rare
arguments.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import numpy
import torch
from torch.autograd import forward_ad

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "pointwise",
    level="core",
    must_detect=("value",),
    page="tensor_attributes.html",
    ground="The examples of the page use augmented assignments as in-place operators",
)
def augmented_assignments(lab: Lab) -> None:
    """Augmented assignments write into their tensor and return the same object."""
    for name, right, expected in (
        ("iadd", 3, [8, 11]),
        ("isub", 3, [2, 5]),
        ("imul", 3, [15, 24]),
        ("ifloordiv", 3, [1, 2]),
        ("imod", 3, [2, 2]),
        ("ipow", 2, [25, 64]),
        ("iand", 4, [4, 0]),
        ("ior", 2, [7, 10]),
        ("ixor", 1, [4, 9]),
        ("ilshift", 1, [10, 16]),
        ("irshift", 1, [2, 4]),
    ):
        for operand in (right, lab.put([right, right])):
            tensor = lab.put([5, 8])
            result = getattr(operator, name)(tensor, operand)
            lab.holds(f"{name} returns its left operand", result is tensor)
            lab.expect(f"{name} of {type(operand).__name__}", tensor, expected)
    halves: Any = lab.put([5.0, 8.0])
    same = halves
    halves /= 2
    lab.holds("/= keeps the tensor object", same is halves)
    lab.expect("division", halves, [2.5, 4.0])


@behaviour("pointwise", level="core", must_detect=("value", "error"), page="generated/torch.maximum.html")
def refusals_of_two_operands(lab: Lab) -> None:
    """``maximum`` and ``minimum`` of complex numbers, subtraction of booleans, and an ``out=`` that partly
    overlaps the operands raise errors.
    """
    complex_numbers, numbers = lab.put([1j, 2.0]), lab.put([1.0, 2.0])
    for name in ("maximum", "minimum", "fmax", "fmin"):
        function = getattr(torch, name)
        lab.raises(
            f"{name} of complex", lambda: function(complex_numbers, complex_numbers), match="(?i)complex"
        )
        lab.raises(f"{name} of one complex", lambda: function(numbers, complex_numbers), match="(?i)complex")
        into = torch.empty(2, dtype=torch.complex64, device=lab.device)
        basis = (
            contextlib.nullcontext()
            if name in ("fmax", "fmin")
            else lab.parity("The page does not say that the function takes part in type promotion")
        )
        with basis:
            lab.expect(
                f"{name} of real numbers into a complex out=", function(numbers, numbers, out=into), [1, 2]
            )
    truth = lab.put([True, False])
    for case_name, call in (
        ("two booleans", lambda: truth - truth),
        ("a number from booleans", lambda: truth - True),
        ("booleans from a number", lambda: True - truth),
        ("booleans from integers", lambda: torch.rsub(truth, True)),
    ):
        with lab.parity("No page says that subtraction of booleans is an error"):
            lab.raises(case_name, call, match="(?i)bool")
    memory = lab.put([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    with lab.parity("No page says that overlap of out= and an operand is an error"):
        lab.raises(
            "a power into part", lambda: torch.pow(2, memory[:5], out=memory[1:]), match="(?i)overlap|memory"
        )
    memory = lab.put([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    with lab.consistent("The power written into its own operand must equal the power itself"):
        powers = torch.pow(2, memory[:3], out=memory[:3])
        lab.expect("a power written into its own exponent", powers, [2.0, 4.0, 8.0], roundings=8.0)
        lab.expect("the rest stays", memory[3:], [4.0, 5.0, 6.0])


@behaviour(
    "pointwise", must_detect=("value",), capabilities=("forward_ad",), page="generated/torch.remainder.html"
)
def rare_arguments_of_two(lab: Lab) -> None:
    """``remainder`` and ``fmod`` of large dividends, sums of odd lengths, powers of a complex base, and
    tangents of ``maximum`` and ``minimum`` are correct.
    """
    large = lab.put([2.0**30, -(2.0**30), 1e10], dtype=torch.float64)
    by = lab.put([3.0, 3.0, 7.0], dtype=torch.float64)
    host = numpy.array([2.0**30, -(2.0**30), 1e10])
    lab.expect("remainder of large numbers", torch.remainder(large, by), numpy.mod(host, [3, 3, 7]))
    lab.expect("fmod of large numbers", torch.fmod(large, by), numpy.fmod(host, [3, 3, 7]))
    for count in (1, 3, 63, 65, 127):
        left, right = lab.integers(count, dtype=torch.int8), lab.integers(count, dtype=torch.int8)
        lab.expect(f"sum of {count}", left + right, (left.cpu().numpy() + right.cpu().numpy()))
    exponents = lab.put([0.0, 1.0, 2.0, -1.0], dtype=torch.float64)
    lab.expect("powers of a complex number", (1j) ** exponents, [1, 1j, -1, -1j], roundings=32)
    base, weight = lab.integers(4, low=1), lab.integers(4, low=1)
    lab.same("addcmul by a whole number", torch.addcmul(base, weight, weight, value=2))
    whole = torch.addcmul(base.long(), weight.long(), weight.long(), value=2)
    lab.same("addcmul of integers", whole)
    with forward_ad.dual_level():
        first = forward_ad.make_dual(lab.put([1.0, 4.0]), lab.put([10.0, 20.0]))
        second = forward_ad.make_dual(lab.put([2.0, 3.0]), lab.put([30.0, 40.0]))
        for name, expected in (("maximum", [30.0, 20.0]), ("minimum", [10.0, 40.0])):
            dual = forward_ad.unpack_dual(getattr(torch, name)(first, second))
            lab.expect(f"tangent of {name}", dual.tangent, expected)
