"""Property: results equal the reference."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtypes_of
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    samples_with_references,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return dtypes_of(target, subject)


@register(
    "value",
    subject_kind="operator",
    statement=(
        "Results have the nesting, shapes, dtypes and device of the reference, and equal values within the "
        "tolerance. Arguments that the operator does not write do not change."
    ),
    documentation="torch.html",
    level="bringup",
    applies=dtypes_to_check,
    smoke=True,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on each sample and compare outputs and unwritten arguments with the reference."""
    for sample, reference in samples_with_references(target, subject, recorder):
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if outcome.ok:
            compare_outputs(target, recorder, reference, outcome.value)
            check_unwritten_arguments(recorder, sample, copy, reference.written)
        else:
            report_failed_call(target, recorder, sample, outcome)
