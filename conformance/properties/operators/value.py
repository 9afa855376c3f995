"""Results equal the oracle."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtypes_of
from conformance.properties.shared.execution import cases, copy_in, report_failed_call, run
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return dtypes_of(target, subject)


@register(
    "value",
    subject_kind="operator",
    statement=(
        "Results have the oracle's nesting, shapes, dtypes and device, and its values within the tolerance; "
        "arguments that the operator does not write stay as they were."
    ),
    documentation="torch.html",
    level="bringup",
    applies=applies,
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in cases(target, subject, recorder):
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        outcome = run(target, subject.info.op, copy)
        if outcome.ok:
            compare_outputs(target, recorder, subject, sample, outcome.value, want)
            check_unwritten_arguments(recorder, sample, copy, want.written)
        else:
            report_failed_call(target, recorder, sample, outcome)
