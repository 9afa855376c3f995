"""The gradients of a module's parameters and inputs equal the oracle's."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.observed_modules import BACKWARD
from conformance.properties.modules import _module_checks as common
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not getattr(subject.info, "differentiable", True):
        return []
    return common.dtypes_of(target, subject)


@register(
    "backward",
    subject_kind="module",
    statement="Gradients of parameters and inputs lie on the device and have the oracle's values.",
    documentation="notes/autograd.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(subject, recorder, BACKWARD, 8):
        outcome = common.run_on(target, sample, BACKWARD, want)
        if common.succeeded(target, recorder, outcome, f"backward of {sample.describe()}", sample.index):
            common.compare_observation(
                target, recorder, subject, sample, outcome.value, want, only=("gradient", "output")
            )
