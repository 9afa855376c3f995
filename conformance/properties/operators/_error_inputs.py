"""Invalid inputs of torch's database, which operators must reject."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import CallOutcome, attempt, is_refusal, report_error
from conformance.framework.recorder import Recorder
from conformance.framework.refusals import is_deliberate_error
from conformance.properties.shared.dtypes import unmodified_info
from conformance.properties.shared.execution import run_operator
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, samples_from_inputs
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target


@functools.cache
def error_input_count(name: str) -> int:
    """Return how many error inputs of torch's database the properties can use for an operator."""
    outcome = attempt(
        lambda: torch_testing_internals.error_inputs(find("operator", name).info, "cpu", seed=0)
    )
    return sum(_expects_specific_error(item) for item in outcome.value) if outcome.ok else 0


def _expects_specific_error(item: Any) -> bool:
    """Return whether an error input expects a specific error and contains a tensor or a size.

    Some error inputs of torch's database expect any Exception. Others call a method of a Python number, which
    is not an operator.
    """
    arguments = (item.sample_input.input, item.sample_input.args, item.sample_input.kwargs)
    named = item.error_type is not Exception or bool(item.error_regex)
    return named and any(isinstance(leaf, (torch.Tensor, torch.Size)) for leaf in trees.leaves(arguments))


def error_input_outcomes(
    target: Target, subject: Subject, recorder: Recorder
) -> Iterator[tuple[int, str, Any, CallOutcome]]:
    """Yield (index, arguments as text, torch's ErrorInput, outcome on the device) for each error input."""
    seed = torch_testing_internals.seed_for("errors", subject.name)
    inputs = attempt(lambda: torch_testing_internals.error_inputs(subject.info, target.device, seed=seed))
    if not inputs.ok:
        assert inputs.error is not None
        missing = _undeclared_dtypes_of_inputs(
            target, subject, seed
        ) - undeclared_dtypes.dtypes_declared_for_result(target, recorder.id)
        if missing and is_refusal(inputs.error):
            recorder.omit_for_dtypes(missing)
            return
        if not target.capable("random") and is_deliberate_error(inputs.error):
            recorder.unsupported(
                "torch fills the invalid arguments with random numbers of the device, and the target does "
                "not declare the capability random"
            )
            return
        report_error(target, recorder, inputs.error, label="creating the invalid arguments on the device")
        return
    for index, item in enumerate(inputs.value):
        recorder.samples(0, 1)
        if not _expects_specific_error(item):
            continue
        sample = samples_from_inputs([item.sample_input])[0].replace(index=index)
        call = functools.partial(_call_on_cpu, subject, sample)
        if missing := undeclared_dtypes.undeclared_dtypes_of_call(
            target, call, sample.arguments
        ) - undeclared_dtypes.dtypes_declared_for_result(target, recorder.id):
            recorder.omit_for_dtypes(missing)
            continue
        recorder.samples(1, 0)
        yield index, sample.describe(), item, run_operator(target, subject.info.op, sample, grad=True)


def _undeclared_dtypes_of_inputs(target: Target, subject: Subject, seed: int) -> frozenset[str]:
    """Return the dtypes of the error inputs that the target does not declare."""
    inputs = attempt(
        lambda: torch_testing_internals.error_inputs(find("operator", subject.name).info, "cpu", seed=seed)
    )
    wrong = (
        [samples_from_inputs([item.sample_input])[0].arguments for item in inputs.value] if inputs.ok else []
    )
    return undeclared_dtypes.undeclared_among(target, wrong)


def _call_on_cpu(subject: Subject, sample: Sample) -> Any:
    with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.silence_warnings():
        return to_host(sample).call(unmodified_info(subject).op)
