"""Relations of operators that return indices: the order of equal keys is unspecified.

Each function takes the target's results (copied to the CPU), the reference outputs and the sample. It returns
equations, or None if every output is specified. Values must be equal, and indices must point at the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from conformance.framework.compare import in_indexable_dtype
from conformance.oracle.relations.relation import Equation, Relation
from conformance.samples.operators import Sample


def _argument_of_sample(sample: Sample, position: int, name: str, default: Any) -> Any:
    """Return the argument at ``position`` after the input, the keyword argument ``name``, or ``default``."""
    if len(sample.args) > position:
        return sample.args[position]
    return sample.kwargs.get(name, default)


def _index_equations(
    source: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, dim: int
) -> Iterable[Equation]:
    """Yield the equations: the indices are in range, and the input at the indices equals the values."""
    if source.dim() == 0:
        yield Equation(
            "the index into a tensor of no dimensions", indices, torch.zeros_like(indices), exact=True
        )
        return
    inside = (indices >= 0) & (indices < max(1, source.shape[dim]))
    yield Equation("whether the indices are in range", inside, torch.ones_like(inside), exact=True)
    if bool(inside.all()):
        yield Equation("the input at the indices", source.gather(dim, indices), values, exact=True)


def sort(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: the values are sorted, the indices are a permutation that gives the values.

    Return None for a stable sort, whose indices are specified.
    """
    if sample.kwargs.get("stable"):
        return None
    return _sort_equations(
        actual[0], actual[1], expected[0], sample, int(_argument_of_sample(sample, 0, "dim", -1))
    )


def _sort_equations(
    values: torch.Tensor, indices: torch.Tensor, expected: torch.Tensor, sample: Sample, dim: int
) -> Iterable[Equation]:
    yield Equation("the sorted values", values, expected, exact=True)
    yield from _index_equations(sample.input, indices, values, dim)
    if indices.dim():
        every = torch.arange(indices.shape[dim]).reshape(
            [-1] + [1] * (indices.dim() - 1 - dim % indices.dim())
        )
        yield Equation(
            "the indices in order", indices.sort(dim).values, every.expand(indices.shape), exact=True
        )


