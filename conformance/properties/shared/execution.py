"""Pair samples with their references, and call operators on a target."""

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
from conformance.properties.shared.basis import is_undocumented_call
from conformance.properties.shared.dtypes import dtype_under_test
from conformance.samples import sample_limit
from conformance.samples.copies import to_device, to_host
from conformance.samples.operators import Sample, SampleSet, samples_of
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: Operators whose samples write equal values to one index repeatedly. With other values the result would be
#: nondeterministic (torch.nn.MaxUnpool2d), so properties that choose their own values skip these operators.
WRITES_TWICE = frozenset(f"nn.functional.max_unpool{d}d" for d in (1, 2, 3))


def run_operator(
    target: Target, op: Callable[..., Any], sample: Sample, *, grad: bool = False
) -> CallOutcome:
    """Call ``op`` on a sample that is on the device, with warnings silenced.

    The call records no autograd graph unless ``grad`` is set.
    """

    def call_without_warnings() -> Any:
        with warnings.catch_warnings(), torch.set_grad_enabled(grad):
            warnings.simplefilter("ignore")
            return sample.call(op)

    return attempt_on(target, call_without_warnings)


def target_declares_call(
    target: Target,
    recorder: Recorder,
    sample: Sample,
    derive: Callable[[Any, Sample], object] | None = None,
) -> bool:
    """Return whether the target declares every dtype that an operator's call needs.

    To collect the dtypes, run the call on the CPU, and ``derive(info, sample)`` too if it is given. Record
    undeclared dtypes as omitted.
    """
    if undeclared_dtypes.declares_all(target):
        return True
    info = find("operator", recorder.id.case.subject).info

    def call_on_cpu() -> Any:
        with (
            torch_testing_internals.torch_seeded(sample.index),
            torch_testing_internals.silence_warnings(),
            torch.no_grad(),
        ):
            return to_host(sample).call(info.op)

    declared_for_result = undeclared_dtypes.dtypes_declared_for_result(target, recorder.id)
    missing = (
        undeclared_dtypes.undeclared_dtypes_of_call(target, call_on_cpu, sample.arguments)
        - declared_for_result
    )
    if derive is not None and not missing:
        with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.silence_warnings():
            missing = (
                undeclared_dtypes.undeclared_dtypes_of_call(target, lambda: derive(info, to_host(sample)))
                - declared_for_result
            )
    if missing:
        recorder.omit_for_dtypes(missing)
    return not missing


def samples_with_references(
    target: Target, subject: Subject, recorder: Recorder, own_limit: int | None = None
) -> Iterator[tuple[Sample, Reference]]:
    """Yield the selected samples whose dtypes the target declares, with their references.

    Samples for which the CPU raises are noted and skipped.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    chosen = samples.chosen(sample_limit.limit(own_limit))
    recorder.samples(0, samples.available)
    yield from pair_with_references(target, subject, recorder, dtype, samples, chosen)


def pair_with_references(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    dtype: torch.dtype,
    samples: SampleSet,
    chosen: Iterable[Sample],
) -> Iterator[tuple[Sample, Reference]]:
    """Yield each chosen sample whose dtypes the target declares, with its reference.

    Other samples are noted and skipped.
    """
    for sample in chosen:
        reference = cached_reference(subject, dtype, sample.index, samples)
        if not reference.ok:
            assert reference.error is not None
            recorder.note(
                f"sample {sample.index} has no reference: the CPU raised {one_line(reference.error)}"
            )
            continue
        if not target_declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        yield sample, reference


def copy_sample_to_device(
    target: Target, recorder: Recorder, sample: Sample, *, check: bool = True
) -> Sample | None:
    """Return a separate copy of the sample on the device. If copying fails, record the error and return None.

    ``check`` is the argument of :func:`conformance.samples.copies.to_device`.
    """
    # A modified call has the index of its original sample. The basis of failures with this index therefore
    # depends on the sample that was copied last.
    if is_undocumented_call(recorder.id.case.subject, sample):
        recorder.parity_sample_indices.add(sample.index)
    else:
        recorder.parity_sample_indices.discard(sample.index)
    return to_device(sample, target, recorder, check=check)


def report_failed_call(
    target: Target, recorder: Recorder, sample: Sample, outcome: CallOutcome, label: str = "the operator"
) -> None:
    """Record the error of a call for which the CPU has a result."""
    assert outcome.error is not None
    report_error(
        target, recorder, outcome.error, label=f"{label} on ({sample.describe()})", sample=sample.index
    )
