"""Property ``zero-grad``: gradients accumulate over calls until zero_grad clears them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.compare import compare_exact, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.observed_modules import (
    Cotangents,
    ModuleProcedure,
    Observation,
    current_gradients,
    run_backward,
)
from conformance.properties.modules import _module_checks as common
from conformance.samples.copies import make_copier
from conformance.samples.modules import Arguments
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

CALL_COUNT = 2


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if not common.has_parameters_or_buffers(subject):
        return []
    return common.first_dtype_only(target, subject)


def _accumulate_gradients(
    module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents
) -> Observation:
    args, kwargs = arguments
    with torch.enable_grad():
        for _ in range(CALL_COUNT):
            run_backward(module(*args, **kwargs), cotangents or [])
    return current_gradients(module, arguments)


ACCUMULATE = ModuleProcedure("accumulate", _accumulate_gradients, backward=True)


@register(
    "zero-grad",
    subject_kind="module",
    statement="Gradients of several calls add up; zero_grad sets them to None or, in place, to zeros.",
    documentation="generated/torch.nn.Module.html",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run two backward passes on the target, compare the accumulated gradients, and check zero_grad with
    ``set_to_none`` True and False.
    """
    for sample, reference in common.samples_with_references(subject, recorder, ACCUMULATE, 2):
        module = sample.module()

        def accumulate(module: torch.nn.Module = module) -> Observation:
            module.to(target.torch_device)
            arguments = sample.arguments(make_copier(target))  # noqa: B023
            return _accumulate_gradients(module, arguments, reference.cotangents)  # noqa: B023

        outcome = common.attempt_on_target(target, accumulate)
        label = f"two backward passes of {sample.describe()}"
        if not common.require_success(target, recorder, outcome, label, sample.index):
            continue
        common.compare_observation(
            target,
            recorder,
            subject,
            sample,
            outcome.value,
            reference,
            only=("gradient",),
            label="after two calls ",
        )
        _check_zero_grad(target, recorder, module, sample.index)


def _check_zero_grad(target: Target, recorder: Recorder, module: torch.nn.Module, index: int) -> None:
    """Check zero_grad with ``set_to_none=False`` and with the default, which sets gradients to None."""
    parameters = dict(module.named_parameters())
    grads = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}

    def gradients_after_zeroing() -> dict[str, torch.Tensor | None]:
        module.zero_grad(set_to_none=False)
        return {name: parameters[name].grad for name in grads}

    outcome = common.attempt_on_target(target, gradients_after_zeroing)
    if common.require_success(target, recorder, outcome, "zero_grad(set_to_none=False)", index):
        for name, grad in outcome.value.items():
            label = f"the gradient of {name} after zero_grad(set_to_none=False)"
            if fact(
                recorder,
                grad is grads[name],
                Kind.STATE,
                f"{label} is not the same tensor as before.",
                sample=index,
            ):
                compare_exact(
                    recorder, grad, torch.zeros(grad.shape, dtype=grad.dtype), label=label, sample=index
                )
    outcome = common.attempt_on_target(target, module.zero_grad)
    if common.require_success(target, recorder, outcome, "zero_grad()", index):
        for name, parameter in module.named_parameters():
            text = f"the gradient of {name} after zero_grad() is a tensor, expected None."
            fact(recorder, parameter.grad is None, Kind.STATE, text, sample=index)
