"""Factors that documentation leaves free up to signs, phases and order: what their product must be.

``torch.linalg.svd``, ``eigh``, ``eig`` and ``qr`` say so in their documentation; what they return is held to
what it is made of, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch

from conformance.framework.compare import fact, on_host
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.samples.operators import Sample

#: Roundings per row that a product of factors may be off, relative to its largest element.
_ROUNDINGS = 200


class Pair(NamedTuple):
    """``words`` for what is computed of factors, that, what it must be, and the ``size`` of its terms, which
    may cancel.
    """

    words: str
    got: torch.Tensor
    want: torch.Tensor
    size: float = 0.0


def _eigh(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    pairs = [Pair("eigenvalues", _wide(parts[0]), _wide(cpu[0]))]
    if parts[1].numel():
        values, vectors = _wide(parts[0]), _wide(parts[1])
        whole = _hermitian(sample.input)
        product = (vectors * values.unsqueeze(-2)) @ vectors.mH
        pairs.append(Pair("V diag(L) V^H", product, whole))
    return pairs


def _hermitian(tensor: torch.Tensor) -> torch.Tensor:
    """The matrix whose lower part that of the tensor is; imaginary parts of a diagonal are not read."""
    wide = _wide(tensor)
    below = wide.tril(-1)
    return below + below.mH + torch.diag_embed(wide.diagonal(0, -2, -1).real).to(wide.dtype)


def _svd(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    pairs = [Pair("singular values", _wide(parts[1]), _wide(cpu[1]))]
    if parts[0].numel() and parts[2].numel():
        u, s, vh = (_wide(part) for part in parts)
        few = s.shape[-1]
        product = (u[..., :few] * s.unsqueeze(-2)) @ vh[..., :few, :]
        pairs.append(Pair("U S V^H", product, _wide(sample.input)))
        pairs += [Pair("U^H U", u.mH @ u, _one(u.shape[-1])), Pair("V^H V", vh @ vh.mH, _one(vh.shape[-2]))]
    return pairs


def _qr(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    q, r = (_wide(part) for part in parts)
    if q.numel() == 0:
        return [Pair("R^H R", r.mH @ r, _wide(sample.input).mH @ _wide(sample.input))]
    return [
        Pair("Q R", q @ r, _wide(sample.input)),
        Pair("Q^H Q", q.mH @ q, _one(q.shape[-1])),
        Pair("R below its diagonal", r.tril(-1), torch.zeros_like(r)),
    ]


def _geqrf(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    a, tau = (_wide(part) for part in parts)
    few = tau.shape[-1]
    q = torch.linalg.householder_product(a[..., :few], tau)
    return [Pair("Q R", q @ a.triu()[..., :few, :], _wide(sample.input))]


def _eig(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    values, vectors = (_wide(part) for part in parts)
    a = _wide(sample.input)
    return [
        Pair("A V", a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2)),
        Pair("the lengths of V", torch.linalg.vector_norm(vectors, dim=-2), torch.ones(values.shape)),
        Pair("the sum of eigenvalues", values.sum(-1), a.diagonal(0, -2, -1).sum(-1), _largest(a)),
    ]


def _eigvals(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    values, a = _wide(parts[0]), _wide(sample.input)
    return [
        Pair("the sum of eigenvalues", values.sum(-1), a.diagonal(0, -2, -1).sum(-1), _largest(a)),
        Pair("their product", values.prod(-1), torch.linalg.det(a)),
        Pair(
            "the sum of their squares",
            (values**2).sum(-1),
            (a @ a).diagonal(0, -2, -1).sum(-1),
            _largest(a) ** 2,
        ),
    ]


def _ldl(sample: Sample, parts: Sequence[torch.Tensor], cpu: Sequence[torch.Tensor]) -> list[Pair]:
    hermitian = bool(sample.kwargs.get("hermitian", False))
    lower = _wide(sample.input).tril()
    symmetric = lower + lower.mT - torch.diag_embed(lower.diagonal(0, -2, -1))
    whole = _hermitian(sample.input) if hermitian else symmetric
    wanted = _one(whole.shape[-1]).to(whole.dtype).expand(whole.shape).contiguous()
    solved = torch.linalg.ldl_solve(_wide(parts[0]), parts[1], wanted, hermitian=hermitian)
    return [Pair("A times its inverse", whole @ solved, wanted), Pair("info", _wide(parts[2]), _wide(cpu[2]))]


Invariant = Callable[[Sample, Sequence[torch.Tensor], Sequence[torch.Tensor]], list[Pair]]

#: By overload, what its results must give.
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


def agree(
    recorder: Recorder,
    name: str,
    sample: Sample,
    actual: Sequence[torch.Tensor],
    cpu: Sequence[torch.Tensor],
    label: str,
) -> bool:
    """Hold the results of an overload, on any device, to what they must give."""
    parts = [on_host(one) for one in actual]
    floating = next(part.dtype for part in parts if part.is_floating_point() or part.is_complex())
    good = True
    for pair in INVARIANTS[name](sample, parts, [on_host(one) for one in cpu]):
        size = max(1.0, _largest(pair.want), pair.size)
        bound = _ROUNDINGS * torch.finfo(floating).eps * max((1, *pair.want.shape)) * size
        off = _largest(pair.got - pair.want)
        text = f"{pair.words} of {label} is off by {off:.3g}, allowed is {bound:.3g}."
        good &= fact(recorder, off <= bound, Kind.VALUE, text, sample=sample.index)
    return good


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _one(size: int) -> torch.Tensor:
    return torch.eye(size, dtype=torch.float64)


def _largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0
