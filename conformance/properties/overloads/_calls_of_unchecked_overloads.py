"""Calls of unchecked overloads with larger and with empty tensors.

An unchecked overload reads memory by its arguments without validating them. Arbitrary arguments are
therefore not safe: operators make these calls, or the rows of a recorded call are repeated or removed.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence

import torch

from conformance.properties.overloads._modified_calls import with_mapped_tensors
from conformance.samples import recorded_calls
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.enlarged import enlargements
from conformance.samples.handmade_calls import calls
from conformance.samples.handmade_calls.empty import EMPTY_CALLS
from conformance.samples.operators import Sample, SampleSet
from conformance.samples.sizes import GRID, GROUP, draw_sizes
from conformance.subjects.torch_databases import Subject

#: ``_SAMPLES_PER_OPERATOR`` is the number of samples of an operator that are enlarged or emptied.
#: ``_MAX_ELEMENTS`` is the maximum number of elements of a tensor in the calls that these samples make.
_SAMPLES_PER_OPERATOR = 4
_MAX_ELEMENTS = 1 << 20
#: The distributions from which the numbers of elements of the larger calls are drawn.
_SIZE_DISTRIBUTIONS = (GROUP, GRID)
#: A larger call is made only if the calling thread computed the previous call within this number of seconds.
_MAX_SECONDS = 0.1
#: Overloads whose large calls take seconds. Some of them compare all elements of a row with each other.
SLOW = frozenset(
    {
        *("multilabel_margin_loss_forward", "multilabel_margin_loss_backward", "_cdist_forward"),
        *("_cdist_backward", "_pdist_forward", "_pdist_backward", "_histogramdd_from_bin_tensors"),
        *("unique_dim", "unique_dim_consecutive"),
    }
)
#: Overloads without empty calls, because torch's own kernels crash on empty tensors: they divide by a size of
#: zero or read beyond the memory of a tensor.
_UNSAFE = frozenset({"_pdist_backward", "_segment_reduce_backward", "lu_unpack"})
#: Unchecked overloads that compute each row of the first dimension in the same way.
_ROWWISE = re.compile(
    r"(adaptive_(max_pool[23]d|avg_pool3d)_backward|max_pool3d_with_indices_backward|_upsample_bicubic2d_aa"
    r"|glu(_backward)?_jvp|_(standard_gamma|dirichlet)_grad|_masked_softmax(_backward)?|_fake_quantize_per_tensor\w*)$"
)


def larger_and_empty_calls(subject: Subject, dtype: str) -> SampleSet:
    """Return larger and empty calls of an unchecked overload.

    The set contains the handmade empty calls, and the calls that operators make for enlarged and emptied
    samples. If the overload computes each row alike, the set also contains recorded calls with more rows and
    with no rows.
    """
    return recorded_calls.cached_calls(
        subject, ("callers", dtype), lambda: list(_generate_calls(subject, dtype))
    )


def _generate_calls(subject: Subject, dtype: str) -> Iterator[Sample]:
    """Yield handmade empty calls, recorded calls with other numbers of rows, and calls that operators make
    for their emptied and enlarged samples.
    """
    yield from calls.handmade_samples(subject.name, dtype, EMPTY_CALLS)
    if _ROWWISE.match(base_name(subject.name)):
        sizes = draw_sizes(f"rows of {subject.name} {dtype}", _SIZE_DISTRIBUTIONS)
        yield from _with_other_row_counts(recorded_calls.calls_of(subject, dtype), sizes)
    has_larger_call = False
    for operator, sample in recorded_calls.callers_with_samples(subject, dtype, _SAMPLES_PER_OPERATOR):
        for changed in _emptied_samples(sample) if subject.name not in _UNSAFE else ():
            calls_of_sample = itertools.islice(
                recorded_calls.calls_made_by(subject, operator, dtype, changed), 1
            )
            yield from (call for call in calls_of_sample if any(t.numel() == 0 for t in call.tensors()))
        enlargement = next(enlargements(operator, sample), None) if not has_larger_call else None
        for size in draw_sizes(
            f"{subject.name} {dtype}", _SIZE_DISTRIBUTIONS[: 1 if subject.name in SLOW else 2]
        ):
            larger = None if enlargement is None else enlargement.enlarge_sample(size)
            if larger is None:
                break
            started = time.thread_time()
            for call in itertools.islice(
                recorded_calls.calls_made_by(subject, operator, dtype, larger, largest=_MAX_ELEMENTS), 1
            ):
                has_larger_call = True
                yield call
            if time.thread_time() - started > _MAX_SECONDS:
                break


def _with_other_row_counts(recorded: SampleSet, sizes: Sequence[int]) -> Iterator[Sample]:
    """Yield the first recorded call without rows, then with rows repeated until each size is reached.

    A size is a number of elements of the first tensor of the call.
    """
    if not recorded.available:
        return
    sample = recorded[0]
    first = sample.tensors()[0]

    def with_rows(repeats: int) -> Sample:
        def of_rows(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dim() != first.dim() or len(tensor) != len(first):
                return tensor
            return tensor.detach().repeat(repeats, *[1] * (tensor.dim() - 1))

        return with_mapped_tensors(sample, of_rows)

    yield with_rows(0)
    for size in sizes:
        yield with_rows(-(-size // first.numel()))


def _emptied_samples(sample: Sample) -> Iterator[Sample]:
    """Yield copies of a sample whose first tensor has size 0 in one dimension.

    Every tensor of the same shape is emptied as well.
    """
    first = sample.tensors()[0]
    for dimension in (0, 1, -1)[: first.dim()]:

        def without(tensor: torch.Tensor, dimension: int = dimension) -> torch.Tensor:
            if tensor.shape != first.shape:
                return tensor
            return tensor.detach().narrow(dimension, 0, 0).clone().requires_grad_(tensor.requires_grad)

        yield with_mapped_tensors(sample, without)
