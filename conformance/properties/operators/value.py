"""Results equal the oracle."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators._arguments import check_kept
from conformance.properties.operators._common import (
    cases,
    compare_result,
    copy_in,
    dtypes_of,
    failed_call,
    run,
)
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
            compare_result(target, recorder, subject, sample, outcome.value, want)
            check_kept(recorder, sample, copy, want.written)
        else:
            failed_call(target, recorder, sample, outcome)
