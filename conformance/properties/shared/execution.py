"""Samples with their references, and calls of operators on a target."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import undeclared_dtypes
from conformance.framework.calls import CallOutcome, attempt_on, one_line, report_error
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import Reference, cached_reference
from conformance.properties.shared import known_torch_bugs
from conformance.properties.shared.dtypes import dtype_under_test
from conformance.samples import sample_limit
from conformance.samples.copies import to_device, to_host
from conformance.samples.operators import Sample, SampleSet, samples_of
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: Indices of their samples repeat, with the same values: other values race (torch.nn.MaxUnpool2d).
WRITES_TWICE = frozenset(f"nn.functional.max_unpool{d}d" for d in (1, 2, 3))


def run(target: Target, op: Callable[..., Any], sample: Sample, *, grad: bool = False) -> CallOutcome:
    """Run ``op`` on a sample that is on the device, warnings silenced, without a graph unless ``grad``."""

    def call() -> Any:
        with warnings.catch_warnings(), torch.set_grad_enabled(grad):
            warnings.simplefilter("ignore")
            return sample.call(op)

    return attempt_on(target, call)


def declares_call(
    target: Target,
    recorder: Recorder,
    sample: Sample,
    derive: Callable[[Any, Sample], object] | None = None,
) -> bool:
    """Return whether the target declares every dtype that an operator's call needs.

    If there is ``derive(info, sample)``, it counts as well. If a dtype is missing, the recorder notes what is
    left out. Both run on the CPU for their dtypes.
    """
    if undeclared_dtypes.declares_all(target):
        return True
    info = find("operator", recorder.id.case.subject).info

    def call() -> Any:
        with (
            torch_testing_internals.torch_seeded(sample.index),
            torch_testing_internals.quiet(),
            torch.no_grad(),
        ):
            return to_host(sample).call(info.op)

    own = undeclared_dtypes.declared_for(target, recorder.id)
    missing = undeclared_dtypes.undeclared_dtypes_of_call(target, call, sample.arguments) - own
    if derive is not None and not missing:
        with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.quiet():
            missing = (
                undeclared_dtypes.undeclared_dtypes_of_call(target, lambda: derive(info, to_host(sample)))
                - own
            )
    if missing:
        recorder.left_out(missing)
    return not missing


def cases(
    target: Target, subject: Subject, recorder: Recorder, own_limit: int | None = None
) -> Iterator[tuple[Sample, Reference]]:
    """Yield the chosen samples that the target claims with the oracle's values; those on which the CPU raises
    are noted and left out.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    chosen = samples.chosen(sample_limit.limit(own_limit))
    recorder.samples(0, samples.available)
    yield from _with_expected(target, subject, recorder, dtype, samples, chosen)


def _with_expected(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    dtype: torch.dtype,
    samples: SampleSet,
    chosen: Iterable[Sample],
) -> Iterator[tuple[Sample, Reference]]:
    for sample in chosen:
        want = cached_reference(subject, dtype, sample.index, samples)
        if not want.ok:
            assert want.error is not None
            recorder.note(f"sample {sample.index} has no oracle: the CPU raised {one_line(want.error)}")
            continue
        if not declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        yield sample, want


def copy_in(target: Target, recorder: Recorder, sample: Sample, *, check: bool = True) -> Sample | None:
    """Return a private copy on the device; None if that failed, which is then recorded.

    ``check`` is that of :func:`conformance.samples.copies.to_device`.
    """
    return to_device(sample, target, recorder, check=check)


def report_failed_call(
    target: Target, recorder: Recorder, sample: Sample, outcome: CallOutcome, label: str = "the operator"
) -> None:
    """Record the error of a call for which the CPU has a result; one of torch's own kernels is a note."""
    assert outcome.error is not None
    if page := known_torch_bugs.page_of(target, recorder.id.case.subject, outcome.error):
        recorder.compared(1)
        recorder.note(f"torch's own kernel, which the device runs, fails: {one_line(outcome.error)} ({page})")
        return
    report_error(
        target, recorder, outcome.error, label=f"{label} on ({sample.describe()})", sample=sample.index
    )
