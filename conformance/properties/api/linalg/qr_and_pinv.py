"""Behaviours of QR factors and products with them, ranks and pseudo-inverses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import WIDE_FLOATS, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import tensor_from_array, to_widest_numpy_array
from conformance.properties.api.linalg._matrices import (
    DTYPES,
    adjoint,
    allowed_matrix_roundings,
    check_orthonormal_columns,
    positive_definite_matrices,
)

_BATCHES: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (2, 2))


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.qr.html",
)
def orthogonal_factors(lab: Lab) -> None:
    """``qr`` in each of its modes, and ``geqrf`` with ``householder_product`` and ``ormqr``, return an
    orthonormal and an upper triangular factor whose product is the matrix.
    """
    for batch, (rows, columns) in itertools.product(_BATCHES, ((4, 4), (5, 3), (3, 5), (0, 2), (2, 0))):
        # The large diagonal makes the columns linearly independent; otherwise QR need not be correct.
        a = tensor_from_array(
            lab, to_widest_numpy_array(lab.integers(*batch, rows, columns)) + 20 * numpy.eye(rows, columns)
        )
        name = f"batch {batch}, {rows} by {columns}"
        for mode in ("reduced", "complete"):
            q, r = torch.linalg.qr(a, mode)
            lab.same(f"shapes of {name} {mode}", (q.shape, r.shape))
            lab.expect(
                f"product of the factors, {name}, {mode}",
                tensor_from_array(lab, to_widest_numpy_array(q) @ to_widest_numpy_array(r)),
                to_widest_numpy_array(a),
                roundings=allowed_matrix_roundings(5),
            )
            lab.holds(f"R of {name} {mode} is upper triangular", bool((r.tril(-1) == 0).all()))
            check_orthonormal_columns(lab, f"Q of {name} {mode}", q)
        q, r = torch.linalg.qr(a, "r")
        lab.expect(f"Q of {name} in mode r", (tuple(q.shape), q.dtype), ((0,), lab.dtype))
        lab.expect(
            f"R of {name} in mode r",
            tensor_from_array(lab, adjoint(to_widest_numpy_array(r)) @ to_widest_numpy_array(r)),
            adjoint(to_widest_numpy_array(a)) @ to_widest_numpy_array(a),
            roundings=allowed_matrix_roundings(5),
        )
        with lab.parity("The page of geqrf does not mention batches") if batch else lab.documented():
            reflectors, tau = torch.geqrf(a)
            lab.same(f"shapes of geqrf of {name}", (reflectors.shape, tau.shape))
        if rows >= columns:
            q = torch.linalg.householder_product(reflectors, tau)
            r = numpy.triu(to_widest_numpy_array(reflectors))[..., :columns, :]
            lab.expect(
                f"householder_product of {name}",
                tensor_from_array(lab, to_widest_numpy_array(q) @ r),
                to_widest_numpy_array(a),
                roundings=allowed_matrix_roundings(5),
            )
            check_orthonormal_columns(lab, f"householder_product of {name}", q)
            eye = torch.linalg.householder_product(reflectors, tau[..., :0])
            lab.expect(f"no reflector of {name}", eye, numpy.broadcast_to(numpy.eye(rows, columns), a.shape))
            vectors = lab.integers(*batch, rows, 2)
            whole = torch.ormqr(
                reflectors,
                tau,
                torch.eye(rows, dtype=lab.dtype, device=lab.device).expand(*batch, rows, rows).contiguous(),
            )
            for transpose in (False, True):
                factor = adjoint(to_widest_numpy_array(whole)) if transpose else to_widest_numpy_array(whole)
                lab.expect(
                    f"ormqr of {name} {transpose}",
                    torch.ormqr(reflectors, tau, vectors, transpose=transpose),
                    factor @ to_widest_numpy_array(vectors),
                    roundings=allowed_matrix_roundings(5),
                )
                lab.expect(
                    f"ormqr from the right of {name} {transpose}",
                    torch.ormqr(reflectors, tau, vectors.mT, left=False, transpose=transpose),
                    to_widest_numpy_array(vectors).swapaxes(-1, -2) @ factor,
                    roundings=allowed_matrix_roundings(5),
                )
    a = lab.integers(3, 3)
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("a vector", lambda: torch.linalg.qr(a[0]), match="(?i)2 dimensions")
    lab.raises("another mode", lambda: torch.linalg.qr(a, "hello"), match="(?i)unrecognized mode")
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "householder_product of a vector",
            lambda: torch.linalg.householder_product(a[0], a[0]),
            match="(?i)2 dimensions",
        )
    lab.raises(
        "more reflectors than columns",
        lambda: torch.linalg.householder_product(a, lab.integers(4)),
        match="(?i)tau",
        type_is_documented=True,
    )
    lab.raises(
        "more columns than rows",
        lambda: torch.linalg.householder_product(a[:2], lab.integers(2)),
        match="(?i)greater than or equal",
        type_is_documented=True,
    )
    with lab.parity("No page says that tau of another dtype is an error"):
        lab.raises(
            "tau of another dtype",
            lambda: torch.linalg.householder_product(a, lab.integers(3, dtype=torch.int32)),
            match="(?i)dtype",
        )
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("ormqr of a vector", lambda: torch.ormqr(a[0], a[0], a), match="(?i)2 dimensions")
        lab.raises("ormqr of other rows", lambda: torch.ormqr(a, a[0], a[:2]), match="(?i)other")
        lab.raises(
            "ormqr of other batches", lambda: torch.ormqr(a[None], a[0], a[None]), match="(?i)dimension"
        )


@behaviour(
    "linalg", capabilities=("autograd",), must_detect=("error",), page="generated/torch.linalg.qr.html"
)
def gradients_of_orthogonal_factors(lab: Lab) -> None:
    """``qr`` is differentiable with ``mode="reduced"`` and not with ``mode="r"``. With ``mode="complete"``,
    it is differentiable only for matrices with at most as many rows as columns.
    """
    for rows, columns in ((3, 5), (5, 3)):
        for mode in ("reduced", "complete", "r"):
            a: Any = lab.put(
                to_widest_numpy_array(lab.floats(rows, columns)), dtype=torch.float32, requires_grad=True
            )
            total = torch.linalg.qr(a, mode)[1].sum()
            name = f"{mode} of {rows} by {columns}"
            if mode == "r" or (mode == "complete" and rows > columns):
                lab.raises(name, total.backward, match="(?i)differentiable|depends on Q|derivative")
            else:
                total.backward()
                lab.holds(f"{name} has a finite gradient", bool(torch.isfinite(a.grad).all()))


@behaviour(
    "linalg",
    dtypes=DTYPES,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.matrix_rank.html",
)
def ranks(lab: Lab) -> None:
    """``matrix_rank`` counts the singular values that exceed the tolerance. With ``hermitian=True`` it counts
    absolute eigenvalues. The tolerance is the larger of ``atol`` and of ``rtol`` times the largest value. The
    rank of an empty matrix is 0.
    """
    rank = torch.linalg.matrix_rank
    host_matrices = numpy.zeros((4, 5, 5))
    host_matrices[0], host_matrices[1, 0, 0] = numpy.eye(5), 3
    host_matrices[2] = numpy.diag([4.0, 2, 1, 0.5, 0])
    a = tensor_from_array(lab, host_matrices)
    lab.expect("known", rank(a), [5, 1, 4, 0])
    lab.expect("Hermitian", rank(a, hermitian=True), [5, 1, 4, 0])
    lab.expect("dtype", rank(a).dtype, torch.int64)
    for rows, columns, count in ((4, 6, 2), (6, 4, 3), (5, 5, 1)):
        product = tensor_from_array(
            lab,
            numpy.vstack([numpy.eye(count)] * 3)[:rows] @ numpy.hstack([numpy.eye(count)] * 7)[:, :columns],
        )
        lab.expect(
            f"of {rows} by {columns}",
            [rank(product).item(), rank(product.mH).item()],
            [min(count, rows, columns)] * 2,
        )
    lab.expect("rtol", rank(a[2], rtol=0.3), 2)
    lab.expect("atol", rank(a[2], atol=0.75), 3)
    lab.expect(
        "the larger of both",
        [rank(a[2], atol=0.75, rtol=0.3).item(), rank(a[2], atol=3.0, rtol=0.3).item()],
        [2, 1],
    )
    lab.expect("tol of old", rank(a[2], 1.5), 2)
    real = a.real.dtype
    with lab.parity(
        "The page demands that the tolerance broadcasts with the singular values; one per matrix does not"
    ):
        lab.expect("a tensor of atol", rank(a[2], atol=lab.put([0.2, 0.75, 3.0], dtype=real)), [4, 3, 1])
        lab.expect(
            "one atol for each matrix", rank(a, atol=lab.put([2.0, 2, 1.5, 1], dtype=real)), [0, 1, 2, 0]
        )
    lab.same("nothing", [rank(a[:, :0]), rank(a[:0]), rank(a[0, :0, :0], hermitian=True), rank(a[..., :0])])
    out = torch.empty(0, dtype=torch.int64, device=lab.device)
    lab.holds("matrix_rank returns out", rank(a, out=out) is out)
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("a vector", lambda: rank(a[0, 0]), match="(?i)2 dimensions")
    lab.raises(
        "into bool",
        lambda: rank(a, out=torch.empty(0, dtype=torch.bool, device=lab.device)),
        match="(?i)bool",
    )
    lab.warns(
        "into another shape",
        lambda: rank(a, out=torch.empty(3, dtype=torch.int64, device=lab.device)),
        match="(?i)resized",
    )


# Real matrices only: under a TorchDispatchMode, torch's pinv loses a conjugate bit of complex matrices. The
# tests inject faults by a TorchDispatchMode, and cannot tell an injected fault from this error of torch. The
# property ``value/linalg.pinv`` covers complex matrices.
@behaviour(
    "linalg",
    dtypes=WIDE_FLOATS,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.linalg.pinv.html",
)
def pseudo_inverses(lab: Lab) -> None:
    """``pinv`` and ``pinverse`` meet the four Moore-Penrose conditions for matrices of any shape and rank.
    They treat small singular values as zero and accept ``hermitian=True``.
    """
    for batch, (rows, columns) in itertools.product(_BATCHES, ((4, 4), (4, 2), (2, 4), (0, 2), (3, 0))):
        array = to_widest_numpy_array(lab.integers(*batch, rows, columns)) + 20 * numpy.eye(rows, columns)
        a = tensor_from_array(lab, array)
        for name, function in (("pinv", torch.linalg.pinv), ("pinverse", torch.pinverse)):
            result = function(a)
            b = to_widest_numpy_array(result)
            lab.same(f"shape of {name} of {batch} {rows} by {columns}", result.shape)
            lab.expect(
                f"{name} of {batch} {rows} by {columns}",
                result,
                numpy.linalg.pinv(array),
                roundings=allowed_matrix_roundings(4),
            )
            left, right = array @ b, b @ array
            for condition, computed, expected in (
                ("a b a", left @ array, array),
                ("b a b", right @ b, b),
                ("(a b)*", left, adjoint(left)),
                ("(b a)*", right, adjoint(right)),
            ):
                lab.holds(
                    f"{condition} of {name} of {batch} {rows} by {columns}",
                    numpy.allclose(computed, expected, atol=1e-3),
                )
    a = positive_definite_matrices(lab, 3, 4, 4)
    lab.expect(
        "Hermitian",
        torch.linalg.pinv(a, hermitian=True),
        numpy.linalg.inv(to_widest_numpy_array(a)),
        roundings=allowed_matrix_roundings(4),
    )
    diagonal = tensor_from_array(lab, numpy.diag([4.0, 2, 1, 0]))
    lab.expect(
        "singular",
        torch.linalg.pinv(diagonal),
        numpy.diag([0.25, 0.5, 1, 0]),
        roundings=allowed_matrix_roundings(4),
    )
    lab.expect(
        "rtol",
        torch.linalg.pinv(diagonal, rtol=0.3),
        numpy.diag([0.25, 0.5, 0, 0]),
        roundings=allowed_matrix_roundings(4),
    )
    lab.expect(
        "rcond",
        torch.linalg.pinv(diagonal, rcond=0.6),
        numpy.diag([0.25, 0, 0, 0]),
        roundings=allowed_matrix_roundings(4),
    )
    lab.expect(
        "atol",
        torch.linalg.pinv(diagonal, atol=1.5),
        numpy.diag([0.25, 0.5, 0, 0]),
        roundings=allowed_matrix_roundings(4),
    )
    each = lab.put([0.1, 0.6], dtype=diagonal.real.dtype)
    with lab.parity(
        "The page demands that the tolerance broadcasts with the singular values; one per matrix does not"
    ):
        lab.expect(
            "a tensor of rcond",
            torch.linalg.pinv(diagonal.expand(2, 4, 4), rcond=each)[1],
            numpy.diag([0.25, 0, 0, 0]),
            roundings=allowed_matrix_roundings(4),
        )
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("a vector", lambda: torch.linalg.pinv(diagonal[0]), match="(?i)2 or more dimensions")
    for option_name in ("rcond", "atol", "rtol"):
        with lab.parity("No page says that a complex tolerance is an error"):
            lab.raises(
                f"a complex {option_name}",
                lambda: torch.linalg.pinv(diagonal, **{option_name: lab.put(1j)}),
                match="(?i)complex",
            )
    lab.raises(
        "into integers",
        lambda: torch.linalg.pinv(diagonal, out=torch.empty(4, 4, dtype=torch.int32, device=lab.device)),
        match="(?i)int",
    )
    lab.warns(
        "into another shape",
        lambda: torch.linalg.pinv(diagonal, out=torch.empty(7, dtype=lab.dtype, device=lab.device)),
        match="(?i)resized",
    )
