"""Property: fake tensors predict the metadata of gradients."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome, attempt, attempt_on, one_line
from conformance.framework.compare import compare_leaf_counts, compare_metadata, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.properties.operators import _gradients
from conformance.properties.operators.fake import depends_on_values
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import differentiable_dtypes, unmodified_info
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    return differentiable_dtypes(target, subject, ("float32",))


@register(
    "fake_backward",
    subject_kind="operator",
    statement="Fake tensors predict the shape, dtype and layout of gradients.",
    documentation="user_guide/torch_compiler/torch.compiler_fake_tensor.html",
    level="full",
    applies=dtypes_to_check,
    capabilities=("autograd", "fake_tensors", "storage"),
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Differentiate on the device and with fake tensors, and compare the metadata."""
    for sample, copy in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        real = attempt_on(target, functools.partial(_outputs_and_gradients, subject.info, copy))
        if not real.ok:
            recorder.compared(1)  # the gradient properties check whether the call must work
            continue
        second_copy = copy_sample_to_device(target, recorder, sample)
        if second_copy is None:
            continue
        trial = recorder.scratch()
        _compare_predictions(
            trial,
            real.value,
            attempt(functools.partial(_predicted_outputs_and_gradients, subject.info, second_copy)),
            sample.index,
        )
        if trial.failed and not _fake_tensors_predict_cpu(subject, sample):
            recorder.note(f"fake tensors do not predict sample {sample.index} on the CPU either")
            recorder.compared(1)
            continue
        recorder.merge(trial)


def _compare_predictions(recorder: Recorder, real: list[list[Any]], fake: CallOutcome, index: int) -> None:
    """Compare the device's outputs and gradients with the outputs and gradients that fake tensors predict."""
    if fake.error is not None:
        refused = isinstance(
            fake.error, torch_testing_internals.dynamic_output_errors()
        ) or depends_on_values(fake.error)
        message = f"fake tensors raise {one_line(fake.error)}, but the device has gradients."
        fact(recorder, refused, Kind.EXCEPTION, message, sample=index, basis=Basis.PARITY)
        return
    for kind, actual, predicted in zip(("output", "gradient"), real, fake.value, strict=True):
        if not compare_leaf_counts(recorder, actual, predicted, label=f"the {kind}s", sample=index):
            continue
        for tensor_index, (actual_tensor, predicted_tensor) in enumerate(zip(actual, predicted, strict=True)):
            if actual_tensor is None or predicted_tensor is None:
                recorder.compared(1)
                continue
            label = f"{kind} {tensor_index}, compared with its fake tensor,"
            compare_metadata(
                recorder,
                actual_tensor,
                predicted_tensor,
                label=label,
                sample=index,
                device=predicted_tensor.device,
            )


def _outputs_and_gradients(info: Any, sample: Sample) -> list[list[Any]]:
    """Return the differentiable outputs and the gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        derivative = _gradients.differentiate(info, info.op, sample)
    return [list(derivative.outputs), list(derivative.gradients)]


def _predicted_outputs_and_gradients(info: Any, sample: Sample) -> list[list[Any]]:
    mode = torch_testing_internals.fake_tensor_mode()

    def fake_leaf(value: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    input, args, kwargs = trees.tree_map(fake_leaf, sample.arguments)
    with mode:
        return _outputs_and_gradients(info, sample.replace(input=input, args=args, kwargs=kwargs))


def _fake_tensors_predict_cpu(subject: Subject, sample: Sample) -> bool:
    """Return whether fake tensors predict the metadata of the CPU's own outputs and gradients."""

    def real_and_predicted_metadata() -> list[Any]:
        info = unmodified_info(subject)
        real = _outputs_and_gradients(info, to_host(sample))
        fake = _predicted_outputs_and_gradients(info, to_host(sample))
        return [trees.tree_map(_metadata_text, tensors) for tensors in (real, fake)]

    outcome = attempt(real_and_predicted_metadata)
    return outcome.ok and outcome.value[0] == outcome.value[1]


def _metadata_text(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return str((list(value.shape), value.dtype, value.layout))
