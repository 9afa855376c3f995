"""Other data for the same call, to copy into the inputs of a captured graph before it is replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.oracle.reference import Reference, reference_for
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, bits, dtype_name, wrap
from conformance.subjects.torch_databases import Subject, find

#: Operators whose arguments belong together element by element (sorted boundaries, offsets, factors of one
#: matrix): the same values in another order are not valid arguments.
_TIED = ("searchsorted", "bucketize", "histogram", "histogramdd", "lu_unpack", "ormqr", "householder",
"segment_", "ldl_solve", "lu_solve", "cholesky_solve", "cholesky_inverse", "geqrf", "embedding_bag",
"ctc_loss", "max_unpool", "sparse")  # fmt: skip


#: Seeds that are tried before the elements are turned around: some results do not depend on their order.
SEEDS = ("renewal", "second renewal")


@functools.lru_cache(maxsize=8)
def other_samples(name: str, dtype: torch.dtype, requires_grad: bool, seed_word: str) -> list[Sample]:
    """The samples of an operator in one dtype, made from another seed."""
    info = find("operator", name).info
    seed = torch_testing_internals.seed_for(seed_word, name, dtype_name(dtype))
    return wrap(
        torch_testing_internals.sample_inputs(info, dtype, requires_grad=requires_grad, seed=seed), name
    )


def renewed(
    subject: Subject, dtype: torch.dtype, sample: Sample, *, requires_grad: bool = False
) -> Sample | None:
    """Return a sample with the metadata and the other arguments of ``sample`` but other data, or None.

    It is the first of :func:`renewals`.
    """
    return next(renewals(subject, dtype, sample, requires_grad=requires_grad), None)


def renewals(
    subject: Subject, dtype: torch.dtype, sample: Sample, *, requires_grad: bool = False
) -> Iterator[Sample]:
    """Yield the samples of other seeds that have the same form, then the sample with the elements of its
    floating tensors in another order, as far as the operator's domain allows that.
    """
    for word in SEEDS:
        candidates = other_samples(subject.name, dtype, requires_grad, word)
        if sample.index < len(candidates):
            candidate = candidates[sample.index].replace(process=sample.process, stays=sample.stays)
            if same_form(sample, candidate) and differs(sample, candidate):
                yield candidate
    if any(word in subject.name for word in _TIED):
        return
    turned = reordered(sample)
    if differs(sample, turned):
        yield turned


def renewed_with_oracle(
    subject: Subject,
    dtype: torch.dtype,
    sample: Sample,
    accurate: Callable[[Sample, Reference], bool] = lambda sample, expected: True,
) -> tuple[Sample, Reference] | None:
    """Return other data with the oracle's values for it; None if there is none or the CPU refuses it.

    It is the first whose values ``accurate`` takes; the first of all if there is no such data.
    """
    first = None
    for fresh in renewals(subject, dtype, sample):
        expected = reference_for(subject, dtype, fresh)
        if expected.ok and accurate(fresh, expected):
            return fresh, expected
        first = first or ((fresh, expected) if expected.ok else None)
    return first


def reordered(sample: Sample) -> Sample:
    """Return the sample with the elements of each floating tensor in reverse along every dimension."""

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return value
        if not (value.is_floating_point() or value.is_complex()) or not value.numel():
            return value
        with torch.no_grad():
            place = value.detach()
            try:
                place.copy_(value.detach().flip(tuple(range(value.dim()))).clone())
            except RuntimeError:  # expanded memory holds one value many times
                return value
        return value

    host = to_host(sample)
    input, args, kwargs = trees.tree_map(leaf, host.arguments)
    return host.replace(input=input, args=args, kwargs=kwargs)


def same_form(left: Sample, right: Sample) -> bool:
    """Return whether two samples have equal metadata of tensors and equal other arguments."""
    left_leaves, right_leaves = list(trees.leaves(left.arguments)), list(trees.leaves(right.arguments))
    return len(left_leaves) == len(right_leaves) and all(map(_same, left_leaves, right_leaves))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and _geometry(left) == _geometry(right)
    if type(left) is not type(right):
        return False
    return callable(left) or bool(left == right) or (left != left and right != right)


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    words: tuple[Any, ...] = (tensor.dtype, tensor.shape, tensor.layout, tensor.requires_grad)
    if tensor.layout is torch.strided:
        words += (tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg())
    return words


def differs(left: Sample, right: Sample) -> bool:
    """Return whether any strided tensor of two samples of one form has other values."""
    pairs = zip(left.tensors(), right.tensors(), strict=True)
    return any(a.layout is torch.strided and not _equal(a, b) for a, b in pairs)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    # By their bytes: half precision complex numbers and 8 bit floats can hardly be compared.
    plain = (t.detach().resolve_conj().resolve_neg() for t in (left, right))
    left_bits, right_bits = (bits(t.clone(memory_format=torch.contiguous_format)) for t in plain)
    return left_bits == right_bits


def copy_into(captured: Sample, fresh: Sample) -> None:
    """Copy the data of one sample into the tensors of another of the same form.

    If both have the same layout in memory, all of it is copied: some operators reach beyond the elements.
    """
    with torch.no_grad():
        for place, new in zip(captured.tensors(), fresh.tensors(), strict=True):
            if place.layout is not torch.strided or not place.numel():
                continue
            if _geometry(place) == _geometry(new) and memory(place).numel() == memory(new).numel():
                memory(place).copy_(memory(new))
            else:
                place.detach().copy_(new.detach())


def memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return all memory of a strided tensor's storage as a flat tensor of bytes (uint8)."""
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(storage, 0, (storage.nbytes(),), (1,))
