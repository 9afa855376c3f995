"""Behaviours of unary elementwise operators at known values."""

from __future__ import annotations

import math

import numpy
import torch

from conformance.behaviours.behaviour import FLOATS, INTEGERS, WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import to_widest_numpy_array

_INF, _NAN = math.inf, math.nan


@behaviour(
    "pointwise", dtypes=FLOATS, level="core", must_detect=("value",), page="generated/torch.nan_to_num.html"
)
def replacing_special_values(lab: Lab) -> None:
    """``nan_to_num`` replaces NaN by 0 and infinities by the largest and smallest finite numbers of the
    dtype, or by given values. It works out of place, in place and with ``out=``.
    """
    base = lab.put([_NAN, _INF, -_INF, 1.5], dtype=lab.dtype)
    top = torch.finfo(lab.dtype).max
    lab.expect("by default", base.nan_to_num(), torch.tensor([0, top, -top, 1.5], dtype=torch.float64))
    lab.expect("by numbers", torch.nan_to_num(base, 2.0, 3.0, -4.0), [2.0, 3, -4, 1.5])
    lab.expect("by one number", torch.nan_to_num(base, posinf=7.0)[1:2], [7.0])
    out = torch.empty(4, dtype=lab.dtype, device=lab.device)
    lab.holds("nan_to_num returns out", torch.nan_to_num(base, 2.0, 3.0, -4.0, out=out) is out)
    lab.expect("out", out, [2.0, 3, -4, 1.5])
    lab.holds("nan_to_num_ returns its input", base.nan_to_num_(1.0, 2.0, 3.0) is base)
    lab.expect("in place", base, [1.0, 2, 3, 1.5])


