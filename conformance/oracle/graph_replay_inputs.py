"""Replay data: other values for the same call, copied into the inputs of a captured graph before a replay."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.oracle.reference import Call, Reference, reference_for
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, bytes_of_storage, dtype_name, samples_from_inputs
from conformance.subjects.torch_databases import Subject, find

#: Name fragments of operators whose argument values depend on each other, such as sorted boundaries, offsets
#: or factors of one matrix. Reordered values are not valid arguments.
_DEPENDENT_ARGUMENTS = ("searchsorted", "bucketize", "histogram", "histogramdd", "lu_unpack", "ormqr",
"householder", "segment_", "ldl_solve", "lu_solve", "cholesky_solve", "cholesky_inverse", "geqrf",
"embedding_bag", "ctc_loss", "max_unpool", "sparse")  # fmt: skip


#: Seeds of the replay data that is tried first. Reversed elements are tried last, because the results of some
#: operators do not depend on the order of elements.
SEEDS = ("renewal", "second renewal")


@functools.lru_cache(maxsize=8)
def other_samples(name: str, dtype: torch.dtype, requires_grad: bool, seed_word: str) -> list[Sample]:
    """Return the samples of an operator in one dtype, made with the seed that ``seed_word`` selects."""
    info = find("operator", name).info
    seed = torch_testing_internals.seed_for(seed_word, name, dtype_name(dtype))
    return samples_from_inputs(
        torch_testing_internals.sample_inputs(info, dtype, requires_grad=requires_grad, seed=seed), name
    )


def first_replay_sample(
    subject: Subject, dtype: torch.dtype, sample: Sample, *, requires_grad: bool = False
) -> Sample | None:
    """Return the first sample of :func:`replay_samples`, or None if no replay sample exists."""
    return next(replay_samples(subject, dtype, sample, requires_grad=requires_grad), None)


def replay_samples(
    subject: Subject, dtype: torch.dtype, sample: Sample, *, requires_grad: bool = False
) -> Iterator[Sample]:
    """Yield samples with the metadata and the non-tensor arguments of ``sample`` and with other tensor
    values.

    Samples of other seeds come first. The last sample is ``sample`` with the elements of its floating tensors
    reversed, unless the domain of the operator forbids it.
    """
    for seed_word in SEEDS:
        candidates = other_samples(subject.name, dtype, requires_grad, seed_word)
        if sample.index < len(candidates):
            candidate = candidates[sample.index].replace(
                process=sample.process, cpu_positions=sample.cpu_positions
            )
            if have_same_form(sample, candidate) and have_different_values(sample, candidate):
                yield candidate
    if any(fragment in subject.name for fragment in _DEPENDENT_ARGUMENTS):
        return
    reversed_sample = with_reversed_elements(sample)
    if have_different_values(sample, reversed_sample):
        yield reversed_sample


def replay_data_with_reference(
    subject: Subject,
    dtype: torch.dtype,
    sample: Sample,
    accurate: Callable[[Sample, Reference], bool] = lambda sample, expected: True,
) -> tuple[Sample, Reference] | None:
    """Try several candidates for replay data, and return one of them with its reference.

    This is the first candidate that ``accurate`` accepts, else the first candidate that the CPU accepts.
    Return None if there is no candidate or the CPU refuses all of them.
    """
    first_accepted = None
    for replay_sample in replay_samples(subject, dtype, sample):
        expected = reference_for(Call(subject, dtype, replay_sample))
        if expected.ok and accurate(replay_sample, expected):
            return replay_sample, expected
        first_accepted = first_accepted or ((replay_sample, expected) if expected.ok else None)
    return first_accepted


def with_reversed_elements(sample: Sample) -> Sample:
    """Return the sample with the elements of each floating tensor reversed along every dimension."""

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return value
        if not (value.is_floating_point() or value.is_complex()) or not value.numel():
            return value
        with torch.no_grad():
            detached = value.detach()
            try:
                detached.copy_(value.detach().flip(tuple(range(value.dim()))).clone())
            except RuntimeError:  # an expanded tensor cannot be written
                return value
        return value

    host = to_host(sample)
    input, args, kwargs = trees.tree_map(leaf, host.arguments)
    return host.replace(input=input, args=args, kwargs=kwargs)


def have_same_form(left: Sample, right: Sample) -> bool:
    """Return whether the tensors of two samples have equal metadata and all other arguments are equal."""
    left_leaves, right_leaves = list(trees.leaves(left.arguments)), list(trees.leaves(right.arguments))
    return len(left_leaves) == len(right_leaves) and all(map(_same_leaf_form, left_leaves, right_leaves))


def _same_leaf_form(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and _metadata_of(left) == _metadata_of(right)
    if type(left) is not type(right):
        return False
    return callable(left) or bool(left == right) or (left != left and right != right)


def _metadata_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    metadata: tuple[Any, ...] = (tensor.dtype, tensor.shape, tensor.layout, tensor.requires_grad)
    if tensor.layout is torch.strided:
        metadata += (tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg())
    return metadata


def have_different_values(left: Sample, right: Sample) -> bool:
    """Return whether the bytes of any strided tensor differ between two samples with equal metadata."""
    pairs = zip(left.tensors(), right.tensors(), strict=True)
    return any(a.layout is torch.strided and not _have_same_bytes(a, b) for a, b in pairs)


def _have_same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    # Compare the bytes: many comparisons are not implemented for complex32 and 8-bit floats.
    resolved = (t.detach().resolve_conj().resolve_neg() for t in (left, right))
    left_bits, right_bits = (
        bytes_of_storage(t.clone(memory_format=torch.contiguous_format)) for t in resolved
    )
    return left_bits == right_bits


def copy_values(captured: Sample, replay_sample: Sample) -> None:
    """Copy the tensor values of one sample into the tensors of another sample of the same form.

    If two tensors have the same layout in memory, the whole storage is copied, because some operators read
    beyond the elements.
    """
    with torch.no_grad():
        for tensor, source in zip(captured.tensors(), replay_sample.tensors(), strict=True):
            if tensor.layout is not torch.strided or not tensor.numel():
                continue
            if (
                _metadata_of(tensor) == _metadata_of(source)
                and storage_as_bytes(tensor).numel() == storage_as_bytes(source).numel()
            ):
                storage_as_bytes(tensor).copy_(storage_as_bytes(source))
            else:
                tensor.detach().copy_(source.detach())


def storage_as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole storage of a strided tensor as a flat uint8 tensor."""
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(storage, 0, (storage.nbytes(),), (1,))
