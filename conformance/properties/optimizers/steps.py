"""Several steps of every implementation equal the for-loop in float64 on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dense(target, subject)


@register(
    "steps",
    subject_kind="optimizer",
    statement="After four steps of any implementation parameters and states are those of the CPU's for-loop.",
    documentation="generated/torch.optim.Optimizer.step.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(target, subject, recorder, common.STEP):
        for word, options in common.implementations(target, subject, sample).items():
            outcome = common.run_on(target, sample, common.STEP, options)
            what = f"four steps of {sample.describe()} ({word})"
            if common.succeeded(target, recorder, outcome, what, sample.index):
                common.compare_observation(
                    target, recorder, subject, sample, outcome.value, want, label=f"{word}, four steps"
                )