@behaviour(
    "pointwise",
    dtypes=("complex64", "complex128"),
    level="core",
    must_detect=("value", "dtype"),
    page="complex_numbers.html",
    ground="The pages of the functions give formulas that hold for complex numbers",
)
def functions_of_complex_numbers(lab: Lab) -> None:
    """``nan_to_num`` replaces values in the real and in the imaginary part. ``abs`` and ``angle`` return real
    dtypes. ``silu``, ``log1p``, ``exp`` and ``reciprocal`` of complex numbers agree with their definitions.
    """
    top = torch.finfo(lab.dtype).max
    special = lab.put([complex(_NAN, 1), complex(_INF, -_INF), complex(2, _NAN)], dtype=lab.dtype)
    expected = torch.tensor([complex(0, 1), complex(top, -top), 2 + 0j], dtype=torch.complex128)
    with lab.parity("No page says how nan_to_num treats the parts of complex numbers"):
        lab.expect("nan_to_num", special.nan_to_num(), expected)
    base = lab.put([3 + 4j, -5 + 12j, 0j, -1 + 0j, 1j], dtype=lab.dtype)
    array = to_widest_numpy_array(base)
    real = torch.float32 if lab.dtype == torch.complex64 else torch.float64
    lab.expect("abs", base.abs(), [5.0, 13, 0, 1, 1], roundings=2.0)
    lab.expect("angle", base.angle(), numpy.angle(array), roundings=4.0)
    lab.expect(
        "dtypes",
        (
            base.abs().dtype,
            base.angle().dtype,
            torch.abs(base, out=torch.empty(5, dtype=real, device=lab.device)).dtype,
        ),
        (real,) * 3,
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("abs in place", lambda: base.clone().abs_(), match="(?i)complex")
    lab.expect("silu", torch.nn.functional.silu(base), array / (1 + numpy.exp(-array)), roundings=32.0)
    lab.expect("log1p", torch.log1p(base[:3] / 8), numpy.log1p(array[:3] / 8), roundings=16.0)
    lab.expect("exp", torch.exp(base[2:]), numpy.exp(array[2:]), roundings=16.0)
    lab.expect("reciprocal", base[:2].reciprocal(), 1 / array[:2], roundings=8.0)
    turns = 1j * numpy.arange(18) / 3 * math.pi
    lab.expect(
        "turns",
        torch.exp(lab.put(torch.from_numpy(turns), dtype=lab.dtype)),
        numpy.exp(turns),
        roundings=64.0,
    )


@behaviour(
    "pointwise",
    dtypes=(*WIDE_FLOATS, "float16"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.frexp.html",
    ground="The example shows mantissas from 0.5 and int32 exponents",
)
def mantissas_and_exponents(lab: Lab) -> None:
    """``frexp`` returns a mantissa whose magnitude is at least 0.5 and below 1, and an int32 exponent.
    ``ldexp`` is its inverse. Integers raise an error.
    """
    base = lab.put([0.0, 1.0, -3.0, 0.15625, 1024.0, -0.5], dtype=lab.dtype)
    result = torch.frexp(base)
    mantissa, exponent = numpy.frexp(to_widest_numpy_array(base))
    lab.expect("mantissas", result.mantissa, mantissa)
    lab.expect("exponents", result.exponent, exponent)
    lab.expect("dtypes", (result.mantissa.dtype, result.exponent.dtype), (lab.dtype, torch.int32))
    lab.expect(
        "together", torch.ldexp(result.mantissa, result.exponent), to_widest_numpy_array(base), roundings=8.0
    )
    with lab.parity("No page gives the mantissa of infinity"):
        lab.expect("infinities", torch.frexp(lab.put([_INF, -_INF], dtype=lab.dtype)).mantissa, [_INF, -_INF])
    out = (
        torch.empty(6, dtype=lab.dtype, device=lab.device),
        torch.empty(6, dtype=torch.int32, device=lab.device),
    )
    torch.frexp(base, out=out)
    lab.expect("out", out[1], exponent)
    lab.raises("integers", lambda: torch.frexp(base.int()), match="(?i)float")
    lab.raises(
        "frexp into a mantissa of a wrong dtype",
        lambda: torch.frexp(base, out=(out[1].clone(), out[1])),
        match="(?i)dtype",
    )
    lab.raises(
        "frexp into an exponent of a wrong dtype",
        lambda: torch.frexp(base, out=(out[0], out[1].long())),
        match="(?i)dtype|int",
    )


@behaviour("pointwise", dtypes=WIDE_FLOATS, level="core", must_detect=("value",), page="special.html")
def special_functions(lab: Lab) -> None:
    """``digamma``, ``polygamma``, ``igamma``, ``igammac``, ``i0``, ``i1``, ``ndtr``, ``log_ndtr``, ``sinc``
    and ``lgamma`` return known values, also at poles, zero and infinity.
    """

    def tensor_of(*numbers: float) -> torch.Tensor:
        return lab.put(list(numbers), dtype=lab.dtype)

    euler = 0.5772156649015329
    lab.expect(
        "digamma",
        torch.digamma(tensor_of(1, 2, 0.5, 10)),
        numpy.array([-euler, 1 - euler, -euler - 2 * math.log(2), 2.251752589066721]),
        roundings=16.0,
    )
    with lab.parity("The page gives only digamma at 0, and not at other poles and NaN"):
        lab.expect(
            "digamma at poles and infinity",
            torch.digamma(tensor_of(0.0, -0.0, -1, -2, _INF, _NAN)),
            [-_INF, _INF, _NAN, _NAN, _INF, _NAN],
        )
    lab.expect(
        "polygamma",
        torch.polygamma(1, tensor_of(1, 2)),
        numpy.array([math.pi**2 / 6, math.pi**2 / 6 - 1]),
        roundings=16.0,
        dtype=torch.float32,
    )
    lab.raises(
        "polygamma of -1", lambda: torch.polygamma(-1, tensor_of(1)), match="(?i)n >= 0|negative|not support"
    )
    x = tensor_of(0.0, 0.5, 1, 3, 20)
    lab.expect(
        "igamma of 1",
        torch.igamma(torch.ones_like(x), x),
        -numpy.expm1(-to_widest_numpy_array(x)),
        roundings=32.0,
    )
    lab.expect(
        "igammac of 1",
        torch.igammac(torch.ones_like(x), x),
        numpy.exp(-to_widest_numpy_array(x)),
        roundings=32.0,
    )
    lab.expect(
        "igamma of 2",
        torch.igamma(2 * torch.ones_like(x), x),
        1 - (1 + to_widest_numpy_array(x)) * numpy.exp(-to_widest_numpy_array(x)),
        roundings=32.0,
    )
    lab.expect(
        "both together",
        torch.igamma(tensor_of(0.5, 2, 7), tensor_of(1, 2, 3))
        + torch.igammac(tensor_of(0.5, 2, 7), tensor_of(1, 2, 3)),
        [1.0, 1, 1],
        roundings=16.0,
    )
    lab.expect(
        "igamma at edges",
        torch.igamma(tensor_of(0, 0, 3, -1, 2), tensor_of(0, 1, _INF, 1, 0)),
        [_NAN, 1, 1, _NAN, 0],
    )
    lab.expect(
        "igammac at edges",
        torch.igammac(tensor_of(0, 0, 3, -1, 2), tensor_of(0, 1, _INF, 1, 0)),
        [_NAN, 0, 0, _NAN, 1],
    )
    with lab.parity("No page gives the incomplete gamma functions of infinity and NaN as first argument"):
        lab.expect(
            "igamma of infinity and NaN", torch.igamma(tensor_of(_INF, _NAN), tensor_of(3, 1)), [0, _NAN]
        )
        lab.expect("igammac of infinity", torch.igammac(tensor_of(_INF), tensor_of(3)), [1.0])
    lab.expect(
        "i0",
        torch.i0(tensor_of(0, 1, -1, 3, 10, -15)),
        numpy.i0(numpy.array([0.0, 1, 1, 3, 10, 15])),
        roundings=32.0,
    )
    lab.expect(
        "i1",
        torch.special.i1(tensor_of(0, 1, -1)),
        numpy.array([0.0, 0.565159103992485, -0.565159103992485]),
        roundings=32.0,
    )
    lab.expect(
        "scaled",
        torch.special.i0e(tensor_of(0, 1, 30)),
        numpy.i0(numpy.array([0.0, 1, 30])) * numpy.exp(-numpy.array([0.0, 1, 30])),
        roundings=32.0,
    )
    half = [0.5 * math.erfc(-v / math.sqrt(2)) for v in (0.0, 1, -1, 3)]
    lab.expect("ndtr", torch.special.ndtr(tensor_of(0, 1, -1, 3)), numpy.array(half), roundings=16.0)
    lab.expect("log_ndtr", torch.special.log_ndtr(tensor_of(0, 1, -1, 3)), numpy.log(half), roundings=16.0)
    lab.expect(
        "far out",
        torch.special.log_ndtr(tensor_of(-50)),
        numpy.array([-1254.8313611394]),
        roundings=16.0,
        dtype=torch.float32,
    )
    lab.expect(
        "sinc", torch.sinc(tensor_of(0, 0.5, 1, -0.25)), numpy.sinc([0, 0.5, 1, -0.25]), roundings=16.0
    )
    lab.expect("sinc close to zero", torch.sinc(tensor_of(1e-20, -1e-30)), [1.0, 1], roundings=4.0)


@behaviour(
    "pointwise",
    dtypes=FLOATS,
    level="core",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.Hardshrink.html",
)
def activations(lab: Lab) -> None:
    """``hardshrink``, ``hardswish``, ``hardsigmoid``, ``threshold``, ``silu`` and ``mish`` agree with their
    definitions, also at the bounds of piecewise definitions. The gradient of ``hardsigmoid`` is correct at
    these bounds too.
    """

    def tensor_of(*numbers: float) -> torch.Tensor:
        return lab.put(list(numbers), dtype=lab.dtype)

    functional = torch.nn.functional
    x = tensor_of(-8, -3, -1, -0.5, 0, 0.5, 1, 3, 8)
    array = to_widest_numpy_array(x)
    lab.expect("hardshrink", functional.hardshrink(x), numpy.where(abs(array) > 0.5, array, 0))
    for bound in (0.0, 1.0, _INF):
        lab.expect(
            f"hardshrink by {bound}",
            x.hardshrink(bound),
            numpy.where((array < -bound) | (array > bound), array, 0),
        )
    with lab.parity("The formula of the page gives 0 for NaN; no page says that NaN propagates"):
        lab.expect("hardshrink of NaN", tensor_of(_NAN).hardshrink(0.5), [_NAN])
    lab.expect("hardswish", functional.hardswish(x), array * (array + 3).clip(0, 6) / 6, roundings=4.0)
    lab.expect("hardsigmoid", functional.hardsigmoid(x), (array + 3).clip(0, 6) / 6, roundings=4.0)
    copy = x.clone()
    functional.hardswish(copy, inplace=True)
    lab.expect("hardswish in place", copy, array * (array + 3).clip(0, 6) / 6, roundings=4.0)
    lab.expect("threshold", functional.threshold(x, 0.5, 20.0), numpy.where(array > 0.5, array, 20))
    lab.expect("threshold of integers", functional.threshold(lab.put([-1, 0, 5]), 0, 20), [20, 20, 5])
    lab.expect("silu", functional.silu(x), array / (1 + numpy.exp(-array)), roundings=8.0)
    lab.expect("mish", functional.mish(x), array * numpy.tanh(numpy.log1p(numpy.exp(array))), roundings=16.0)
    # The note on autograd asks for the subgradient of minimum norm. At each bound it is zero.
    leaf = tensor_of(-4, -3.5, -3, -1, 0, 2, 3, 3.5, 4).requires_grad_()
    functional.hardsigmoid(leaf).sum().backward()
    lab.expect(
        "gradient of hardsigmoid",
        leaf.grad,
        numpy.array([0, 0, 0, 1, 1, 1, 0, 0, 0]) / 6,
        roundings=4.0,
        dtype=torch.float32,
    )


@behaviour(
    "pointwise",
    dtypes=(*FLOATS, *INTEGERS),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.abs.html",
)
def signs_and_bits(lab: Lab) -> None:
    """``abs`` removes the sign, also of zero and of the extreme numbers. ``~`` inverts the bits of integers
    and booleans, and raises an error for floats. ``isposinf`` and ``isneginf`` return bool and accept only a
    bool ``out=``.
    """
    if lab.dtype.is_floating_point:
        x = lab.put([-0.0, 0.0, -_INF, _NAN, -2.5], dtype=lab.dtype)
        lab.expect("abs", x.abs(), [0.0, 0, _INF, _NAN, 2.5])
        with lab.parity("No page gives the sign of the absolute value of zero"):
            lab.expect("signs after abs", torch.signbit(x.abs()[:3]), [False] * 3)
        lab.expect(
            "abs of the extreme",
            lab.put([torch.finfo(lab.dtype).min], dtype=lab.dtype).abs() == torch.finfo(lab.dtype).max,
            [True],
        )
        lab.expect("signbit", torch.signbit(x[:3]), [True, False, True])
        lab.raises("~ of floats", lambda: ~x, TypeError, RuntimeError, match="(?i)implemented|bool|integ")
        for function_name, expected in (
            ("isposinf", [False, False, False, False, False]),
            ("isneginf", [False, False, True, False, False]),
        ):
            lab.expect(function_name, getattr(torch, function_name)(x), expected)
            lab.raises(
                f"{function_name} into floats",
                lambda: getattr(torch, function_name)(x, out=torch.empty(5, device=lab.device)),
                match="(?i)bool",
            )
    else:
        x = lab.put([0, 1, 5, 100], dtype=lab.dtype)
        top = 255 if lab.dtype == torch.uint8 else -1
        lab.expect("~", ~x, [top - value for value in (0, 1, 5, 100)])
        lab.expect("~ twice", ~~x, [0, 1, 5, 100])
        lab.expect("~ of booleans", ~lab.put([True, False]), [False, True])
        if lab.dtype.is_signed:
            lab.expect("abs", (-x).abs(), [0, 1, 5, 100])
    lab.expect("abs of zeros", torch.zeros(5, dtype=lab.dtype, device=lab.device).abs(), [0] * 5)
    memory = lab.integers(6, low=1, high=4).to(torch.float32)
    for function_name in ("sin", "exp", "neg", "sqrt"):
        with lab.parity("No page says that overlapping memory is an error"):
            lab.raises(
                f"{function_name} into overlapping memory",
                lambda: getattr(torch, function_name)(memory[:1].expand(3), out=memory[:1].expand(3)),
                match="(?i)memory|overlap|expanded",
            )
            lab.raises(
                f"{function_name} with an out= that partly overlaps its input",
                lambda: getattr(torch, function_name)(memory[:5], out=memory[1:]),
                match="(?i)memory|overlap",
            )
    numbers = lab.integers(6, low=1, high=4).to(torch.float32)
    with lab.consistent("The negative written into its own operand must equal the negative itself"):
        lab.same("into its own input", torch.neg(numbers, out=numbers))
