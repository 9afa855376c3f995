"""Property ``forward``: the outputs of a module, and its buffers after the call, agree with the reference."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    return common.supported_dtypes(target, subject)


@register(
    "forward",
    subject_kind="module",
    statement="Outputs, and buffers after a call, have the metadata of the reference, and equal values "
    "within the tolerance.",
    documentation="nn.html",
    level="bringup",
    applies=dtypes_to_check,
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the module on the target and compare outputs and buffers with the reference."""
    for sample, reference in common.samples_with_references(subject, recorder):
        outcome = common.run_procedure(target, sample, FORWARD, reference)
        if common.require_success(target, recorder, outcome, sample.describe(), sample.index):
            common.compare_observation(target, recorder, subject, sample, outcome.value, reference)
