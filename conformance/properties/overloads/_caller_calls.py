"""Larger and empty calls of overloads that trust their callers: those of the operators that call them, or of
more rows and of none.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator

import torch

from conformance.properties.overloads._modified_calls import mapped
from conformance.samples import recorded_calls
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.enlarged import enlargements
from conformance.samples.handmade_calls import calls
from conformance.samples.handmade_calls.empty import EMPTY
from conformance.samples.operators import Sample, SampleSet
from conformance.subjects.torch_databases import Subject

#: Samples of an operator that are changed for the calls that it makes then, and the elements of these.
_SAMPLES = 4
_MOST = 1 << 20
#: Above the sizes from which on kernels work in parts.
_SIZES = (257, 65_537)
#: Seconds that the calling thread may compute to make a call, so that a larger one is made.
_SECONDS = 0.1
#: One of them compares all elements of a row with each other.
SLOW = frozenset(
    {
        *("multilabel_margin_loss_forward", "multilabel_margin_loss_backward", "_cdist_forward"),
        *("_cdist_backward", "_pdist_forward", "_pdist_backward", "_histogramdd_from_bin_tensors"),
        *("unique_dim", "unique_dim_consecutive"),
    }
)
#: torch's own kernels divide by a size that is zero, or read beyond what is empty, and end the process.
_UNSAFE = frozenset({"_pdist_backward", "_segment_reduce_backward", "lu_unpack"})
#: Overloads that do the same with each row of the first dimension, whatever they trust.
_BY_ROWS = re.compile(
    r"(adaptive_(max_pool[23]d|avg_pool3d)_backward|max_pool3d_with_indices_backward|_upsample_bicubic2d_aa"
    r"|glu(_backward)?_jvp|_(standard_gamma|dirichlet)_grad|_masked_softmax(_backward)?|_fake_quantize_per_tensor\w*)$"
)


def calls_of_callers(subject: Subject, dtype: str) -> SampleSet:
    """Return the calls of an overload that operators make for larger and for empty samples of theirs, after
    those of nothing that are known, and those of more rows and of none if each row is treated alike.
    """
    return recorded_calls.kept(subject, ("callers", dtype), lambda: list(_made(subject, dtype)))


def _made(subject: Subject, dtype: str) -> Iterator[Sample]:
    yield from calls.samples(subject.name, dtype, EMPTY)
    if _BY_ROWS.match(base_name(subject.name)):
        yield from _of_rows(recorded_calls.calls_of(subject, dtype))
    grown = False
    for operator, sample in recorded_calls.sources(subject, dtype, _SAMPLES):
        for changed in _smaller(sample) if subject.name not in _UNSAFE else ():
            made = itertools.islice(recorded_calls.made_by(subject, operator, dtype, changed), 1)
            yield from (call for call in made if any(t.numel() == 0 for t in call.tensors()))
        way = next(enlargements(operator, sample), None) if not grown else None
        for size in _SIZES[: 1 if subject.name in SLOW else None]:
            larger = None if way is None else way.at(size)
            if larger is None:
                break
            started = time.thread_time()
            for call in itertools.islice(
                recorded_calls.made_by(subject, operator, dtype, larger, largest=_MOST), 1
            ):
                grown = True
                yield call
            if time.thread_time() - started > _SECONDS:
                break


def _of_rows(known: SampleSet) -> Iterator[Sample]:
    """Yield the first call with no row, and with so many that its first tensor has the sizes above."""
    if not known.available:
        return
    sample = known[0]
    first = sample.tensors()[0]

    def with_rows(times: int) -> Sample:
        def of_rows(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dim() != first.dim() or len(tensor) != len(first):
                return tensor
            return tensor.detach().repeat(times, *[1] * (tensor.dim() - 1))

        return mapped(sample, of_rows)

    yield with_rows(0)
    for size in _SIZES:
        yield with_rows(-(-size // first.numel()))


def _smaller(sample: Sample) -> Iterator[Sample]:
    """Yield a sample with no elements in its first tensor and those of that shape, along one dimension."""
    first = sample.tensors()[0]
    for dimension in (0, 1, -1)[: first.dim()]:

        def without(tensor: torch.Tensor, dimension: int = dimension) -> torch.Tensor:
            if tensor.shape != first.shape:
                return tensor
            return tensor.detach().narrow(dimension, 0, 0).clone().requires_grad_(tensor.requires_grad)

        yield mapped(sample, without)
