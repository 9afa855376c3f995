"""Outputs of a module, and its buffers after the call, equal the oracle's."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.observed_modules import FORWARD
from conformance.properties.modules import _module_checks as common
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dtypes_of(target, subject)


@register(
    "forward",
    subject_kind="module",
    statement="Outputs and buffers after a call have the oracle's metadata, and its values within tolerance.",
    documentation="nn.html",
    level="bringup",
    applies=applies,
    smoke=True,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(subject, recorder):
        outcome = common.run_on(target, sample, FORWARD, want)
        if common.succeeded(target, recorder, outcome, sample.describe(), sample.index):
            common.compare_observation(target, recorder, subject, sample, outcome.value, want)
