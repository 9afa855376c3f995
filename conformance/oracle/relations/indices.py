"""Promises of operators that return indices: equal keys may come in any order.

Each takes the operator's results on the target, copied to the CPU, those of the oracle, and the sample, and
returns its claims, or None if nothing is free. Values must be equal; indices must point at them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from conformance.oracle.relations.relation import Claim, Promise
from conformance.samples.operators import Sample


def _argument(sample: Sample, place: int, name: str, default: Any) -> Any:
    if len(sample.args) > place:
        return sample.args[place]
    return sample.kwargs.get(name, default)


def _pointed_at(
    source: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, dim: int
) -> Iterable[Claim]:
    if source.dim() == 0:
        yield Claim(
            "the index into a tensor of no dimensions", indices, torch.zeros_like(indices), exact=True
        )
        return
    inside = (indices >= 0) & (indices < max(1, source.shape[dim]))
    yield Claim("whether the indices are in range", inside, torch.ones_like(inside), exact=True)
    if bool(inside.all()):
        yield Claim("the input at the indices", source.gather(dim, indices), values, exact=True)


def sort(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """Values in order; indices a permutation that gives them. A stable sort has nothing free."""
    if sample.kwargs.get("stable"):
        return None
    return _sorted(actual[0], actual[1], expected[0], sample, int(_argument(sample, 0, "dim", -1)))


def _sorted(
    values: torch.Tensor, indices: torch.Tensor, expected: torch.Tensor, sample: Sample, dim: int
) -> Iterable[Claim]:
    yield Claim("the sorted values", values, expected, exact=True)
    yield from _pointed_at(sample.input, indices, values, dim)
    if indices.dim():
        every = torch.arange(indices.shape[dim]).reshape(
            [-1] + [1] * (indices.dim() - 1 - dim % indices.dim())
        )
        yield Claim("the indices in order", indices.sort(dim).values, every.expand(indices.shape), exact=True)


def argsort(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """Indices a permutation that sorts the input. A stable sort has nothing free."""
    if sample.kwargs.get("stable"):
        return None
    dim = int(_argument(sample, 0, "dim", -1))
    if sample.input.dim() == 0:
        return None
    return _sorted(sample.input.gather(dim, actual), actual, sample.input.gather(dim, expected), sample, dim)


def topk(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """The k largest values (in order if asked), each index pointing at its value, none twice."""
    return _topk(actual, expected, sample)


def _topk(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim]:
    dim = int(_argument(sample, 1, "dim", -1))
    values, indices = actual
    if not _argument(sample, 3, "sorted", True) and values.dim():
        yield Claim("the values, sorted", values.sort(dim).values, expected[0].sort(dim).values, exact=True)
    else:
        yield Claim("the values", values, expected[0], exact=True)
    yield from _pointed_at(sample.input, indices, values, dim)
    if indices.dim() and indices.shape[dim] > 1:
        steps = indices.sort(dim).values.diff(dim=dim) > 0
        yield Claim("whether the indices are distinct", steps, torch.ones_like(steps), exact=True)


def one_per_row(place: int) -> Promise:
    """Return the promise of median, kthvalue, …: the value is fixed, its index is any that holds it.

    ``place`` is that of the dimension among the arguments after the input.
    """

    def promise(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
        if isinstance(actual, torch.Tensor) or len(actual) != 2:
            return None
        return _one_per_row(actual, expected, sample, int(_argument(sample, place, "dim", -1)))

    return promise


def _one_per_row(actual: Any, expected: Any, sample: Sample, dim: int) -> Iterable[Claim]:
    values, indices = actual
    source = sample.input
    yield Claim("the values", values, expected[0], exact=True)
    if source.dim() == 0:
        return
    keepdim = indices.dim() == source.dim()
    places = indices if keepdim else indices.unsqueeze(dim)
    yield from _pointed_at(source, places, values if keepdim else values.unsqueeze(dim), dim)


def mode(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim]:
    """mode: of several values that appear most often any one, with an index that points at it."""
    values, indices = actual
    source = sample.input
    if source.dim() == 0:
        yield Claim("the values", values, expected[0], exact=True)
        return
    dim = int(_argument(sample, 0, "dim", -1))
    keepdim = indices.dim() == source.dim()
    got, want, places = (t if keepdim else t.unsqueeze(dim) for t in (values, expected[0], indices))
    often, due = (source == got).sum(dim), (source == want).sum(dim)
    yield Claim("how often the values appear", often, due, exact=True)
    yield from _pointed_at(source, places, got, dim)


def scan(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """cummax and cummin: values are fixed, indices point at them."""
    return _scan(actual, expected, sample)


def _scan(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim]:
    dim = int(_argument(sample, 0, "dim", -1))
    yield Claim("the values", actual[0], expected[0], exact=True)
    yield from _pointed_at(sample.input, actual[1], actual[0], dim)


def pool(spatial: int) -> Promise:
    """Return the promise of max pooling over ``spatial`` dimensions.

    An index points at an input of its plane with the returned value.
    """

    def promise(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
        if isinstance(actual, torch.Tensor) or len(actual) != 2:
            return None
        return _pool(actual, expected, sample, spatial)

    return promise


def _pool(actual: Any, expected: Any, sample: Sample, spatial: int) -> Iterable[Claim]:
    values, indices = actual
    yield Claim("the values", values, expected[0], exact=True)
    if values.numel() == 0:
        return
    flat, places = (t.flatten(-spatial) if spatial > 1 else t for t in (sample.input, indices))
    inside = (places >= 0) & (places < flat.shape[-1])
    yield Claim("whether the indices are in range", inside, torch.ones_like(inside), exact=True)
    if bool(inside.all()):
        yield Claim(
            "the input at the indices", flat.gather(-1, places).reshape(values.shape), values, exact=True
        )


def unique(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim] | None:
    """Without ``sorted`` the distinct values come in any order, with counts and inverse to match."""
    if sample.kwargs.get("sorted", True) or sample.kwargs.get("dim") is not None:
        return None
    return _unique(actual, expected, sample)


def _unique(actual: Any, expected: Any, sample: Sample) -> Iterable[Claim]:
    parts = list(actual) if isinstance(actual, tuple) else [actual]
    expected_parts = list(expected) if isinstance(expected, tuple) else [expected]
    values, order = parts[0].sort()
    expected_values, expected_order = expected_parts[0].sort()
    yield Claim("the distinct values", values, expected_values, exact=True)
    rest, expected_rest = parts[1:], expected_parts[1:]
    if sample.kwargs.get("return_inverse") and rest:
        yield Claim("the values put back by the inverse", parts[0][rest[0]], sample.input, exact=True)
        rest, expected_rest = rest[1:], expected_rest[1:]
    if sample.kwargs.get("return_counts") and rest:
        yield Claim("the counts", rest[0][order], expected_rest[0][expected_order], exact=True)
