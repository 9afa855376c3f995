"""Where the implementations keep their states, and that they agree with each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.checking.compare import compare_metadata, compare_values, fact
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import Observation, OptimizerExpected
from conformance.properties.optimizers import _common as common
from conformance.samples.optimizers import OptimizerSample
from conformance.subjects.databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    return common.dense(target, subject)[:1] if subject.info.supported_impls else []


@register(
    "implementations",
    subject_kind="optimizer",
    statement="The implementations agree in values and states, and keep their states where they belong.",
    level="training",
    applies=applies,
    capabilities=("autograd",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    for sample, want in common.cases(target, subject, recorder, common.STEP):
        shown: dict[str, Observation] = {}
        for word, options in common.implementations(target, subject, sample).items():
            outcome = common.run_on(target, sample, common.STEP, options)
            if common.succeeded(target, recorder, outcome, f"{sample.describe()} ({word})", sample.index):
                shown[word] = outcome.value
                _places(target, recorder, sample, word, outcome.value)
        reference = shown.pop("for-loop", None)
        if reference is not None:
            for word, found in shown.items():
                _agree(target, recorder, subject, sample, word, found, reference, want)


def _places(
    target: Target, recorder: Recorder, sample: OptimizerSample, word: str, found: Observation
) -> None:
    """States lie beside their parameter; a step count may stay on the CPU unless it is captured or fused."""
    device = common.device_of(target)
    for name, value in found.items():
        if not isinstance(value, torch.Tensor):
            continue
        right = value.device.type == device.type
        single = value.dim() == 0 and not name.startswith("parameter")
        if single and not sample.capturable and word != "fused":
            right = right or value.device.type == "cpu"
        text = f"{name} of {sample.describe()} ({word}) is on {value.device} where {device} is expected."
        fact(recorder, right, Kind.METADATA, text, sample=sample.index)


def _agree(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: OptimizerSample,
    word: str,
    found: Observation,
    reference: Observation,
    want: OptimizerExpected,
) -> None:
    names = f"{', '.join(found)} where the for-loop keeps {', '.join(reference)}"
    text = f"{sample.describe()} ({word}) keeps {names}."
    if not fact(recorder, set(found) == set(reference), Kind.STATE, text, sample=sample.index):
        return
    for name, base in reference.items():
        said = f"{name} of {sample.describe()} ({word} beside the for-loop)"
        if not isinstance(base, torch.Tensor):
            fact(recorder, found[name] == base, Kind.VALUE, f"{said} is {found[name]}, not {base}.")
        elif compare_metadata(recorder, found[name], base, what=said, sample=sample.index):
            bound, spread = common.allowance(target, subject, sample, found[name], want, name)
            compare_values(
                recorder,
                found[name],
                base,
                tolerance=bound.widened(2),
                what=said,
                sample=sample.index,
                spread=spread,
            )
