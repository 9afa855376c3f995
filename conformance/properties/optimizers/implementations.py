"""Property ``implementations``: all implementations of an optimizer agree with the for-loop, and their states
are on the right devices.
"""

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


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    return common.dtypes_of_dense_optimizer(target, subject)[:1] if subject.info.supported_impls else []


@register(
    "implementations",
    subject_kind="optimizer",
    statement="The implementations have equal parameters and states, and keep their states on "
    "the right devices.",
    documentation="optim.html",
    basis="consistency",
    ground="For-loop, foreach and fused of the device must agree",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps with each implementation, check the devices of states, and compare the results with the
    results of the for-loop.
    """
    for sample, reference_of_sample in common.samples_with_references(target, subject, recorder, common.STEP):
        observations: dict[str, Observation] = {}
        for implementation, options in common.options_by_implementation(target, subject, sample).items():
            outcome = common.run_procedure(target, sample, common.STEP, options)
            if common.require_success(
                target, recorder, outcome, f"{sample.describe()} ({implementation})", sample.index
            ):
                observations[implementation] = outcome.value
                _check_devices(target, recorder, sample, implementation, outcome.value)
        reference = observations.pop("for-loop", None)
        if reference is not None:
            for implementation, actual in observations.items():
                _compare_with_for_loop(
                    target, recorder, subject, sample, implementation, actual, reference, reference_of_sample
                )


def _check_devices(
    target: Target, recorder: Recorder, sample: OptimizerSample, implementation: str, actual: Observation
) -> None:
    """Check that states are on the parameter's device. Step counts may be on the CPU unless the optimizer is
    capturable or fused.
    """
    device = target.torch_device
    for name, value in actual.items():
        if not isinstance(value, torch.Tensor):
            continue
        is_on_expected_device = value.device.type == device.type
        single = value.dim() == 0 and not name.startswith("parameter")
        if single and not sample.capturable and implementation != "fused":
            is_on_expected_device = is_on_expected_device or value.device.type == "cpu"
        text = f"{name} of {sample.describe()} ({implementation}) is on {value.device}, expected {device}."
        fact(recorder, is_on_expected_device, Kind.METADATA, text, sample=sample.index)


def _compare_with_for_loop(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: OptimizerSample,
    implementation: str,
    actual: Observation,
    reference: Observation,
    reference_of_sample: OptimizerReference,
) -> None:
    """Compare the parameters and states of an implementation with the results of the for-loop."""
    names = f"{', '.join(actual)}, but the for-loop keeps {', '.join(reference)}"
    text = f"{sample.describe()} ({implementation}) keeps {names}."
    if not fact(recorder, set(actual) == set(reference), Kind.STATE, text, sample=sample.index):
        return
    for name, base in reference.items():
        label = f"{name} of {sample.describe()} ({implementation} compared with the for-loop)"
        if not isinstance(base, torch.Tensor):
            fact(recorder, actual[name] == base, Kind.VALUE, f"{label} is {actual[name]}, not {base}.")
        elif compare_metadata(recorder, actual[name], base, label=label, sample=sample.index):
            bound, magnitude = common.tolerance_and_magnitude(
                target, subject, sample, actual[name], reference_of_sample, name
            )
            compare_values(
                recorder,
                actual[name],
                base,
                tolerance=bound.widened(2),
                label=label,
                sample=sample.index,
                sensitivity=magnitude,
            )
