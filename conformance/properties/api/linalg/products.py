"""Behaviours of products of vectors and matrices. The elements are whole numbers, so that every sum is
exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, COMPLEX, FLOATS, NUMBERS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import expect_error_for_two_devices, to_widest_numpy_array

_PRODUCTS = (*FLOATS, *COMPLEX)
_OUT_OF_VECTORS = "The page of matmul says that out= is not supported for two vectors"
_COMPLEX_FACTORS = "The pages describe real numbers and integers as alpha and beta, not complex numbers"


@behaviour(
    "linalg",
    dtypes=_PRODUCTS,
    level="bringup",
    must_detect=("value", "shape"),
    page="generated/torch.matmul.html",
)
def matrix_products(lab: Lab) -> None:
    """``matmul`` multiplies vectors, matrices and batches whose dimensions broadcast, for any strides and
    into ``out=``.
    """
    left = ((3,), (2, 3), (4, 2, 3), (2, 1, 2, 3), (1, 3), (0, 3), (2, 0))
    right = ((3,), (3, 2), (4, 3, 2), (4, 3, 1), (3, 1, 3, 2), (3, 0), (0, 4), (0,))
    for left_shape, right_shape in itertools.product(left, right):
        if left_shape[-1] != (right_shape[0] if len(right_shape) == 1 else right_shape[-2]):
            continue
        for turned in (False, True):
            a, b = lab.integers(*left_shape), lab.integers(*right_shape)
            if turned:
                a = a.mT.contiguous().mT if a.dim() > 1 else a.repeat_interleave(2)[::2]
                b = b.mT.contiguous().mT if b.dim() > 1 else b.repeat_interleave(2)[::2]
            try:
                expected = numpy.matmul(to_widest_numpy_array(a), to_widest_numpy_array(b))
            except ValueError:
                lab.raises(f"{left_shape} and {right_shape}", lambda: a @ b)
                continue
            name = f"{left_shape} and {right_shape}{' transposed' if turned else ''}"
            lab.expect(name, torch.matmul(a, b), expected)
            out = torch.empty(0, dtype=lab.dtype, device=lab.device)
            of_vectors = len(left_shape) == len(right_shape) == 1
            with lab.parity(_OUT_OF_VECTORS) if of_vectors else lab.documented():
                lab.holds(f"matmul of {name} returns out", torch.matmul(a, b, out=out) is out)
                lab.expect(f"out of {name}", out, expected)
    a, b = lab.integers(2, 3, 4, 4, low=-2, high=3), lab.integers(3, 2, 3, 4, 4, low=-2, high=3)
    lab.expect(
        "a permuted batch",
        a.permute(0, 1, 3, 2).matmul(b),
        numpy.matmul(to_widest_numpy_array(a).transpose(0, 1, 3, 2), to_widest_numpy_array(b)),
    )


@behaviour(
    "linalg",
    dtypes=_PRODUCTS,
    level="core",
    must_detect=("value",),
    capabilities=("strides",),
    page="generated/torch.mm.html",
    ground="The product is defined by its elements, so strides cannot change it",
)
def mm_and_bmm_of_any_strides(lab: Lab) -> None:
    """``mm``, ``bmm`` and ``mv`` accept transposed, sliced, expanded and overlapping operands, write into an
    ``out=`` of any strides, and return zeros for an empty sum.
    """
    a, b = lab.integers(5, 4, low=-3, high=4), lab.integers(4, 6, low=-3, high=4)
    expected = to_widest_numpy_array(a) @ to_widest_numpy_array(b)
    forms = {
        "as they are": (a, b),
        "the left transposed": (a.t().contiguous().t(), b),
        "the right transposed": (a, b.t().contiguous().t()),
        "both transposed": (a.t().contiguous().t(), b.t().contiguous().t()),
        "with gaps": (a.repeat_interleave(2, 1)[:, ::2], b.repeat_interleave(3, 0)[::3]),
        "at offsets": (torch.cat([a[:1], a])[1:], torch.cat([b[:, :3], b], 1)[:, 3:]),
    }
    for name, (left, right) in forms.items():
        lab.expect(name, torch.mm(left, right), expected)
        for order in ("plain", "transposed", "gaps"):
            size = (6, 5) if order == "transposed" else (5, 12 if order == "gaps" else 6)
            out = torch.full(size, math.nan, dtype=lab.dtype, device=lab.device)
            out = out.t() if order == "transposed" else out[:, ::2] if order == "gaps" else out
            lab.holds(f"mm {name} returns its {order} out=", torch.mm(left, right, out=out) is out)
            lab.expect(f"{name} into a {order} out", out, expected)
        batch = torch.stack([left, left + 1]).contiguous(), torch.stack([right, right])
        lab.expect(
            f"bmm {name}",
            torch.bmm(*batch),
            to_widest_numpy_array(batch[0]) @ to_widest_numpy_array(batch[1]),
        )
        lab.expect(
            f"bmm {name} of an expanded batch",
            torch.bmm(left.expand(3, 5, 4), right.expand(3, 4, 6)),
            numpy.stack([expected] * 3),
        )
        lab.expect(
            f"mv {name}", torch.mv(left, b[:, 1]), to_widest_numpy_array(a) @ to_widest_numpy_array(b)[:, 1]
        )
    for axes in itertools.permutations(range(3)):
        x, y = lab.integers(3, 4, 5, low=-2, high=3), lab.integers(3, 5, 2, low=-2, high=3)
        back = [axes.index(d) for d in range(3)]
        left, right = x.permute(axes).contiguous().permute(back), y.permute(axes).contiguous().permute(back)
        out = (
            torch.full((3, 4, 2), math.nan, dtype=lab.dtype, device=lab.device)
            .permute(axes)
            .contiguous()
            .permute(back)
        )
        lab.expect(
            f"bmm in order {axes}",
            torch.bmm(left, right, out=out),
            to_widest_numpy_array(x) @ to_widest_numpy_array(y),
        )
    lab.expect(
        "an expanded row",
        torch.mm(a[:1].expand(5, 4), b[:, :1].expand(4, 6)),
        numpy.repeat(to_widest_numpy_array(a)[:1], 5, 0)
        @ numpy.repeat(to_widest_numpy_array(b)[:, :1], 6, 1),
    )
    memory = lab.integers(6, low=-3, high=4)
    sliding = memory.as_strided((2, 2, 2), (3, 1, 1))
    lab.expect(
        "overlapping matrices",
        torch.bmm(sliding, sliding),
        to_widest_numpy_array(sliding) @ to_widest_numpy_array(sliding),
    )
    lab.expect(
        "an overlapping matrix",
        torch.mm(sliding[0], sliding[0]),
        to_widest_numpy_array(sliding[0]) @ to_widest_numpy_array(sliding[0]),
    )
    if lab.dtype.is_complex:
        lab.expect(
            "a conjugate", torch.mm(a.conj(), b), to_widest_numpy_array(a).conj() @ to_widest_numpy_array(b)
        )
        lab.expect(
            "conjugates with gaps",
            torch.mm(a[:, ::2].conj(), b[::2].conj()),
            to_widest_numpy_array(a)[:, ::2].conj() @ to_widest_numpy_array(b)[::2].conj(),
        )
        lab.expect(
            "an adjoint", torch.mm(b.mH, a.mH), (to_widest_numpy_array(a) @ to_widest_numpy_array(b)).conj().T
        )
        lab.expect(
            "a batch of adjoints",
            torch.bmm(b.mH.expand(2, 6, 4), a.t().conj().expand(2, 4, 5)),
            numpy.stack([(to_widest_numpy_array(a) @ to_widest_numpy_array(b)).conj().T] * 2),
        )


@behaviour(
    "linalg",
    dtypes=("int8", "int16", "int32", "int64", "uint8"),
    must_detect=("value",),
    page="generated/torch.mm.html",
    ground=(
        "an exact product follows from the definition; no page promises integer dtypes, so a refusal is "
        "accepted"
    ),
)
def integer_products(lab: Lab) -> None:
    """``mm``, ``mv``, ``dot``, ``bmm`` and ``addmm`` of integers are exact, or raise an error that contains
    "implemented" or "support".
    """
    a, b = lab.integers(5, 4, low=0, high=4), lab.integers(4, 3, low=0, high=4)
    array, second = to_widest_numpy_array(a), to_widest_numpy_array(b)
    product = array @ second
    calls: dict[str, tuple[Callable[[], torch.Tensor], Any]] = {
        "mm": (lambda: torch.mm(a, b), product),
        "mm transposed": (lambda: torch.mm(b.t(), a.t()), product.T),
        "mv": (lambda: torch.mv(a, b[:, 0]), product[:, 0]),
        "dot": (lambda: torch.dot(a[0], b[:, 1]), product[0, 1]),
        "bmm": (lambda: torch.bmm(a.expand(2, 5, 4), b.expand(2, 4, 3)), numpy.stack([product] * 2)),
        "addmm": (lambda: torch.addmm(b[:1], a, b), product + second[:1]),
    }
    for name, (call, expected) in calls.items():
        # A device need not support every dtype. An exact result and a refusal therefore give the same
        # observations.
        exact = named = True
        try:
            exact = bool(numpy.array_equal(to_widest_numpy_array(call()), expected))
        except RuntimeError as error:
            named = "implemented" in str(error) or "support" in str(error)
        lab.holds(f"{name} is exact or refused", exact)
        with lab.parity("No page says which words a refusal contains"):
            lab.holds(f"a refusal of {name} names the dtype or the operator", named)


@behaviour(
    "linalg",
    dtypes=_PRODUCTS,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.addmm.html",
)
def sums_of_products(lab: Lab) -> None:
    """``addmm``, ``addmv``, ``addr``, ``addbmm`` and ``baddbmm`` return ``beta`` times a tensor that
    broadcasts plus ``alpha`` times a product, also in place and into ``out=``. With ``beta=0`` the tensor is
    ignored, even if it contains NaN.
    """
    alpha, beta = 2, 3
    m, n = lab.integers(4, 3, low=-2, high=3), lab.integers(3, 5, low=-2, high=3)
    v, w = n[:, 0], lab.integers(5, low=-2, high=3)
    p, q = lab.integers(2, 4, 3, low=-2, high=3), lab.integers(2, 3, 5, low=-2, high=3)
    cases = {
        "addmm": ((m, n), to_widest_numpy_array(m) @ to_widest_numpy_array(n)),
        "addmv": ((m, v), to_widest_numpy_array(m) @ to_widest_numpy_array(v)),
        "addr": ((m[:, 0], w), numpy.outer(to_widest_numpy_array(m)[:, 0], to_widest_numpy_array(w))),
        "addbmm": ((p, q), (to_widest_numpy_array(p) @ to_widest_numpy_array(q)).sum(0)),
        "baddbmm": ((p, q), to_widest_numpy_array(p) @ to_widest_numpy_array(q)),
    }
    for name, (operands, product) in cases.items():
        function = getattr(torch, name)
        full = lab.integers(*product.shape, low=-2, high=3)
        for summand in (
            full,
            full[..., :1],
            full[(0,) * (full.dim() - 1)][:1],
            full.mT.contiguous().mT if full.dim() > 1 else full,
        ):
            lab.expect(
                f"{name} of {tuple(summand.shape)}",
                function(summand, *operands),
                to_widest_numpy_array(summand) + product,
            )
            lab.expect(
                f"scaled {name} of {tuple(summand.shape)}",
                function(summand, *operands, beta=beta, alpha=alpha),
                beta * to_widest_numpy_array(summand) + alpha * product,
            )
        if lab.dtype.is_complex:
            with lab.parity(_COMPLEX_FACTORS):
                lab.expect(
                    f"{name} scaled by complex numbers",
                    function(full, *operands, beta=3 + 1j, alpha=2 - 1j),
                    (3 + 1j) * to_widest_numpy_array(full) + (2 - 1j) * product,
                )
        nan = torch.full_like(full, math.nan)
        lab.expect(f"{name} without its tensor", function(nan, *operands, beta=0), product)
        out = torch.full_like(full, math.nan)
        lab.holds(f"{name} returns out", function(full, *operands, beta=beta, out=out) is out)
        lab.expect(f"{name} into out", out, beta * to_widest_numpy_array(full) + product)
        out = torch.full_like(full, math.nan)
        lab.expect(
            f"{name} with beta=0 and a tensor of NaN into out",
            function(nan, *operands, beta=0, alpha=alpha, out=out),
            alpha * product,
        )
        copy = full.clone()
        lab.holds(f"{name}_ returns its input", getattr(copy, f"{name}_")(*operands, alpha=alpha) is copy)
        lab.expect(f"{name}_", copy, to_widest_numpy_array(full) + alpha * product)
        turned = [x.mT.contiguous().mT if x.dim() > 1 else x.repeat_interleave(2)[::2] for x in operands]
        lab.expect(
            f"{name} of turned operands",
            function(full, *turned, beta=beta),
            beta * to_widest_numpy_array(full) + product,
        )
        expanded = [x[:1].expand(x.shape) for x in operands]
        lab.same(f"{name} of expanded operands", function(full, *expanded))
        expect_error_for_two_devices(lab, f"{name} of two devices", lambda: function(full.cpu(), *operands))
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("addmm of other sizes", lambda: torch.addmm(m, m, m), match="(?i)shape|size")
    lab.raises(
        "addmm of a tensor that does not broadcast",
        lambda: torch.addmm(lab.integers(2, 5), m, n),
        match="(?i)expand|size|match|broadcast",
    )
    with lab.parity("No page says that a number in place of a vector is an error"):
        lab.raises("addmv of a number", lambda: torch.addmv(v, m, w[0]))
    if not lab.dtype.is_complex and lab.dtype.itemsize >= 4:
        old = p[0] @ q[0]
        old_values = to_widest_numpy_array(old)
        with lab.parity("The order of arguments with a leading number is undocumented"):
            lab.warns(
                "the old argument order of addbmm_",
                lambda: old.addbmm_(1, p, q),  # type: ignore[arg-type,call-arg]
                match="(?i)deprecated",
            )
            lab.expect("the old order of addbmm_", old, old_values + cases["addbmm"][1])


@behaviour(
    "linalg",
    dtypes=(*_PRODUCTS, "int64", "int32"),
    level="core",
    must_detect=("value",),
    page="generated/torch.mm.html",
    ground="A sum of no terms is zero by definition",
)
def products_over_nothing(lab: Lab) -> None:
    """If the summed dimension is empty, a product is zero, and ``addmm`` and related functions return
    ``beta`` times the added tensor. If another dimension is empty, the result is empty.
    """
    beta = 3
    if not (lab.dtype.is_floating_point or lab.dtype.is_complex):
        with lab.parity("No page promises products of integers, so a device may refuse them"):
            torch.mm(lab.integers(1, 1), lab.integers(1, 1))

    def empty_tensor(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=lab.dtype, device=lab.device)

    cases = {
        "mm": (torch.mm, (5, 0), (0, 6)),
        "bmm": (torch.bmm, (3, 5, 0), (3, 0, 6)),
        "mv": (torch.mv, (3, 0), (0,)),
        "dot": (torch.dot, (0,), (0,)),
        "matmul": (torch.matmul, (5, 3, 0), (5, 0, 4)),
        "vectors": (torch.matmul, (0,), (0,)),
        "no rows": (torch.mm, (0, 2), (2, 3)),
        "no columns": (torch.mm, (3, 2), (2, 0)),
        "no batch": (torch.bmm, (0, 5, 2), (0, 2, 6)),
        "inner": (torch.inner, (2, 0), (3, 0)),
        "outer": (torch.outer, (0,), (5,)),
        "ger": (torch.ger, (5,), (0,)),
    }
    for name, (function, left_shape, right_shape) in cases.items():
        result = function(empty_tensor(*left_shape), empty_tensor(*right_shape))  # type: ignore[operator]
        lab.expect(name, result, numpy.zeros(result.shape))
        if name not in ("ger",):
            out = torch.full_like(result, 7)
            with lab.parity(_OUT_OF_VECTORS) if name == "vectors" else lab.documented():
                lab.expect(
                    f"{name} into out",
                    function(empty_tensor(*left_shape), empty_tensor(*right_shape), out=out),  # type: ignore[operator]
                    numpy.zeros(result.shape),
                )
    for name, shape, left_shape, right_shape in (
        ("addmm", (2, 3), (2, 0), (0, 3)),
        ("addmv", (2,), (2, 0), (0,)),
        ("baddbmm", (3, 2, 5), (3, 2, 0), (3, 0, 5)),
        ("addbmm", (5, 6), (0, 5, 0), (0, 0, 6)),
        ("addbmm", (5, 6), (2, 5, 0), (2, 0, 6)),
        ("addr", (0, 5), (0,), (5,)),
    ):
        summand = lab.integers(*shape)
        function = getattr(torch, name)
        lab.expect(
            f"{name} of {left_shape}",
            function(summand, empty_tensor(*left_shape), empty_tensor(*right_shape)),
            to_widest_numpy_array(summand),
        )
        lab.expect(
            f"scaled {name} of {left_shape}",
            function(summand, empty_tensor(*left_shape), empty_tensor(*right_shape), beta=beta, alpha=2),
            beta * to_widest_numpy_array(summand),
        )
        out = torch.full_like(summand, 7)
        lab.expect(
            f"{name} of {left_shape} into out",
            function(summand, empty_tensor(*left_shape), empty_tensor(*right_shape), beta=beta, out=out),
            beta * to_widest_numpy_array(summand),
        )


@behaviour(
    "linalg",
    dtypes=_PRODUCTS,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.inner.html",
)
def inner_products(lab: Lab) -> None:
    """``dot``, ``vdot``, ``inner`` and ``vecdot`` of vectors of any strides are exact. ``vdot`` and
    ``vecdot`` conjugate the first operand. Operands whose lengths, dtypes or dimensions do not match raise
    errors.
    """
    a, b = lab.integers(60, low=-2, high=3), lab.integers(60, low=-1, high=2)
    x, y = to_widest_numpy_array(a), to_widest_numpy_array(b)
    for name, left, right in (
        ("plain", a, b),
        ("with gaps", a[::3], b[1::3]),
        ("expanded", a[:1].expand(20), b[:20]),
        ("reversed gaps", a[:40:2], b.flip(0)[:20]),
        ("nothing", a[:0], b[:0]),
    ):
        lab.expect(
            f"dot {name}", torch.dot(left, right), to_widest_numpy_array(left) @ to_widest_numpy_array(right)
        )
        lab.expect(
            f"vdot {name}",
            torch.vdot(left, right),
            numpy.vdot(to_widest_numpy_array(left), to_widest_numpy_array(right)),
        )
        lab.expect(
            f"inner {name}",
            torch.inner(left, right),
            numpy.inner(to_widest_numpy_array(left), to_widest_numpy_array(right)),
        )
        out = torch.empty((), dtype=lab.dtype, device=lab.device)
        lab.expect(
            f"dot {name} into out",
            torch.dot(left, right, out=out),
            to_widest_numpy_array(left) @ to_widest_numpy_array(right),
        )
    lab.expect(
        "vecdot of rows",
        torch.linalg.vecdot(a.view(6, 10), b.view(6, 10)),
        (x.conj() * y).reshape(6, 10).sum(1),
    )
    for left_shape, right_shape in (
        ((), ()),
        ((), (3,)),
        ((), (2, 3)),
        ((3,), (2, 3)),
        ((1, 2), (3, 4, 2)),
        ((2, 1, 2), (1, 2)),
        ((2,), (3, 0, 2)),
    ):
        first, second = lab.integers(*left_shape), lab.integers(*right_shape)
        lab.expect(
            f"inner of {left_shape} and {right_shape}",
            torch.inner(first, second),
            numpy.inner(to_widest_numpy_array(first), to_widest_numpy_array(second)),
        )
    if lab.dtype.is_complex:
        lab.expect("dot of a conjugate", torch.dot(a.conj(), b), x.conj() @ y)
        lab.expect("vdot of conjugates", torch.vdot(a.conj(), b.conj()), x @ y.conj())
    for function in (torch.dot, torch.vdot):
        function_name = function.__name__
        other_dtype = torch.float64 if lab.dtype != torch.float64 else torch.float32
        with lab.parity("No page says that operands of two dtypes are an error"):
            lab.raises(
                f"{function_name} of two dtypes", lambda: function(a, b.to(other_dtype)), match="(?i)dtype"
            )
        lab.raises(f"{function_name} of a matrix", lambda: function(a.view(1, 60), b), match="(?i)1D tensors")
        lab.raises(f"{function_name} of other lengths", lambda: function(a, b[:5]), match="(?i)size")
        expect_error_for_two_devices(
            lab, f"{function_name} of two devices", lambda: function(a.cpu(), b), match="(?i)device"
        )
    lab.raises(
        "inner of other lengths",
        lambda: torch.inner(a.view(6, 10), b.view(10, 6)),
        match="(?i)last dimension",
    )
    with lab.parity("No page says that a number in place of a vector is an error"):
        lab.raises("mv of a number", lambda: torch.mv(a.view(6, 10), b[0]))
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "mm of other sizes", lambda: torch.mm(a.view(6, 10), b.view(6, 10)), match="(?i)6x10|shapes"
        )
    with lab.parity("No page says that operands of two dtypes are an error"):
        lab.raises(
            "mm of two dtypes",
            lambda: torch.mm(a.view(6, 10), b.view(10, 6).to(torch.int16)),
            match="(?i)dtype",
        )


@behaviour(
    "linalg", dtypes=ALL, level="core", must_detect=("value", "error"), page="generated/torch.outer.html"
)
def outer_products(lab: Lab) -> None:
    """``outer``, ``ger`` and ``kron`` agree with NumPy: ``outer`` and ``ger`` for vectors of any strides,
    ``kron`` for tensors of any dimensions. An ``out=`` of another shape is resized with a warning. An
    ``out=`` of a lower dtype raises an error.
    """
    a, b = lab.integers(7, low=0, high=4), lab.integers(5, low=0, high=4)
    for name, left, right in (
        ("plain", a, b),
        ("expanded", a[:1].expand(6), b),
        ("both", a[:1].expand(6), b[:1].expand(3)),
        ("with gaps", a[::2], b[1::2]),
    ):
        expected = numpy.outer(to_widest_numpy_array(left), to_widest_numpy_array(right))
        for form in (torch.outer, torch.ger, torch.Tensor.outer, torch.Tensor.ger):
            lab.expect(f"{form.__name__} {name}", form(left, right), expected)
        out = torch.empty(expected.shape, dtype=lab.dtype, device=lab.device)
        lab.expect(f"{name} into out", torch.outer(left, right, out=out), expected)
    for left_shape, right_shape in itertools.product(
        ((2,), (2, 2), (1, 2, 3)), ((3,), (2, 1), (2, 1, 2), (0,), (2, 0))
    ):
        first, second = lab.integers(*left_shape, low=0, high=4), lab.integers(*right_shape, low=0, high=4)
        expected = numpy.kron(to_widest_numpy_array(first), to_widest_numpy_array(second))
        lab.expect(f"kron of {left_shape} and {right_shape}", torch.kron(first, second), expected)
        lab.same(f"kron of {right_shape} and {left_shape}", torch.kron(second, first))
    matrix = lab.integers(2, 2, low=0, high=4)
    out = torch.empty(3, 3, dtype=lab.dtype, device=lab.device)
    result = lab.warns(
        "kron into another shape", lambda: torch.kron(matrix, matrix, out=out), match="(?i)resized"
    )
    lab.expect(
        "kron into another shape",
        result,
        numpy.kron(to_widest_numpy_array(matrix), to_widest_numpy_array(matrix)),
    )
    if lab.dtype.is_floating_point or lab.dtype.is_complex:
        lab.raises(
            "kron into int32",
            lambda: torch.kron(
                matrix, matrix, out=out.to(torch.int32 if not lab.dtype.is_complex else torch.float32)
            ),
            match="(?i)can't be cast",
        )
    with lab.parity("No page says that a number in place of a vector is an error"):
        lab.raises("outer of a number", lambda: torch.outer(a, b[0]), match="(?i)1-D|vector|dim")
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("outer of a matrix", lambda: torch.outer(matrix, b), match="(?i)1-D|vector|dim")
    with lab.parity("No page says that a number in place of a vector is an error"):
        lab.raises("ger of a number", lambda: torch.ger(a[0], b))
        lab.raises("addr of a number", lambda: torch.addr(matrix, a[0], b))


@behaviour(
    "linalg",
    dtypes=(*NUMBERS, "bool"),
    level="core",
    must_detect=("value", "dtype"),
    page="generated/torch.addr.html",
)
def addr_by_dtype(lab: Lab) -> None:
    """The results of ``addr`` and ``outer`` have the common dtype of the operands. For numbers, ``beta`` and
    ``alpha`` are factors. For booleans, False removes the tensor (``beta``) or the product (``alpha``).
    """
    m, a, b = (
        lab.integers(3, 2, low=0, high=3),
        lab.integers(3, low=0, high=3),
        lab.integers(2, low=0, high=3),
    )
    outer = numpy.outer(to_widest_numpy_array(a), to_widest_numpy_array(b))
    if lab.dtype == torch.bool:
        for beta, alpha in itertools.product((True, False), repeat=2):
            with lab.parity("No page says what beta and alpha do to booleans"):
                lab.expect(
                    f"{beta} and {alpha}",
                    torch.addr(m, a, b, beta=beta, alpha=alpha),
                    (to_widest_numpy_array(m) & beta) | (outer & alpha),
                )
    else:
        lab.expect("2 and 3", torch.addr(m, a, b, beta=2, alpha=3), 2 * to_widest_numpy_array(m) + 3 * outer)
        lab.expect("0 and 2", torch.addr(m, a, b, beta=0, alpha=2), 2 * outer)
        if lab.dtype.is_floating_point or lab.dtype.is_complex:
            lab.expect("0.5", torch.addr(m, a, b, beta=0.5), 0.5 * to_widest_numpy_array(m) + outer)
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float32, torch.complex64):
        c = lab.integers(2, low=0, high=2, dtype=dtype)
        common_dtype = torch.promote_types(lab.dtype, dtype)
        with lab.parity("No page says that outer and addr accept operands of two dtypes"):
            lab.expect(
                f"with {dtype}",
                [
                    torch.outer(a, c).dtype,
                    torch.ger(c, a).dtype,
                    torch.addr(m, a, c).dtype,
                    m.addr(a, c).dtype,
                ],
                [common_dtype] * 4,
            )
            lab.expect(f"onto {dtype}", torch.addr(c, a, b).dtype, common_dtype)
