"""Property ``steps``: the steps of each implementation agree with the CPU's for-loop in float64."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return common.dtypes_of_dense_optimizer(target, subject)


@register(
    "steps",
    subject_kind="optimizer",
    statement="After four steps of any implementation, parameters and states equal the CPU's for-loop.",
    documentation="optim.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take four steps with each implementation and compare parameters and states with the reference."""
    for sample, reference in common.samples_with_references(target, subject, recorder, common.STEP):
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            outcome = common.run_procedure(target, sample, common.STEP, options)
            label = f"four steps of {sample.describe()} ({implementation})"
            if common.require_success(target, recorder, outcome, label, sample.index):
                common.compare_observation(
                    target,
                    recorder,
                    subject,
                    sample,
                    outcome.value,
                    reference,
                    label=f"{implementation}, four steps",
                )
