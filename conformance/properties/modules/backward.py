"""Property ``backward``: the gradients of a module's parameters and inputs equal the reference."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.observed_modules import BACKWARD
from conformance.properties.modules import _module_checks as common
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if not getattr(subject.info, "differentiable", True):
        return []
    return common.supported_dtypes(target, subject)


@register(
    "backward",
    subject_kind="module",
    statement="Gradients of parameters and inputs are on the device and equal the reference.",
    documentation="generated/torch.nn.Module.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run the backward pass on the target and compare outputs and gradients with the reference."""
    for sample, reference in common.samples_with_references(subject, recorder, BACKWARD, 8):
        outcome = common.run_procedure(target, sample, BACKWARD, reference)
        if common.require_success(
            target, recorder, outcome, f"backward of {sample.describe()}", sample.index
        ):
            common.compare_observation(
                target, recorder, subject, sample, outcome.value, reference, only=("gradient", "output")
            )
