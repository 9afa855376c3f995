"""Inputs that must be refused, from torch's database."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import CallOutcome, attempt, is_refusal, report_error
from conformance.framework.recorder import Recorder
from conformance.properties.shared.dtypes import pristine
from conformance.properties.shared.execution import run
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, wrap
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target


@functools.cache
def count(name: str) -> int:
    """Return the number of error inputs that an operator has on the CPU."""
    outcome = attempt(
        lambda: torch_testing_internals.error_inputs(find("operator", name).info, "cpu", seed=0)
    )
    return sum(_says_something(item) for item in outcome.value) if outcome.ok else 0


def _says_something(item: Any) -> bool:
    """Return whether an entry names an error and calls an operator.

    Some expect just any Exception, others pass numbers to the method of a number.
    """
    arguments = (item.sample_input.input, item.sample_input.args, item.sample_input.kwargs)
    named = item.error_type is not Exception or bool(item.error_regex)
    return named and any(isinstance(leaf, (torch.Tensor, torch.Size)) for leaf in trees.leaves(arguments))


def outcomes(
    target: Target, subject: Subject, recorder: Recorder
) -> Iterator[tuple[int, str, Any, CallOutcome]]:
    """Yield (index, arguments in words, torch's ErrorInput, outcome on the device) of every error input."""
    seed = torch_testing_internals.seed_for("errors", subject.name)
    inputs = attempt(lambda: torch_testing_internals.error_inputs(subject.info, target.device, seed=seed))
    if not inputs.ok:
        assert inputs.error is not None
        missing = _unclaimed_inputs(target, subject, seed) - undeclared_dtypes.declared_for(
            target, recorder.id
        )
        if missing and is_refusal(inputs.error):
            recorder.left_out(missing)
            return
        report_error(target, recorder, inputs.error, label="making the wrong arguments on the device")
        return
    for index, item in enumerate(inputs.value):
        recorder.samples(0, 1)
        if not _says_something(item):
            continue
        sample = wrap([item.sample_input])[0].replace(index=index)
        call = functools.partial(_on_the_host, subject, sample)
        if missing := undeclared_dtypes.undeclared_dtypes_of_call(
            target, call, sample.arguments
        ) - undeclared_dtypes.declared_for(target, recorder.id):
            recorder.left_out(missing)
            continue
        recorder.samples(1, 0)
        yield index, sample.describe(), item, run(target, subject.info.op, sample, grad=True)


def _unclaimed_inputs(target: Target, subject: Subject, seed: int) -> frozenset[str]:
    """Return the dtypes that the target does not declare among those of the wrong arguments on the CPU."""
    made = attempt(
        lambda: torch_testing_internals.error_inputs(find("operator", subject.name).info, "cpu", seed=seed)
    )
    wrong = [wrap([item.sample_input])[0].arguments for item in made.value] if made.ok else []
    return undeclared_dtypes.undeclared_among(target, wrong)


def _on_the_host(subject: Subject, sample: Sample) -> Any:
    with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.quiet():
        return to_host(sample).call(pristine(subject).op)
