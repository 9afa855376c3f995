"""Equations that the results of factorisations must satisfy.

The documentation of ``torch.linalg.svd``, ``eigh``, ``eig`` and ``qr`` leaves factors unspecified up to
signs, phases and order. The checks therefore multiply the factors in float64 and compare the product with the
input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch

from conformance.framework.compare import fact, on_host
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.samples.operators import Sample

#: Allowed error of a product of factors: so many roundings per row, relative to its largest element.
_ROUNDINGS = 200


class Equation(NamedTuple):
    """A required equation: ``actual``, which is computed from the results, must equal ``expected``.

    ``description`` names ``actual`` in messages. ``term_size`` is the size of the terms that ``actual`` adds
    up: the terms may cancel.
    """

    description: str
    actual: torch.Tensor
    expected: torch.Tensor
    term_size: float = 0.0


def _eigh(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    equations = [Equation("eigenvalues", _in_double(parts[0]), _in_double(cpu[0]))]
    if parts[1].numel():
        values, vectors = _in_double(parts[0]), _in_double(parts[1])
        whole = _hermitian(sample.input)
        product = (vectors * values.unsqueeze(-2)) @ vectors.mH
        equations.append(Equation("V diag(L) V^H", product, whole))
    return equations


def _hermitian(tensor: torch.Tensor) -> torch.Tensor:
    """Return the Hermitian matrix that has the lower triangle of a tensor.

    The imaginary part of the diagonal is ignored.
    """
    wide = _in_double(tensor)
    below = wide.tril(-1)
    return below + below.mH + torch.diag_embed(wide.diagonal(0, -2, -1).real).to(wide.dtype)


def _svd(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    equations = [Equation("singular values", _in_double(parts[1]), _in_double(cpu[1]))]
    if parts[0].numel() and parts[2].numel():
        u, s, vh = (_in_double(part) for part in parts)
        rank = s.shape[-1]
        product = (u[..., :rank] * s.unsqueeze(-2)) @ vh[..., :rank, :]
        equations.append(Equation("U S V^H", product, _in_double(sample.input)))
        equations += [
            Equation("U^H U", u.mH @ u, _identity(u.shape[-1])),
            Equation("V^H V", vh @ vh.mH, _identity(vh.shape[-2])),
        ]
    return equations


def _qr(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    q, r = (_in_double(part) for part in parts)
    if q.numel() == 0:
        return [Equation("R^H R", r.mH @ r, _in_double(sample.input).mH @ _in_double(sample.input))]
    return [
        Equation("Q R", q @ r, _in_double(sample.input)),
        Equation("Q^H Q", q.mH @ q, _identity(q.shape[-1])),
        Equation("R below its diagonal", r.tril(-1), torch.zeros_like(r)),
    ]


def _geqrf(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    a, tau = (_in_double(part) for part in parts)
    rank = tau.shape[-1]
    q = torch.linalg.householder_product(a[..., :rank], tau)
    return [Equation("Q R", q @ a.triu()[..., :rank, :], _in_double(sample.input))]


def _eig(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    values, vectors = (_in_double(part) for part in parts)
    a = _in_double(sample.input)
    return [
        Equation("A V", a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2)),
        Equation("the lengths of V", torch.linalg.vector_norm(vectors, dim=-2), torch.ones(values.shape)),
        Equation(
            "the sum of eigenvalues", values.sum(-1), a.diagonal(0, -2, -1).sum(-1), _largest_magnitude(a)
        ),
    ]


def _eigvals(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    values, a = _in_double(parts[0]), _in_double(sample.input)
    return [
        Equation(
            "the sum of eigenvalues", values.sum(-1), a.diagonal(0, -2, -1).sum(-1), _largest_magnitude(a)
        ),
        Equation("their product", values.prod(-1), torch.linalg.det(a)),
        Equation(
            "the sum of their squares",
            (values**2).sum(-1),
            (a @ a).diagonal(0, -2, -1).sum(-1),
            _largest_magnitude(a) ** 2,
        ),
    ]


def _ldl(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Equation]:
    hermitian = bool(sample.kwargs.get("hermitian", False))
    lower = _in_double(sample.input).tril()
    symmetric = lower + lower.mT - torch.diag_embed(lower.diagonal(0, -2, -1))
    whole = _hermitian(sample.input) if hermitian else symmetric
    identity = _identity(whole.shape[-1]).to(whole.dtype).expand(whole.shape).contiguous()
    solved = torch.linalg.ldl_solve(_in_double(parts[0]), parts[1], identity, hermitian=hermitian)
    return [
        Equation("A times its inverse", whole @ solved, identity),
        Equation("info", _in_double(parts[2]), _in_double(cpu[2])),
    ]


Invariant = Callable[[Sample, Sequence[torch.Tensor], Sequence[torch.Tensor]], list[Equation]]

#: By overload, the equations that its results must satisfy.
INVARIANTS: Mapping[str, Invariant] = {
    "_linalg_eigh": _eigh,
    "_linalg_svd": _svd,
    "linalg_qr": _qr,
    "geqrf": _geqrf,
    "linalg_eig": _eig,
    "_linalg_eigvals": _eigvals,
    "linalg_eigvals": _eigvals,
    "linalg_ldl_factor_ex": _ldl,
}


def compare_invariants(
    recorder: Recorder,
    name: str,
    sample: Sample,
    actual: Sequence[torch.Tensor],
    cpu: Sequence[torch.Tensor],
    label: str,
) -> bool:
    """Check the equations that the results of an overload must satisfy.

    Return whether all of them hold.
    """
    parts = [on_host(tensor) for tensor in actual]
    floating = next(part.dtype for part in parts if part.is_floating_point() or part.is_complex())
    agrees = True
    for equation in INVARIANTS[name](sample, parts, [on_host(tensor) for tensor in cpu]):
        size = max(1.0, _largest_magnitude(equation.expected), equation.term_size)
        bound = _ROUNDINGS * torch.finfo(floating).eps * max((1, *equation.expected.shape)) * size
        difference = _largest_magnitude(equation.actual - equation.expected)
        text = f"{equation.description} of {label} is off by {difference:.3g}, allowed is {bound:.3g}."
        agrees &= fact(recorder, difference <= bound, Kind.VALUE, text, sample=sample.index)
    return agrees


def _in_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _identity(size: int) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float64)


def _largest_magnitude(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0
