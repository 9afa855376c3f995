"""The devices on which the implementations keep their states, and their agreement with each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.compare import compare_metadata, compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import Observation, OptimizerReference
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import OptimizerSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dense(target, subject)[:1] if subject.info.supported_impls else []


@register(
    "implementations",
    subject_kind="optimizer",
    statement="The implementations agree in values and states, and keep their states on the right devices.",
    documentation="optim.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(target, subject, recorder, common.STEP):
        shown: dict[str, Observation] = {}
        for word, options in common.implementations(target, subject, sample).items():
            outcome = common.run_on(target, sample, common.STEP, options)
            if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({word})", sample.index):
                shown[word] = outcome.value
                _places(target, recorder, sample, word, outcome.value)
        reference = shown.pop("for-loop", None)
        if reference is not None:
            for word, actual in shown.items():
                _agree(target, recorder, subject, sample, word, actual, reference, want)


def _places(
    target: Target, recorder: Recorder, sample: OptimizerSample, word: str, actual: Observation
) -> None:
    """Check that states are beside their parameter; step counts may stay on the CPU unless captured
    or fused.
    """
    device = target.torch_device
    for name, value in actual.items():
        if not isinstance(value, torch.Tensor):
            continue
        right = value.device.type == device.type
        single = value.dim() == 0 and not name.startswith("parameter")
        if single and not sample.capturable and word != "fused":
            right = right or value.device.type == "cpu"
        text = f"{name} of {sample.describe()} ({word}) is on {value.device}, expected {device}."
        fact(recorder, right, Kind.METADATA, text, sample=sample.index)


def _agree(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: OptimizerSample,
    word: str,
    actual: Observation,
    reference: Observation,
    want: OptimizerReference,
) -> None:
    names = f"{', '.join(actual)}, but the for-loop keeps {', '.join(reference)}"
    text = f"{sample.describe()} ({word}) keeps {names}."
    if not fact(recorder, set(actual) == set(reference), Kind.STATE, text, sample=sample.index):
        return
    for name, base in reference.items():
        label = f"{name} of {sample.describe()} ({word} beside the for-loop)"
        if not isinstance(base, torch.Tensor):
            fact(recorder, actual[name] == base, Kind.VALUE, f"{label} is {actual[name]}, not {base}.")
        elif compare_metadata(recorder, actual[name], base, label=label, sample=sample.index):
            bound, spread = common.allowance(target, subject, sample, actual[name], want, name)
            compare_values(
                recorder,
                actual[name],
                base,
                tolerance=bound.widened(2),
                label=label,
                sample=sample.index,
                spread=spread,
            )
