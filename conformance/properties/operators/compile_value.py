"""Compiled calls have the oracle's values."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _compile_checks
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtypes_of
from conformance.properties.shared.execution import copy_in
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 2
#: In the first dtype of an operator one more: the forms of its call are the same in every dtype.
FIRST_LIMIT = 3


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return dtypes_of(target, subject, _compile_checks.DTYPES) if _compile_checks.has_graph(subject) else []


@register(
    "compile_value",
    subject_kind="operator",
    statement="Compiled into one graph, the operator gives the oracle's values and metadata, twice.",
    documentation="generated/torch.compile.html",
    level="bringup",
    applies=applies,
    capabilities=("compile",),
    smoke=True,
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    compiler = _compile_checks.Compiler(target, recorder)
    first = recorder.id.dtype == applies(target, subject)[0]
    reference = _compile_checks.unseeded_operator(find("operator", subject.name))
    for sample, want in _compile_checks.cases(target, subject, recorder, FIRST_LIMIT if first else LIMIT):
        copy, again = copy_in(target, recorder, sample), copy_in(target, recorder, sample)
        if copy is None or again is None:
            continue
        outcome = compiler.forward(
            sample, copy, _compile_checks.unseeded_operator(subject), reference, again=again
        )
        if outcome is not None:
            assert compiler.first is not None
            compare_outputs(target, recorder, subject, sample, compiler.first.value, want)
            compare_outputs(target, recorder, subject, sample, outcome.value, want)
    compiler.settle()
