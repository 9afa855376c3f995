"""Property: compiled calls return the reference values."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _compiled_calls
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtypes_of
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 2
#: The number of samples in the first dtype of an operator. Its other dtypes have only ``LIMIT`` samples,
#: because the forms of a call are the same in every dtype.
FIRST_LIMIT = 3


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return (
        dtypes_of(target, subject, _compiled_calls.DTYPES)
        if _compiled_calls.can_be_captured_by_dynamo(subject)
        else []
    )


@register(
    "compile_value",
    subject_kind="operator",
    statement="Compiled into one graph, the operator gives the reference values and metadata in two calls.",
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The first and later compiled calls must agree with the eager operator on the device",
    level="bringup",
    applies=dtypes_to_check,
    capabilities=("compile",),
    smoke=True,
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the compiled operator twice on each sample and compare both results with the reference."""
    compiler = _compiled_calls.CompiledCallRunner(target, recorder)
    is_first_dtype = recorder.id.dtype == dtypes_to_check(target, subject)[0]
    cpu_operator = _compiled_calls.unseeded_operator(find("operator", subject.name))
    for sample, reference in _compiled_calls.varied_samples_with_references(
        target, subject, recorder, FIRST_LIMIT if is_first_dtype else LIMIT
    ):
        copy, first_copy = (
            copy_sample_to_device(target, recorder, sample),
            copy_sample_to_device(target, recorder, sample),
        )
        if copy is None or first_copy is None:
            continue
        outcome = compiler.call_without_gradients(
            sample, copy, _compiled_calls.unseeded_operator(subject), cpu_operator, first_copy=first_copy
        )
        if outcome is not None:
            assert compiler.first_outcome is not None
            compare_outputs(target, recorder, reference, compiler.first_outcome.value)
            compare_outputs(target, recorder, reference, outcome.value)
    compiler.require_evidence()