def argsort(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: the indices are a permutation that sorts the input.

    Return None for a stable sort, whose indices are specified.
    """
    if sample.kwargs.get("stable"):
        return None
    dim = int(_argument_of_sample(sample, 0, "dim", -1))
    if sample.input.dim() == 0:
        return None
    return _sort_equations(
        sample.input.gather(dim, actual), actual, sample.input.gather(dim, expected), sample, dim
    )


def topk(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations: the k values equal the reference, each index points at its value, and all indices
    are distinct.

    With ``sorted=False`` the values may come in any order.
    """
    return _topk_equations(actual, expected, sample)


def _topk_equations(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation]:
    dim = int(_argument_of_sample(sample, 1, "dim", -1))
    values, indices = actual
    if not _argument_of_sample(sample, 3, "sorted", True) and values.dim():
        yield Equation(
            "the values, sorted", values.sort(dim).values, expected[0].sort(dim).values, exact=True
        )
    else:
        yield Equation("the values", values, expected[0], exact=True)
    yield from _index_equations(sample.input, indices, values, dim)
    if indices.dim() and indices.shape[dim] > 1:
        steps = indices.sort(dim).values.diff(dim=dim) > 0
        yield Equation("whether the indices are distinct", steps, torch.ones_like(steps), exact=True)


def relation_with_any_index_of_value(dim_position: int) -> Relation:
    """Return the relation of median, kthvalue and similar: the value is specified, and the index may be any
    position that holds this value.

    ``dim_position`` is the position of ``dim`` among the arguments after the input.
    """

    def relation(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
        if isinstance(actual, torch.Tensor) or len(actual) != 2:
            return None
        return _one_value_equations(
            actual, expected, sample, int(_argument_of_sample(sample, dim_position, "dim", -1))
        )

    return relation


def _one_value_equations(actual: Any, expected: Any, sample: Sample, dim: int) -> Iterable[Equation]:
    values, indices = actual
    source = sample.input
    yield Equation("the values", values, expected[0], exact=True)
    if source.dim() == 0:
        return
    keepdim = indices.dim() == source.dim()
    index_tensor = indices if keepdim else indices.unsqueeze(dim)
    yield from _index_equations(source, index_tensor, values if keepdim else values.unsqueeze(dim), dim)


def mode(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation]:
    """Yield the equations: the value is as frequent as the reference value, and the index points at the
    value.
    """
    values, indices = actual
    source = sample.input
    if source.dim() == 0:
        yield Equation("the values", values, expected[0], exact=True)
        return
    dim = int(_argument_of_sample(sample, 0, "dim", -1))
    keepdim = indices.dim() == source.dim()
    actual_values, expected_values, index_tensor = (
        t if keepdim else t.unsqueeze(dim) for t in (values, expected[0], indices)
    )
    actual_frequency, expected_frequency = (
        (source == actual_values).sum(dim),
        (source == expected_values).sum(dim),
    )
    yield Equation("how often the values appear", actual_frequency, expected_frequency, exact=True)
    yield from _index_equations(source, index_tensor, actual_values, dim)


def cummax_cummin_equations(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations of cummax and cummin: the values are specified, and the indices point at them."""
    return _scan_equations(actual, expected, sample)


def _scan_equations(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation]:
    dim = int(_argument_of_sample(sample, 0, "dim", -1))
    yield Equation("the values", actual[0], expected[0], exact=True)
    yield from _index_equations(sample.input, actual[1], actual[0], dim)


def max_pool(spatial_dimensions: int) -> Relation:
    """Return the relation of max pooling over ``spatial_dimensions`` dimensions.

    An index points at an element of the input plane that equals the returned value.
    """

    def relation(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
        if isinstance(actual, torch.Tensor) or len(actual) != 2:
            return None
        return _max_pool_equations(actual, expected, sample, spatial_dimensions)

    return relation


def _max_pool_equations(
    actual: Any, expected: Any, sample: Sample, spatial_dimensions: int
) -> Iterable[Equation]:
    values, indices = actual
    yield Equation("the values", values, expected[0], exact=True)
    if values.numel() == 0:
        return
    flat, flat_indices = (
        t.flatten(-spatial_dimensions) if spatial_dimensions > 1 else t for t in (sample.input, indices)
    )
    inside = (flat_indices >= 0) & (flat_indices < flat.shape[-1])
    yield Equation("whether the indices are in range", inside, torch.ones_like(inside), exact=True)
    if bool(inside.all()):
        yield Equation(
            "the input at the indices",
            flat.gather(-1, flat_indices).reshape(values.shape),
            values,
            exact=True,
        )


def unique(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation] | None:
    """Return the equations of ``sorted=False``: distinct values in any order, with matching inverse and
    counts.
    """
    if sample.kwargs.get("sorted", True) or sample.kwargs.get("dim") is not None:
        return None
    return _unique_equations(actual, expected, sample)


def _unique_equations(actual: Any, expected: Any, sample: Sample) -> Iterable[Equation]:
    parts = list(actual) if isinstance(actual, tuple) else [actual]
    expected_parts = list(expected) if isinstance(expected, tuple) else [expected]
    values, order = parts[0].sort()
    expected_values, expected_order = expected_parts[0].sort()
    yield Equation("the distinct values", values, expected_values, exact=True)
    rest, expected_rest = parts[1:], expected_parts[1:]
    if sample.kwargs.get("return_inverse") and rest:
        restored = in_indexable_dtype(parts[0])[rest[0]]
        yield Equation(
            "the values put back by the inverse", restored, in_indexable_dtype(sample.input), exact=True
        )
        rest, expected_rest = rest[1:], expected_rest[1:]
    if sample.kwargs.get("return_counts") and rest:
        yield Equation("the counts", rest[0][order], expected_rest[0][expected_order], exact=True)
