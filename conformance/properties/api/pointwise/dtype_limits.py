"""Behaviours of pointwise operators at the limits of their dtypes, and with Python numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "pointwise",
    dtypes=("int8", "int16", "int32", "int64", "uint8"),
    must_detect=("value",),
    page="generated/torch.bitwise_left_shift.html",
    ground="an arithmetic shift of a number with a fixed width drops the bits outside the width",
)
def shifts_within_the_width(lab: Lab) -> None:
    """A left shift by less than the bit width multiplies by a power of two and drops the bits outside the
    range. A right shift divides by a power of two and rounds down. Other amounts are undefined
    (``torch.bitwise_right_shift``).
    """
    info = torch.iinfo(lab.dtype)
    numbers = [info.min, -1, 0, 1, 5, info.max] if info.min < 0 else [0, 1, 5, info.max]
    x = lab.put(numbers, dtype=lab.dtype)
    for shift in range(info.bits):
        amount = torch.full_like(x, shift)
        low_bits = [(value << shift) & (2**info.bits - 1) for value in numbers]
        expected = [value - 2**info.bits if value > info.max else value for value in low_bits]
        lab.expect(f"left by {shift}", x << amount, expected)
        lab.expect(f"right by {shift}", x >> amount, [value >> shift for value in numbers])


@behaviour("pointwise", dtypes=("int64",), must_detect=("value",), page="generated/torch.remainder.html")
def remainders_of_large_integers(lab: Lab) -> None:
    """The remainder of int64 numbers is exact and has the sign of the divisor, also for numbers that float64
    cannot represent.
    """
    x, q = lab.put(23500), 392486996410368
    lab.expect("both above 0", x % q, 23500)
    lab.expect("a dividend below 0", -x % q, q - 23500)
    lab.expect("a divisor below 0", x % -q, 23500 - q)
    lab.expect("both below 0", -x % -q, -23500)
    large = lab.put([2**62 + 1, -(2**62) - 1])
    lab.expect("remainder of numbers with more than 53 bits", large % (2**31), [1, 2**31 - 1])


@behaviour(
    "pointwise",
    dtypes=("bfloat16",),
    must_detect=("value",),
    page="generated/torch.nextafter.html",
)
def neighbours_in_bfloat16(lab: Lab) -> None:
    """``nextafter`` of bfloat16 values returns the next value, also across zero, at infinity and for NaN."""
    patterns = [0x3F80, 0xBF80, 0x7F7F, 0xFF7F, 0x7F80, 0x0000, 0x8000, 0x0001, 0x8001]

    def bfloat16_from_bits(bits: list[int]) -> torch.Tensor:
        whole = torch.tensor([b - 0x10000 if b >= 0x8000 else b for b in bits], dtype=torch.int16)
        return lab.put(whole.view(torch.bfloat16))

    above = [0x3F81, 0xBF7F, 0x7F80, 0xFF7E, 0x7F80, 0x0001, 0x0001, 0x0002, 0x8000]
    below = [0x3F7F, 0xBF81, 0x7F7E, 0xFF80, 0x7F7F, 0x8001, 0x8001, 0x0000, 0x8002]
    for side, goal, expected in (("above", math.inf, above), ("below", -math.inf, below)):
        goals = torch.full((9,), goal, dtype=torch.bfloat16, device=lab.device)
        result = bfloat16_from_bits(patterns).nextafter_(goals)
        right = bfloat16_from_bits(expected)
        lab.same(f"next {side}", result[:5])
        lab.holds(f"next {side} is the next number", torch.equal(result[:5], right[:5]))
        with lab.parity("No page says that bfloat16 has subnormal numbers"):
            lab.same(f"next {side} of zero and of subnormal numbers", result[5:])
            lab.holds(
                f"next {side} of zero and subnormal numbers is the next number",
                torch.equal(result[5:], right[5:]),
            )
    none = torch.full((2,), math.nan, dtype=torch.bfloat16, device=lab.device)
    with lab.parity("No page gives the neighbour of NaN"):
        lab.same("of NaN", torch.nextafter(none, none).isnan())
    single = bfloat16_from_bits([0x3F80])
    lab.same("to itself", single.clone().nextafter_(single))


@behaviour(
    "pointwise",
    must_detect=("dtype",),
    page="tensor_attributes.html",
    ground="The promotion rules for scalars apply; the page of xlogy does not mention the rules",
)
def numbers_in_xlogy(lab: Lab) -> None:
    """A Python number on either side of ``xlogy`` and ``xlog1py`` does not change the dtype of the result."""
    for shape in ((), (3,)):
        x = torch.full(shape, 2.0, device=lab.device)
        for function, number in itertools.product((torch.xlogy, torch.special.xlog1py), (5, 5.0)):
            name = f"{function.__name__} of {shape} and {number!r}"
            number_second, number_first = function(x, number), function(number, x)
            lab.close(name, [number_second, number_first], roundings=16)
            lab.holds(f"{name} keeps the dtype", number_second.dtype == number_first.dtype == x.dtype)
        half = x.half()
        lab.holds(f"xlogy keeps float16, {shape}", torch.xlogy(half, 5.0).dtype == torch.float16)


@behaviour(
    "pointwise",
    dtypes=("float64",),
    must_detect=("value",),
    page="generated/torch.addcmul.html",
    basis="parity",
    ground="The page calls the value a number; no page allows a tensor as value",
)
def tensors_as_numbers_of_addcmul(lab: Lab) -> None:
    """The ``value`` argument of ``addcmul`` and ``addcdiv`` may be a dimensionless tensor that does not
    require grad. A tensor that requires grad raises an error.
    """
    x, y = lab.put(2.0), lab.put(3.0, dtype=lab.dtype)
    number: Any = y
    lab.expect("addcmul", number.addcmul(y, y, value=x), 21.0)
    lab.expect("addcdiv", number.addcdiv(y, y, value=x), 5.0)
    needs = lab.put(2.0, requires_grad=True)
    lab.raises("with a gradient", lambda: number.addcmul(y, y, value=needs), Exception)


@behaviour(
    "pointwise",
    dtypes=("bfloat16", "float16"),
    must_detect=("value",),
    page="generated/torch.lerp.html",
    basis="consistency",
    ground="The result in reduced precision and the float32 result of the same numbers must agree",
)
def lerp_in_reduced_precision(lab: Lab) -> None:
    """``lerp`` in reduced precision returns the result of float32, within a few roundings of the dtype. The
    weight may be a number, a dimensionless tensor, a row or a tensor.
    """
    for shape in ((1, 5), (3, 9), (20,)):
        start, end = lab.floats(*shape), lab.floats(*shape)
        weights: dict[str, Any] = {
            "a number": 0.3,
            "a tensor without dimensions": lab.floats(1, low=0.0)[0],
            "a row": lab.floats(shape[-1], low=0.0),
            "a tensor": lab.floats(*shape, low=0.0),
        }
        for name, weight in weights.items():
            result = torch.lerp(start, end, weight)
            lab.close(f"{name}, {shape}", result, roundings=4)
            wide = weight.float() if isinstance(weight, torch.Tensor) else weight
            expected = torch.lerp(start.float(), end.float(), wide)
            tolerance = 4 * torch.finfo(lab.dtype).eps
            lab.holds(
                f"{name}, {shape}: the result equals the float32 result",
                torch.allclose(result.float(), expected, rtol=tolerance, atol=tolerance),
            )


@behaviour("pointwise", dtypes=("float32", "float64"), must_detect=("value",), page="special.html")
def bessel_functions_at_their_limits(lab: Lab) -> None:
    """``i0`` agrees with NumPy for large and small numbers. ``i0`` is 1 at 0, not finite at infinity, and NaN
    for NaN.
    """
    roundings = 256.0
    for low, high in ((0.0, 8.0), (8.0, 20.0), (20.0, 88.0)):
        x = torch.linspace(low, high, 33, dtype=torch.float64).to(lab.dtype)
        expected = numpy.i0(x.double().numpy())
        lab.expect(
            f"{low} to {high}",
            torch.special.i0(lab.put(x)) / lab.put(torch.tensor(expected)).to(lab.dtype),
            [1.0] * 33,
            roundings=roundings,
        )
        lab.expect(
            f"-{high} to -{low}",
            torch.i0(lab.put(-x)) / lab.put(torch.tensor(expected)).to(lab.dtype),
            [1.0] * 33,
            roundings=roundings,
        )
    lab.expect("of 0", torch.i0(lab.put([0.0, -0.0], dtype=lab.dtype)), [1.0, 1.0], roundings=2)
    lab.same("of no elements", torch.i0(lab.floats(0)))
    # The correct value at infinity is infinity, but the CPU returns NaN.
    special = torch.i0(lab.put([math.inf, -math.inf, math.nan], dtype=lab.dtype))
    lab.same("of infinities", special[:2].isfinite())
    with lab.parity("No page gives the Bessel function of NaN"):
        lab.same("of NaN", special[2].isnan())


@behaviour(
    "pointwise",
    dtypes=("float32", "float64", "complex64", "complex128"),
    must_detect=("value",),
    page="generated/torch.exp.html",
)
def values_of_one_and_of_many(lab: Lab) -> None:
    """``exp`` of a tensor with one element equals ``exp`` of the same number in a larger tensor. Square roots
    of complex numbers whose real and imaginary parts differ widely in magnitude agree with NumPy.
    """
    single = torch.exp(torch.ones(1, dtype=lab.dtype, device=lab.device))
    many = torch.exp(torch.ones(17, dtype=lab.dtype, device=lab.device))
    lab.close("one", single)
    lab.close("many", many)
    lab.expect("it is e", single, [math.e], roundings=4)
    with lab.consistent("The exponentials of a number alone and of the same number among many must agree"):
        lab.holds(
            "exp of a number alone equals exp of the number among many",
            torch.allclose(single.expand(17), many, rtol=1e-6),
        )
    if lab.dtype.is_complex:
        # The numbers are small enough that their squares do not overflow, because a kernel may compute the
        # squares (torch's note "Numerical accuracy").
        far = 1.0e15 if lab.dtype == torch.complex64 else 1.0e20
        for number in (-far * 1j, complex(-far, -5e-14 * far), far * 1j, complex(-far, 1.0), 4.0 + 0.0j):
            host = torch.tensor([number], dtype=lab.dtype)
            wide = numpy.sqrt(host.numpy().astype(numpy.complex128))
            lab.expect(f"root of {number}", torch.sqrt(lab.put(host)), wide, roundings=64)
