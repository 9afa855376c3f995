"""Behaviours of binary elementwise operators at known values."""

from __future__ import annotations

import itertools
import math

import numpy
import torch

from conformance.behaviours.behaviour import FLOATS, INTEGERS, WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import expect_error_for_two_devices, to_widest_numpy_array

_INF, _NAN = math.inf, math.nan


@behaviour(
    "pointwise",
    dtypes=(*FLOATS, *INTEGERS),
    level="core",
    must_detect=("value",),
    page="generated/torch.div.html",
)
def rounded_division(lab: Lab) -> None:
    """``//``, ``remainder``, ``fmod``, and ``div`` with ``rounding_mode="floor"`` or
    ``rounding_mode="trunc"`` agree with Python for every combination of signs. This holds for tensors and
    numbers, in-place operators and reversed operands.
    """
    signed = lab.dtype.is_signed
    pairs = [
        (a, b)
        for a in ((-7, -6, -1, 0, 1, 6, 7) if signed else (0, 1, 6, 7, 250))
        for b in ((-3, -2, -1, 1, 2, 3) if signed else (1, 2, 3, 200))
    ]
    a, b = (lab.put([pair[position] for pair in pairs], dtype=lab.dtype) for position in (0, 1))
    floor, trunc = [x // y for x, y in pairs], [math.trunc(x / y) for x, y in pairs]
    lab.expect("//", a // b, floor)
    lab.expect("floor_divide", torch.floor_divide(a, b), floor)
    lab.expect("div by floor", torch.div(a, b, rounding_mode="floor"), floor)
    lab.expect("div by trunc", torch.div(a, b, rounding_mode="trunc"), trunc)
    lab.expect("%", a % b, [x % y for x, y in pairs])
    lab.expect("remainder", torch.remainder(a, b), [x % y for x, y in pairs])
    lab.expect("fmod", torch.fmod(a, b), [math.fmod(x, y) for x, y in pairs])
    for number in (3, 2, *((-2,) if signed else ())):
        lab.expect(f"// {number}", a // number, [x // number for x, _ in pairs])
        lab.expect(f"% {number}", a % number, [x % number for x, _ in pairs])
        lab.expect(f"fmod {number}", a.fmod(number), [math.fmod(x, number) for x, _ in pairs])
        lab.expect(f"{number} //", number // b, [number // y for _, y in pairs])
        lab.expect(f"{number} %", number % b, [number % y for _, y in pairs])
    copy = a.clone()
    copy //= b
    lab.expect("//=", copy, floor)
    copy = a.clone()
    lab.expect("remainder_", copy.remainder_(b), [x % y for x, y in pairs])
    result = a / b
    lab.expect("/", result, numpy.array([x / y for x, y in pairs]), roundings=2.0)
    lab.expect("true_divide", torch.true_divide(a, b), numpy.array([x / y for x, y in pairs]), roundings=2.0)
    lab.expect("12 /", 12 / b, numpy.array([12 / y for _, y in pairs]), roundings=2.0)
    if not lab.dtype.is_floating_point and lab.device.type == "cpu":
        lab.raises("// 0", lambda: a // 0, RuntimeError, ZeroDivisionError)
    else:
        lab.holds("// 0 raises", True)


@behaviour(
    "pointwise",
    dtypes=FLOATS,
    level="core",
    must_detect=("value",),
    page="generated/torch.div.html",
    ground="The dtypes are those of IEEE 754; remainder and fmod are those of Python and C++",
)
def division_by_zero_and_infinity(lab: Lab) -> None:
    """Quotients and remainders with zero divisors, infinities and NaN follow IEEE 754 and the rounding of
    Python.
    """
    a = lab.put([1.0, -1, 0, _INF, -_INF, _NAN, 5, -5], dtype=lab.dtype)
    zero, inf = torch.zeros_like(a), torch.full_like(a, _INF)
    over = [_INF, -_INF, _NAN, _INF, -_INF, _NAN, _INF, -_INF]
    for mode in (None, "floor", "trunc"):
        lab.expect(f"by zero, {mode}", torch.div(a, zero, rounding_mode=mode), over)
        lab.expect(f"division by the number 0, {mode}", torch.div(a, 0.0, rounding_mode=mode), over)
    lab.expect("by infinity", a / inf, [0.0, 0, 0, _NAN, _NAN, _NAN, 0, 0])
    with lab.parity("No page says what a finite number divided by infinity and rounded down is"):
        lab.expect(
            "by infinity, down",
            torch.div(a, inf, rounding_mode="floor"),
            [0.0, -1, 0, _NAN, _NAN, _NAN, 0, -1],
        )
    lab.expect(
        "by infinity, towards zero",
        torch.div(a, inf, rounding_mode="trunc"),
        [0.0, 0, 0, _NAN, _NAN, _NAN, 0, 0],
    )
    for function_name in ("fmod", "remainder"):
        lab.expect(f"{function_name} by zero", getattr(torch, function_name)(a, zero), [_NAN] * 8)
        lab.expect(f"{function_name} of infinity", getattr(torch, function_name)(a[3:6], 3.0), [_NAN] * 3)
    with lab.parity("The page names std::fmod and a formula, which disagree for an infinite divisor"):
        lab.expect("fmod by infinity", torch.fmod(a[[0, 1, 6]], inf[:3]), [1.0, -1, 5])


@behaviour(
    "pointwise",
    dtypes=(*FLOATS, *INTEGERS, "complex64"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.pow.html",
)
def powers(lab: Lab) -> None:
    """``pow`` of tensors and numbers in either order, in place and with negative exponents returns the power,
    which is exact for integers. Integers to negative powers raise an error, and so does an in-place result
    of another dtype or shape.
    """
    base = lab.put([1, 2, 3, -2] if lab.dtype.is_signed else [1, 2, 3, 4], dtype=lab.dtype)
    array = to_widest_numpy_array(base)
    for exponent in (0, 1, 2, 3):
        expected = array**exponent
        lab.expect(f"to {exponent}", base**exponent, expected, roundings=8.0)
        copy = base.clone()
        lab.holds(f"pow_ to {exponent} returns its input", copy.pow_(exponent) is copy)
        lab.expect(f"in place to {exponent}", copy, expected, roundings=8.0)
        power = torch.full_like(base, exponent)
        lab.expect(f"power with a tensor of {exponent} as exponent", base**power, expected, roundings=8.0)
    small = lab.put([0, 1, 2, 5], dtype=lab.dtype)
    lab.expect("2 to", 2**small, [1, 2, 4, 32], roundings=8.0)
    lab.expect("torch.pow of 3", torch.pow(3, small[:3]), [1, 3, 9], roundings=8.0)
    lab.expect("1 to", torch.pow(1, small), [1, 1, 1, 1], roundings=2.0)
    if lab.dtype.is_floating_point:
        lab.expect("to 0.5", lab.put([0.0, 1, 4, 9], dtype=lab.dtype) ** 0.5, [0.0, 1, 2, 3], roundings=8.0)
        lab.expect("to -1", base**-1, 1 / array, roundings=8.0)
        lab.expect("to -2", base**-2, 1 / array**2, roundings=8.0)
        with lab.parity("No page gives powers of infinities and NaN"):
            lab.expect(
                "special",
                lab.put([0.0, _INF, -_INF, _NAN, 1, -1], dtype=lab.dtype)
                ** lab.put([0.0, -1, 3, 0, _NAN, _INF], dtype=lab.dtype),
                [1.0, 0, -_INF, 1, 1, 1],
            )
        with lab.parity("No page gives negative powers of signed zeros"):
            lab.expect("zero to -1", lab.put([0.0, -0.0], dtype=lab.dtype) ** -1, [_INF, -_INF])
    elif not lab.dtype.is_complex:
        with lab.parity("No page says that the call is an error"):
            lab.raises("integers to -1", lambda: base**-1, match="(?i)negative integer powers")
        lab.expect("integers to 0.5", lab.put([0, 4, 9], dtype=lab.dtype) ** 0.5, [0.0, 2, 3], roundings=8.0)
        lab.raises(
            "integers in place to 0.5",
            lambda: base.clone().pow_(0.5),
            match="(?i)can't be cast",
            text_is_documented=True,
            type_is_documented=True,
        )
    lab.raises(
        "in place to a larger shape",
        lambda: base.clone()[:1].pow_(base.repeat(2, 1)),
        match="(?i)shape|size|broadcast",
        type_is_documented=True,
    )
    lab.expect("float_power", torch.float_power(base, 2), array**2, roundings=8.0)
    lab.expect(
        "its dtype",
        torch.float_power(base, 2).dtype,
        torch.complex128 if lab.dtype.is_complex else torch.float64,
    )
    if lab.dtype not in (torch.float64, torch.complex128):
        with lab.parity("No page says that the call is an error"):
            lab.raises("float_power_", lambda: base.clone().float_power_(2), match="(?i)dtype|type")
    expect_error_for_two_devices(lab, "to a tensor elsewhere", lambda: base ** torch.ones(4, dtype=lab.dtype))
    lab.expect(
        "power with a dimensionless CPU tensor as exponent",
        base ** torch.tensor(2, dtype=lab.dtype),
        array**2,
        roundings=8.0,
    )
    lab.expect(
        "power with a dimensionless CPU tensor as base",
        torch.tensor(2, dtype=lab.dtype) ** small,
        [1, 2, 4, 32],
        roundings=8.0,
    )


@behaviour("pointwise", dtypes=INTEGERS, level="core", must_detect=("value", "error"))
def functions_of_two_integers(lab: Lab) -> None:
    """``gcd``, ``lcm``, shifts and bitwise operators agree with NumPy, for tensors and numbers, in place and
    as Python operators.
    """
    # Products of these numbers fit into int8, and so do their common multiples.
    a, b = lab.integers(40, low=-11, high=12), lab.integers(40, low=-11, high=12)
    x, y = to_widest_numpy_array(a), to_widest_numpy_array(b)
    lab.expect("gcd", torch.gcd(a, b), numpy.gcd(x, y))
    lab.expect("lcm", torch.lcm(a, b), numpy.lcm(x, y))
    lab.expect(
        "gcd and lcm of zeros",
        [torch.gcd(a * 0, a * 0).sum().item(), torch.lcm(a, a * 0).sum().item()],
        [0, 0],
    )
    for function_name, symbol, reference in (
        ("bitwise_and", "__and__", numpy.bitwise_and),
        ("bitwise_or", "__or__", numpy.bitwise_or),
        ("bitwise_xor", "__xor__", numpy.bitwise_xor),
    ):
        lab.expect(function_name, getattr(torch, function_name)(a, b), reference(x, y))
        lab.expect(symbol, getattr(a, symbol)(b), reference(x, y))
        lab.expect(f"{function_name} with 5", getattr(torch, function_name)(a, 5), reference(x, 5))
        copy = a.clone()
        getattr(copy, f"{function_name}_")(b)
        lab.expect(f"{function_name}_", copy, reference(x, y))
    small = lab.integers(40, low=0, high=3)
    count = to_widest_numpy_array(small)
    few = lab.integers(40, low=-3, high=4)
    lab.expect("<<", few << small, to_widest_numpy_array(few) << count)
    lab.expect(">>", a >> small, x >> count)
    lab.expect("<< 2", few << 2, to_widest_numpy_array(few) << 2)
    lab.expect(">> 1", torch.bitwise_right_shift(a, 1), x >> 1)
    copy = a.clone()
    copy >>= small
    lab.expect(">>=", copy, x >> count)
    lab.expect(
        "logical",
        [torch.logical_and(a, b).tolist(), torch.logical_or(a, b).tolist(), torch.logical_xor(a, b).tolist()],
        [numpy.logical_and(x, y).tolist(), numpy.logical_or(x, y).tolist(), numpy.logical_xor(x, y).tolist()],
    )
    lab.raises("gcd of floats", lambda: torch.gcd(a.float(), b.float()), match="(?i)implemented|integ")
    lab.raises("& of floats", lambda: a.float() & b.float(), match="(?i)implemented|bitwise|integ")


@behaviour("pointwise", dtypes=FLOATS, level="core", must_detect=("value", "error"))
def functions_of_two_floats(lab: Lab) -> None:
    """``copysign``, ``nextafter``, ``heaviside``, ``hypot``, ``atan2``, ``ldexp``, ``logaddexp``, ``xlogy``
    and ``xlog1py`` return known values, also for zeros, infinities and NaN.
    """

    def tensor_of(*numbers: float) -> torch.Tensor:
        return lab.put(list(numbers), dtype=lab.dtype)

    lab.expect(
        "copysign",
        torch.copysign(tensor_of(1, -2, 0, _INF), tensor_of(-0.0, 3, -1, -1)),
        [-1.0, 2, -0.0, -_INF],
    )
    lab.expect(
        "copysign's zero", torch.signbit(torch.copysign(tensor_of(0, 0), tensor_of(-1, 1))), [True, False]
    )
    lab.expect("copysign by a number", torch.copysign(tensor_of(1, -2), -3.0), [-1.0, -2])
    step = torch.finfo(lab.dtype).eps
    if lab.dtype == torch.float64:
        lab.expect(
            "nextafter",
            torch.nextafter(tensor_of(1, 1, 0, 2), tensor_of(2, 1, 0, 1)),
            torch.tensor([1 + step, 1, 0, 2 - step], dtype=torch.float64),
        )
        with lab.parity("No page gives the neighbour of NaN"):
            lab.expect(
                "nextafter of NaN", torch.nextafter(tensor_of(_NAN, 1), tensor_of(1, _NAN)), [_NAN, _NAN]
            )
    lab.expect("heaviside", torch.heaviside(tensor_of(-1, 0, 2, -0.0), tensor_of(9, 9, 9, 7)), [0.0, 9, 1, 7])
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "heaviside of two dtypes",
            lambda: torch.heaviside(tensor_of(1), lab.put([1])),
            match="(?i)dtype|type",
        )
        lab.raises(
            "heaviside of complex numbers",
            lambda: torch.heaviside(lab.put([1j]), lab.put([1j])),
            match="(?i)complex",
        )
    expect_error_for_two_devices(
        lab,
        "heaviside of two devices",
        lambda: torch.heaviside(tensor_of(1, 2), torch.ones(2, dtype=lab.dtype)),
    )
    lab.expect(
        "hypot",
        torch.hypot(tensor_of(3, -5, 0, _INF), tensor_of(4, 12, -2, 1)),
        [5.0, 13, 2, _INF],
        roundings=2.0,
    )
    ys, xs = tensor_of(0, -0.0, 0, -0.0, 1, -1, _INF, 3), tensor_of(1, 1, -1, -1, 0, 0, _INF, -_INF)
    with lab.parity("No page gives the angles of signed zeros and infinities"):
        lab.expect(
            "atan2",
            torch.atan2(ys, xs),
            numpy.array([0, -0.0, math.pi, -math.pi, math.pi / 2, -math.pi / 2, math.pi / 4, math.pi]),
            roundings=4.0,
        )
    lab.expect(
        "ldexp",
        torch.ldexp(tensor_of(1, -3, 0.5, 0), lab.put([3, 1, -2, 5])),
        [8.0, -6, 0.125, 0],
        roundings=8.0,
    )
    left, right = tensor_of(1, -2, 3, _INF, -_INF, -_INF), tensor_of(2, 2, 3, _INF, -_INF, 1)
    with numpy.errstate(all="ignore"):
        lab.expect(
            "logaddexp",
            torch.logaddexp(left, right),
            numpy.logaddexp(to_widest_numpy_array(left), to_widest_numpy_array(right)),
            roundings=8.0,
        )
        lab.expect(
            "logaddexp2",
            torch.logaddexp2(left, right),
            numpy.logaddexp2(to_widest_numpy_array(left), to_widest_numpy_array(right)),
            roundings=8.0,
        )
    lab.expect(
        "xlogy",
        torch.xlogy(tensor_of(0, 0, 0, 2, 1), tensor_of(0, _INF, _NAN, 1, _NAN)),
        [0.0, 0, _NAN, 0, _NAN],
    )
    lab.expect("xlogy of numbers", torch.xlogy(0, tensor_of(0, 5)), [0.0, 0])
    lab.expect(
        "xlog1py",
        torch.special.xlog1py(tensor_of(0, 0, 2, 1), tensor_of(-1, _NAN, 0, 1)),
        numpy.array([0, _NAN, 0, math.log(2)]),
        roundings=4.0,
    )
    lab.expect("lerp", torch.lerp(tensor_of(0, 2, -4), tensor_of(8, 2, 4), 0.25), [2.0, 2, -2])
    lab.expect("lerp by tensors", torch.lerp(tensor_of(0, 2), tensor_of(8, 4), tensor_of(0.75, 1)), [6.0, 4])
    lab.expect(
        "clamped ends of lerp", torch.lerp(tensor_of(1, 1), tensor_of(5, 5), tensor_of(0, 1)), [1.0, 5]
    )
    lab.expect("a remainder of a large number", torch.remainder(tensor_of(1024), tensor_of(3)), [1.0])
    if lab.dtype in WIDE_NAMES:
        lab.expect(
            "zeta",
            torch.special.zeta(tensor_of(2, 4), tensor_of(1, 1)),
            numpy.array([math.pi**2 / 6, math.pi**4 / 90]),
            roundings=16.0,
        )


WIDE_NAMES = tuple(getattr(torch, name) for name in WIDE_FLOATS)


@behaviour(
    "pointwise",
    dtypes=("float32", "float64", "int64", "int32", "bool", "complex64"),
    level="core",
    must_detect=("value", "error"),
    page="notes/broadcasting.html",
)
def operators_between_tensors_and_numbers(lab: Lab) -> None:
    """Python's arithmetic and comparison operators work between tensors that broadcast, with numbers on
    either side and in place. Shapes that do not broadcast raise an error. A dimensionless CPU tensor is
    accepted as an operand.
    """
    a, b = lab.integers(4, 3, low=1, high=4), lab.integers(3, low=1, high=4)
    x, y = to_widest_numpy_array(a), to_widest_numpy_array(b)
    is_number = lab.dtype != torch.bool
    for symbol in (
        "add",
        "mul",
        "eq",
        "ne",
        *(("sub", "truediv") if is_number else ()),
        *(() if lab.dtype.is_complex else ("lt", "le", "gt", "ge")),
    ):
        method = f"__{symbol}__"
        function = getattr(numpy.ndarray, method)
        tolerance = {"roundings": 4.0} if symbol == "truediv" or lab.dtype.is_complex else {}
        first, second = (
            (x.astype(float), y.astype(float)) if symbol == "truediv" and not lab.dtype.is_complex else (x, y)
        )
        if is_number:
            lab.expect(symbol, getattr(a, method)(b), function(first, second), **tolerance)
            lab.expect(
                f"{symbol} transposed",
                getattr(a.t(), method)(b.view(3, 1)),
                function(first.T, second.reshape(3, 1)),
                **tolerance,
            )
            lab.expect(f"{symbol} by 2", getattr(a, method)(2), function(first, 2), **tolerance)
            lab.expect(
                f"{symbol} with a dimensionless CPU tensor",
                getattr(a, method)(torch.tensor(2, dtype=lab.dtype)),
                function(first, 2),
                **tolerance,
            )
        else:
            expected = {"add": x | y, "mul": x & y}.get(symbol)
            lab.expect(symbol, getattr(a, method)(b), function(x, y) if expected is None else expected)
        lab.same(f"{symbol} with nothing", getattr(a[:0], method)(b))
        lab.raises(
            f"{symbol} of other sizes",
            lambda: getattr(a, method)(a[:2]),
            match="(?i)size|broadcast",
            text_is_documented=True,
            type_is_documented=True,
        )
        expect_error_for_two_devices(
            lab,
            f"{symbol} of two devices",
            lambda: getattr(a, method)(torch.ones(3, dtype=lab.dtype)),
            match="(?i)device",
        )
    if is_number:
        lab.expect("2 -", 2 - a, 2 - x)
        lab.expect("2 *", 2 * a, 2 * x)
        lab.expect("rsub", torch.rsub(a, 5), 5 - x)
        lab.expect("sub by alpha", torch.sub(a, b, alpha=2), x - 2 * y)
        copy = a.clone()
        copy += b
        copy *= 2
        copy -= a
        lab.expect("in place", copy, (x + y) * 2 - x)
        lab.expect("addcmul", torch.addcmul(a, a, b, value=2), x + 2 * x * y)
    memory = lab.integers(6, low=1, high=4)
    with lab.parity(
        "The page of expand warns of wrong results; no page says that overlapping memory is an error"
    ):
        lab.raises(
            "into overlapping memory",
            lambda: memory[:1].expand(3).add_(memory[:3]),
            match="(?i)memory|single|expanded",
        )
        lab.raises(
            "out= that partly overlaps the operands",
            lambda: torch.add(memory[:5], memory[:5], out=memory[1:]),
            match="(?i)memory|overlap",
        )
    lab.raises(
        "an in-place result larger than the tensor",
        lambda: memory[:1].clone().add_(memory),
        match="(?i)shape|size|broadcast",
        type_is_documented=True,
    )
    logic = [
        ("logical_and", numpy.logical_and),
        ("logical_or", numpy.logical_or),
        ("logical_xor", numpy.logical_xor),
    ]
    for (function_name, reference), operand in itertools.product(
        logic, (b, b.to(torch.bool), b.to(torch.float32))
    ):
        lab.expect(
            f"{function_name} with {operand.dtype}",
            getattr(torch, function_name)(a, operand),
            reference(x, to_widest_numpy_array(operand)),
        )
    odd = torch.zeros(17, dtype=torch.bool, device=lab.device)[1:]
    lab.expect("logical_xor at an offset", torch.logical_xor(odd, torch.ones_like(odd)), [True] * 16)
    out = torch.empty(2, dtype=(a + b).dtype, device=lab.device)
    # This is the last statement, because an error ends the program.
    with lab.parity("The notes on out= allow an error in place of resizing"):
        result = lab.warns("an out= of another shape", lambda: torch.add(a, b, out=out), match="(?i)resized")
        lab.holds("the call returns its out=", result is out)


@behaviour(
    "pointwise",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    page="notes/autograd.html",
    ground="The note asks for the subgradient of minimum norm",
)
def gradients_where_two_are_equal(lab: Lab) -> None:
    """``maximum`` and ``minimum`` give each of two equal operands half of the gradient. The gradient of
    ``copysign`` is zero at zero. ``xlogy`` and ``lerp`` have the gradients of their definitions.
    """
    for function_name in ("maximum", "minimum"):
        a, b = lab.put([1.0, 2, 3], requires_grad=True), lab.put([1.0, 3, 2], requires_grad=True)
        getattr(torch, function_name)(a, b).sum().backward()
        first = [0.5, 0, 1] if function_name == "maximum" else [0.5, 1, 0]
        lab.expect(function_name, [a.grad.tolist(), b.grad.tolist()], [first, [1 - value for value in first]])  # type: ignore[union-attr]
    a = lab.put([0.0, -0.0, 2, -3], requires_grad=True)
    torch.copysign(a, lab.put([1.0, -1, -1, -1])).sum().backward()
    lab.expect("copysign", a.grad, [0.0, 0, -1, 1])
    x, y = lab.put([2.0, 0], requires_grad=True), lab.put([4.0, 2], requires_grad=True)
    torch.xlogy(x, y).sum().backward()
    lab.expect("xlogy by its factor", x.grad, numpy.log([4.0, 2]), roundings=4.0)
    lab.expect("xlogy by its argument", y.grad, [0.5, 0])
    x, y, w = (lab.put(v, requires_grad=True) for v in ([1.0, 2], [5.0, 8], [0.25, 0.5]))
    torch.lerp(x, y, w).sum().backward()
    lab.expect(
        "lerp",
        [x.grad.tolist(), y.grad.tolist(), w.grad.tolist()],  # type: ignore[union-attr]
        [[0.75, 0.5], [0.25, 0.5], [4.0, 6]],
    )
