"""Behaviours of ``einsum``, ``tensordot``, ``multi_dot``, cross products, matrix powers and exponentials, and
``renorm``.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy
import torch

from conformance.behaviours.behaviour import COMPLEX, WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, tensor_from_array, to_widest_numpy_array

_DTYPES = ("float32", "float64", "complex64", "complex128")

#: Equations and the shapes of their operands.
EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("i->", ((5,),)),
    ("i,i->", ((5,), (5,))),
    ("i,i->i", ((5,), (5,))),
    ("i,j->ij", ((5,), (7,))),
    ("ij->ji", ((3, 5),)),
    ("ij->j", ((3, 5),)),
    ("ij->i", ((3, 5),)),
    ("ij,ij->ij", ((3, 5), (3, 5))),
    ("ij,j->i", ((3, 5), (5,))),
    ("ij,kj->ik", ((3, 5), (2, 5))),
    ("ij,ab->ijab", ((2, 3), (2, 2))),
    ("bij,bjk->bik", ((2, 3, 5), (2, 5, 4))),
    ("ijk,jk->i", ((2, 3, 5), (3, 5))),
    ("abCd,dFg->abCFg", ((2, 3, 2, 4), (4, 2, 2))),
    ("ijk,jk->ik", ((2, 3, 5), (3, 5))),
    ("ijk,ik->jk", ((2, 3, 5), (2, 5))),
    ("ii", ((4, 4),)),
    ("ii->i", ((4, 4),)),
    ("iji->j", ((2, 3, 2),)),
    ("i...->...", ((4, 3),)),
    ("ki,...k->i...", ((5, 3), (2, 5))),
    ("...ik,...j->...ij", ((2, 3, 5), (4,))),
    ("bik,k...j->i...j", ((2, 3, 5), (5, 3))),
    ("i...j,ij...->...ij", ((2, 3, 5), (2, 5, 2, 3))),
    ("bn,anm,bm->ba", ((3, 4), (2, 4, 5), (3, 5))),
    ("...,be,b...,beg,gi,bc...->bi...", ((3, 5), (2, 5), (2, 3, 5), (2, 5, 2), (2, 2), (2, 3, 3, 5))),
    ("ij->i", ((2, 0),)),
    ("ijk,k->ij", ((3, 0, 6), (6,))),
)


@behaviour("linalg", dtypes=_DTYPES, level="core", must_detect=("value",), page="generated/torch.einsum.html")
def einsum_by_equation(lab: Lab) -> None:
    """``einsum`` returns the results of ``numpy.einsum`` for equations with repeated, missing and reordered
    letters and with ellipses. It accepts several operands of any strides.
    """
    for equation, shapes in EQUATIONS:
        operands = [lab.integers(*shape, low=-2, high=3) for shape in shapes]
        arrays = [to_widest_numpy_array(x) for x in operands]
        lab.expect(equation, torch.einsum(equation, *operands), numpy.einsum(equation, *arrays))
        lab.expect(f"{equation} of a list", torch.einsum(equation, operands), numpy.einsum(equation, *arrays))
        turned = [x.mT.contiguous().mT if x.dim() > 1 else x.repeat_interleave(2)[::2] for x in operands]
        lab.expect(f"{equation} turned", torch.einsum(equation, *turned), numpy.einsum(equation, *arrays))
    lab.expect(
        "spaces",
        torch.einsum(
            " i j , j -> i ", lab.put([[1, 2], [3, 4]], dtype=lab.dtype), lab.put([1, 2], dtype=lab.dtype)
        ),
        [5, 11],
    )
    lab.expect("numbers", torch.einsum(" , -> ", lab.put(2, dtype=lab.dtype), lab.put(3, dtype=lab.dtype)), 6)
    lab.expect(
        "broadcasting",
        torch.einsum("i,ij->ij", lab.put([2], dtype=lab.dtype), lab.put([[1, 2], [3, 4]], dtype=lab.dtype)),
        [[2, 4], [6, 8]],
    )
    lab.expect("an ellipsis of nothing", torch.einsum("...->...", lab.put(3, dtype=lab.dtype)), 3)
    lab.expect(
        "an ellipsis that is summed",
        torch.einsum("z...->z", lab.put([[1, 2], [3, 4]], dtype=lab.dtype)),
        [3, 7],
    )
    lab.expect(
        "an ellipsis between",
        torch.einsum("a...b->ab", lab.put([[[1], [2]], [[3], [4]]], dtype=lab.dtype)),
        [[3], [7]],
    )
    lab.expect(
        "an ellipsis moved", torch.einsum("Z...->...Z", lab.put([[1, 2]], dtype=lab.dtype)), [[1], [2]]
    )


@behaviour("linalg", dtypes=_DTYPES, must_detect=("value",), page="generated/torch.einsum.html")
def einsum_by_lists(lab: Lab) -> None:
    """``einsum`` accepts lists of integers instead of letters, with Ellipsis and with or without an output
    list. The results equal the results of equations with letters, also for random equations.
    """
    x, y = lab.integers(5), lab.integers(7)
    a, b = lab.integers(3, 5), lab.integers(2, 5)
    c = lab.integers(2, 1, 3, 1, 4)
    lab.expect("a vector", torch.einsum(x, [0]), to_widest_numpy_array(x))
    lab.expect("a sum", torch.einsum(x, [0], []), to_widest_numpy_array(x).sum())
    lab.expect(
        "outer",
        torch.einsum(x, [0], y, [1], [0, 1]),
        numpy.outer(to_widest_numpy_array(x), to_widest_numpy_array(y)),
    )
    lab.expect("a transpose", torch.einsum(a, [0, 1], [1, 0]), to_widest_numpy_array(a).T)
    lab.expect(
        "mv", torch.einsum(a, [0, 1], x, [1], [0]), to_widest_numpy_array(a) @ to_widest_numpy_array(x)
    )
    lab.expect(
        "mm",
        torch.einsum(a, [0, 1], b, [2, 1], [0, 2]),
        to_widest_numpy_array(a) @ to_widest_numpy_array(b).T,
    )
    lab.expect(
        "implicit output",
        torch.einsum(a, [0, 1], b, [2, 1]),
        to_widest_numpy_array(a) @ to_widest_numpy_array(b).T,
    )
    lab.expect(
        "a diagonal with an ellipsis",
        torch.einsum(c, [0, 1, 2, 1, Ellipsis], [0, 2, 1, Ellipsis]),
        to_widest_numpy_array(c)[:, 0, :, 0][:, :, None],
    )
    lab.expect(
        "an ellipsis",
        torch.einsum(a.t(), [0, 1], b, [Ellipsis, 0], [1, Ellipsis]),
        to_widest_numpy_array(a) @ to_widest_numpy_array(b).T,
    )
    lab.expect(
        "large numbers",
        torch.einsum(a, [50, 2], x, [2], [50]),
        to_widest_numpy_array(a) @ to_widest_numpy_array(x),
    )
    chooser = random.Random(11)
    for number in range(40):
        sizes = {letter: chooser.randint(1, 4) for letter in "abcde"}
        terms = [
            "".join(chooser.choice("abcde") for _ in range(chooser.randint(1, 3)))
            for _ in range(chooser.randint(1, 3))
        ]
        used = sorted(set("".join(terms)))
        output = "".join(chooser.sample(used, chooser.randint(0, min(3, len(used)))))
        operands = [lab.integers(*(sizes[letter] for letter in term), low=-2, high=3) for term in terms]
        equation = ",".join(terms) + "->" + output
        expected = numpy.einsum(equation, *[to_widest_numpy_array(operand) for operand in operands])
        lab.expect(f"{number}: {equation}", torch.einsum(equation, *operands), expected)
        lists = list(
            itertools.chain(
                *[
                    (operand, ["abcde".index(letter) for letter in term])
                    for operand, term in zip(operands, terms, strict=True)
                ]
            )
        )
        lab.expect(
            f"{number} by lists", torch.einsum(*lists, ["abcde".index(letter) for letter in output]), expected
        )


@behaviour(
    "linalg",
    level="core",
    must_detect=("error", "message"),
    page="generated/torch.einsum.html",
    ground="The page states the rules that these equations break, mostly with the word 'must'",
)
def einsum_refuses(lab: Lab) -> None:
    """Equations that do not match their operands raise errors that describe the mismatch."""
    x, y = lab.integers(2), lab.integers(2, 3)
    for equation, operands, message in (
        (". ..", [x], "not part of any ellipsis"),
        ("... ...", [x], "ellipsis was already found"),
        ("1", [x], "invalid subscript"),
        (",", [x], "fewer operands"),
        ("", [x, x], "more operands"),
        ("", [x], "number of subscripts"),
        ("ai", [x], "number of subscripts"),
        ("ai...", [x], "number of subscripts"),
        ("a->..", [x], "not part of any ellipsis"),
        ("a->1", [x], "invalid subscript"),
        ("a->aa", [x], "more than once"),
        ("a->i", [x], "does not appear"),
        ("aa", [y], "3 != 2|sizes don't match"),
        ("...,...", [x, y], "does not broadcast"),
        ("a,a", [x, lab.integers(3)], "does not broadcast"),
        ("a, ba", [x, y], "does not broadcast"),
    ):
        lab.raises(repr(equation), lambda: torch.einsum(equation, *operands), match=f"(?i){message}")
    with lab.parity("No page says that a call without operands is an error"):
        lab.raises("no operand", lambda: torch.einsum("", []), ValueError, match="(?i)at least one operand")
    lab.raises("a letter below 0", lambda: torch.einsum(x, [-1]), ValueError, match="(?i)range")
    lab.raises("a letter above 51", lambda: torch.einsum(x, [52]), ValueError, match="(?i)range")


@behaviour(
    "linalg",
    dtypes=_DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.multi_dot.html",
)
def chains_of_products(lab: Lab) -> None:
    """``multi_dot`` and ``chain_matmul`` multiply any number of matrices. The first and the last operand of
    ``multi_dot`` may be a vector. ``tensordot`` sums over the chosen dimensions.
    """
    for shapes in (
        ((0,), (0,)),
        ((2,), (2, 0)),
        ((2, 0), (0, 3)),
        ((4, 2), (2, 0), (0, 3), (3, 2)),
        ((2,), (2,)),
        ((1, 2), (2,)),
        ((2,), (2, 1)),
        ((3, 2), (2, 4)),
        ((3,), (3, 4), (4, 2), (2, 5), (5,)),
        ((10, 30), (30, 5), (5, 20)),
    ):
        operands = [lab.integers(*shape, low=-1, high=2) for shape in shapes]
        expected = to_widest_numpy_array(operands[0])
        for operand in operands[1:]:
            expected = expected @ to_widest_numpy_array(operand)
        lab.expect(f"multi_dot of {shapes}", torch.linalg.multi_dot(operands), expected)
        if all(len(shape) == 2 for shape in shapes):
            lab.expect(f"chain_matmul of {shapes}", torch.chain_matmul(*operands), expected)
    a, b = lab.integers(2, 2), lab.integers(2)
    lab.expect("chain_matmul of one", torch.chain_matmul(a), to_widest_numpy_array(a))
    for name, operands, message in (
        ("a number first", [b[0], b], "first tensor"),
        ("a number last", [b, b[0]], "last tensor"),
        ("a vector between", [b, b, b], "must be 2D"),
        ("sizes", [b, lab.integers(3)], "cannot be multiplied"),
        ("sizes between", [b, lab.integers(3, 2), b], "cannot be multiplied"),
    ):
        lab.raises(f"multi_dot of {name}", lambda: torch.linalg.multi_dot(operands), match=f"(?i){message}")
    other_dtype = torch.float64 if lab.dtype != torch.float64 else torch.float32
    for name, operands, message in (
        ("none", [], "at least 2"),
        ("one", [b], "at least 2"),
        ("dtypes", [b, b.to(other_dtype)], "dtype"),
    ):
        with lab.parity("No page says that fewer than two operands, or operands of two dtypes, are an error"):
            lab.raises(
                f"multi_dot of {name}", lambda: torch.linalg.multi_dot(operands), match=f"(?i){message}"
            )
    with lab.parity("Only for arithmetic operations, a page says that an integer out= refuses floats"):
        lab.raises(
            "multi_dot into another dtype",
            lambda: torch.linalg.multi_dot([b, b], out=torch.empty(0, dtype=torch.int64, device=lab.device)),
            match="(?i)dtype",
        )
    lab.raises("chain_matmul of nothing", lambda: torch.chain_matmul(), match="(?i)one or more")
    with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
        lab.raises("chain_matmul of vectors", lambda: torch.chain_matmul(b, b), match="(?i)dimension")
    x, y = lab.integers(3, 4, 5), lab.integers(4, 3, 2)
    expected = numpy.tensordot(to_widest_numpy_array(x), to_widest_numpy_array(y), ([1, 0], [0, 1]))
    lab.expect("tensordot", torch.tensordot(x, y, ([1, 0], [0, 1])), expected)
    out = torch.empty(5, 2, dtype=lab.dtype, device=lab.device)
    lab.expect("tensordot into out", torch.tensordot(x, y, ([1, 0], [0, 1]), out=out), expected)
    u, v = lab.integers(2, 3, 4, 5), lab.integers(4, 5, 2, 3)
    for dims in (0, 1, 2):
        first, second = (x[:2, :2, :2], y[:2, :2]) if dims < 2 else (u, v)
        lab.expect(
            f"tensordot over {dims}",
            torch.tensordot(first, second, dims),
            numpy.tensordot(to_widest_numpy_array(first), to_widest_numpy_array(second), dims),
        )
    lab.expect(
        "tensordot by default",
        torch.tensordot(u, v),
        numpy.tensordot(to_widest_numpy_array(u), to_widest_numpy_array(v)),
    )
    lab.expect(
        "tensordot of numbers",
        torch.tensordot(b[0], b[1], 0),
        to_widest_numpy_array(b)[0] * to_widest_numpy_array(b)[1],
    )
    with lab.parity("The page describes non-negative dims and does not say that other dims are an error"):
        lab.raises("tensordot over -1", lambda: torch.tensordot(u, v, -1), match="(?i)dims >= 0")
    lab.raises(
        "tensordot over other sizes", lambda: torch.tensordot(u, v, ([0], [0])), match="(?i)size|shape|match"
    )


@behaviour(
    "linalg",
    dtypes=(*_DTYPES, "int64"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.cross.html",
    ground="The pages list floating and complex dtypes only, so int64 has basis parity",
)
def cross_products(lab: Lab) -> None:
    """``cross`` and ``linalg.cross`` agree with NumPy along any dimension of size 3, broadcast, and write
    into ``out=``. Any other size raises an error.
    """
    if lab.dtype == torch.int64:
        with lab.parity("The pages list floating and complex dtypes only"):
            _check_cross_products(lab)
    else:
        _check_cross_products(lab)


def _check_cross_products(lab: Lab) -> None:
    a, b = lab.integers(4, 3, 5), lab.integers(4, 3, 5)
    expected = numpy.cross(to_widest_numpy_array(a), to_widest_numpy_array(b), axis=1)
    for function in (torch.cross, torch.linalg.cross):
        name = "linalg.cross" if function is torch.linalg.cross else "cross"
        lab.expect(name, function(a, b, dim=1), expected)
        lab.expect(f"{name} from the end", function(a, b, dim=-2), expected)
        lab.expect(f"{name} transposed", function(a.mT, b.mT, dim=2), expected.swapaxes(1, 2))
        out = torch.empty(0, dtype=lab.dtype, device=lab.device)
        with lab.parity("No page says that the returned object is the out= tensor itself"):
            lab.holds(f"{name} returns out", function(a, b, dim=1, out=out) is out)
        lab.expect(f"{name} into out", out, expected)
        with lab.parity("The page describes vectors of three elements and names no error for other sizes"):
            lab.raises(f"{name} along a dimension of size 4", lambda: function(a, b, dim=0), match="(?i)3")
    lab.expect("the last dimension", torch.linalg.cross(a.mT, b.mT), expected.swapaxes(1, 2))
    lab.expect(
        "broadcast",
        torch.linalg.cross(a[:1, :, :1], b[:, :, 1:3], dim=1),
        numpy.cross(to_widest_numpy_array(a)[:1, :, :1], to_widest_numpy_array(b)[:, :, 1:3], axis=1),
    )
    pairs = a[:, :, 0], b[:, :, 0]
    lab.expect(
        "the first dimension of size 3",
        torch.cross(*pairs),
        numpy.cross(to_widest_numpy_array(pairs[0]), to_widest_numpy_array(pairs[1])),
    )
    lab.expect(
        "the same by number",
        torch.cross(*pairs, dim=1),
        numpy.cross(to_widest_numpy_array(pairs[0]), to_widest_numpy_array(pairs[1])),
    )


@behaviour(
    "linalg",
    dtypes=_DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.matrix_power.html",
)
def matrix_powers(lab: Lab) -> None:
    """``matrix_power`` multiplies a matrix by itself n times. It returns the identity for n = 0 and a power
    of the inverse for negative n, also for batches.
    """
    with_batches = (
        lab.integers(3, 3, low=-1, high=2),
        lab.integers(2, 3, 3, low=-1, high=2),
        lab.integers(0, 3, 3),
        lab.integers(1, 1),
        lab.integers(2, 0, 0),
    )
    for a in with_batches:
        for power in range(6):
            lab.expect(
                f"{tuple(a.shape)} to {power}",
                torch.linalg.matrix_power(a, power),
                numpy.linalg.matrix_power(to_widest_numpy_array(a), power),
            )
    unit = numpy.array([[1.0, 2, 0], [0, 1, 3], [0, 0, 1]]) @ numpy.array([[1.0, 0, 0], [1, 1, 0], [0, 2, 1]])
    a = tensor_from_array(lab, unit)
    inverse = numpy.round(numpy.linalg.inv(unit))
    for power in (-1, -2, -3):
        # The determinant is 1, so the entries of the inverse are whole numbers. The squared condition number
        # bounds their size.
        lab.expect(
            f"to {power}",
            torch.linalg.matrix_power(a, power),
            numpy.linalg.matrix_power(inverse, -power),
            roundings=64 * numpy.linalg.cond(unit),
        )
        lab.expect(
            f"a batch to {power}",
            torch.linalg.matrix_power(torch.stack([a, a]), power)[1],
            numpy.linalg.matrix_power(inverse, -power),
            roundings=64 * numpy.linalg.cond(unit),
        )
    with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
        lab.raises("not square", lambda: torch.linalg.matrix_power(a[:2], 2), match="(?i)square")
        lab.raises("a vector", lambda: torch.linalg.matrix_power(a[0], 2), match="(?i)2 dimensions")
    lab.raises(
        "a singular inverse",
        lambda: torch.linalg.matrix_power(torch.zeros_like(a), -1),
        torch.linalg.LinAlgError,  # type: ignore[attr-defined]
    )


@behaviour(
    "linalg",
    dtypes=_DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.matrix_exp.html",
)
def matrix_exponentials(lab: Lab) -> None:
    """``matrix_exp`` of a zero matrix is the identity. For a diagonal matrix, it is the diagonal matrix of
    the exponentials. For a nilpotent matrix, it is a polynomial of the matrix. Adding t times the identity
    multiplies the result by ``exp(t)``. ``matrix_exp`` of a batch contains the result of each matrix.
    """
    zero = torch.zeros(4, 4, dtype=lab.dtype, device=lab.device)
    lab.expect("zero", torch.linalg.matrix_exp(zero), numpy.eye(4))
    for scale in (1e-6, 1e-3, 0.1, 0.7, 1.5, 4.0):
        diagonal = numpy.array([0.5, -1.0, 0.25, 1.0]) * scale
        # A kernel may scale the matrix down and square the result repeatedly. Each squaring adds about one
        # rounding per element.
        lab.expect(
            f"a diagonal of {scale}",
            torch.linalg.matrix_exp(tensor_from_array(lab, numpy.diag(diagonal))),
            numpy.diag(numpy.exp(diagonal)),
            roundings=64.0,
            matrix=True,
        )
        nil = numpy.triu(numpy.full((4, 4), scale), 1)
        expected = numpy.eye(4) + nil + nil @ nil / 2 + nil @ nil @ nil / 6
        lab.expect(
            f"nilpotent of {scale}",
            torch.linalg.matrix_exp(tensor_from_array(lab, nil)),
            expected,
            roundings=64.0,
            matrix=True,
        )
        if scale >= 0.1:
            lab.expect(
                f"shifted by {scale}",
                torch.linalg.matrix_exp(tensor_from_array(lab, nil + scale * numpy.eye(4))),
                expected * math.exp(scale),
                roundings=256.0,
                matrix=True,
            )
        turn = scale * numpy.array([[0.0, -1], [1, 0]])
        rotation = numpy.array([[math.cos(scale), -math.sin(scale)], [math.sin(scale), math.cos(scale)]])
        lab.expect(
            f"a turn by {scale}",
            torch.linalg.matrix_exp(tensor_from_array(lab, turn)),
            rotation,
            roundings=128.0,
            matrix=True,
        )
    batch = numpy.stack([numpy.triu(numpy.full((3, 3), s), 1) for s in (0.01, 0.5, 3.0, 0.0)])
    expected = numpy.eye(3) + batch + batch @ batch / 2
    lab.expect(
        "a batch",
        torch.linalg.matrix_exp(tensor_from_array(lab, batch)),
        expected,
        roundings=64.0,
        matrix=True,
    )
    lab.expect(
        "two dimensions of batches",
        torch.matrix_exp(tensor_from_array(lab, batch.reshape(2, 2, 3, 3))),
        expected.reshape(2, 2, 3, 3),
        roundings=64.0,
        matrix=True,
    )
    large = numpy.triu(numpy.full((40, 40), 0.0), 1)
    large[numpy.arange(39), numpy.arange(1, 40)] = 0.5
    lab.expect(
        "a large one",
        torch.linalg.matrix_exp(tensor_from_array(lab, large))[0, :4],
        numpy.array([1.0, 0.5, 0.125, 0.125 / 6]),
        roundings=64.0,
        matrix=True,
    )
    numbers = lab.floats(3, 2, 1, 1)
    lab.close("1 by 1", torch.linalg.matrix_exp(numbers) - numbers.exp() + 1, roundings=16.0, matrix=True)
    lab.same(
        "nothing", [torch.linalg.matrix_exp(zero[:0, :0]), torch.linalg.matrix_exp(zero.expand(0, 4, 4))]
    )
    with lab.parity("The page lists dtypes and does not say that other dtypes are an error"):
        lab.raises(
            "integers",
            lambda: torch.linalg.matrix_exp(torch.zeros(2, 2, dtype=torch.int32, device=lab.device)),
            match="(?i)float",
        )
    with lab.parity("The page gives the expected shape and does not say that other shapes are an error"):
        lab.raises("a vector", lambda: torch.linalg.matrix_exp(zero[0]), match="(?i)2 dimensions")
        lab.raises("not square", lambda: torch.linalg.matrix_exp(zero[:2]), match="(?i)square")


@behaviour(
    "linalg",
    dtypes=(*WIDE_FLOATS, *COMPLEX),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.renorm.html",
)
def renormalising(lab: Lab) -> None:
    """``renorm`` scales down each slice whose p-norm exceeds the bound. Other slices do not change."""

    def check_scaled(name: str, result: torch.Tensor, array: Array, norms: Array, bound: float) -> None:
        # Before the division, the CPU increases the norm by 1e-7, so that the scaled norm is below the bound.
        expected = array * numpy.where(norms > bound, bound / numpy.maximum(norms, bound), 1)
        lab.expect(name, result, expected, roundings=64.0, dtype=torch.float32)
        with lab.parity("No page says that the norm is increased by 1e-7 before the division"):
            expected = array * numpy.where(norms > bound, bound / (norms + 1e-7), 1)
            lab.expect(f"{name}, precisely", result, expected, roundings=64.0)

    base = tensor_from_array(lab, numpy.array([[3.0, 4, 0, 0], [0.5, 0, 0, 0.5], [1, 1, 1, 1], [0, 0, 0, 0]]))
    array = to_widest_numpy_array(base)
    for p in (1, 2, 3, 0.5, math.inf):
        norms = numpy.linalg.norm(array, p, axis=1, keepdims=True)
        check_scaled(f"rows by {p}", torch.renorm(base, p, 0, 1.5), array, norms, 1.5)
        check_scaled(f"columns by {p}", torch.renorm(base.t(), p, 1, 1.5), array.T, norms.T, 1.5)
    cube, cube_array = base.view(2, 2, 2, 2), array.reshape(2, 2, 2, 2)
    norms = numpy.sqrt((abs(cube_array) ** 2).sum((1, 2, 3), keepdims=True))
    check_scaled("of four dimensions", torch.renorm(cube, 2, 0, 2.0), cube_array, norms, 2.0)
    copy = base.clone()
    lab.holds("renorm_ returns its input", copy.renorm_(2, 0, 100.0) is copy)
    lab.expect("below the bound", copy, array)
    with lab.parity("No page says that this call is an error"):
        lab.raises("a vector", lambda: base[0].renorm(2, 0, 1.0), match="(?i)dim")
        lab.raises("p of 0", lambda: base.renorm(0, 0, 1.0), match="(?i)positive")
        lab.raises("a negative bound", lambda: base.renorm(2, 0, -1.0), match="(?i)maxnorm")
