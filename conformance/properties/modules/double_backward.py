"""Property ``double-backward``: second derivatives of a module equal the reference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import tensors
from conformance.oracle.observed_modules import (
    Cotangents,
    ModuleProcedure,
    Observation,
    differentiable_outputs,
)
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Modules whose backward pass is not differentiable on the CPU.
WITHOUT_SECOND_DERIVATIVE = frozenset(
    {"nn.MultiMarginLoss", "nn.MultiLabelMarginLoss", "nn.CTCLoss", "nn.Hardsigmoid"}
)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if subject.name in WITHOUT_SECOND_DERIVATIVE or not getattr(subject.info, "supports_gradgrad", True):
        return []
    return [name for name in common.supported_dtypes(target, subject) if name in ("float32", "float64")][:1]


def normal_values_like(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return normally distributed numbers with the shape, dtype and device of ``like``.

    They are drawn on the CPU in float32, so they are the same on every device.
    """
    numbers = torch.randn(like.shape, generator=generator, dtype=torch.float32)
    return numbers.to(device=like.device, dtype=like.dtype)


def _second_derivatives(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents) -> Observation:
    """Return the gradients of a weighted sum of the first derivatives; the weights are fixed.

    Attention runs in the math kernel, because only this kernel has second derivatives.
    """
    args, kwargs = arguments
    sources_by_name: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        sources_by_name[f"gradient of gradient of {name}"] = parameter
    for number, tensor in enumerate(tensors(arguments)):
        if tensor.requires_grad:
            sources_by_name[f"gradient of gradient of input {number}"] = tensor
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        outputs = differentiable_outputs(module(*args, **kwargs))
        if not outputs or not sources_by_name:
            return {}
        sources = list(sources_by_name.values())
        output_gradients = [
            cotangent.to(device=out.device, dtype=out.dtype)
            for cotangent, out in zip(cotangents or (), outputs, strict=True)
        ]
        first_gradients = torch.autograd.grad(
            outputs, sources, output_gradients, create_graph=True, allow_unused=True
        )
        differentiable_gradients = [
            gradient for gradient in first_gradients if gradient is not None and gradient.requires_grad
        ]
        if not differentiable_gradients:
            return dict.fromkeys(sources_by_name)
        generator = torch.Generator().manual_seed(len(differentiable_gradients))
        weights = [normal_values_like(gradient, generator) for gradient in differentiable_gradients]
        return dict(
            zip(
                sources_by_name,
                torch.autograd.grad(differentiable_gradients, sources, weights, allow_unused=True),
                strict=True,
            )
        )


DOUBLE_BACKWARD = ModuleProcedure("double backward", _second_derivatives, backward=True)


@register(
    "double-backward",
    subject_kind="module",
    statement="The gradient of a fixed weighted sum of all gradients equals the reference.",
    documentation="notes/gradcheck.html",
    level="full",
    applies=dtypes_to_check,
    capabilities=("autograd", "double_backward"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compute second derivatives on the target and compare them with the reference."""
    for sample, reference in common.samples_with_references(subject, recorder, DOUBLE_BACKWARD, 3):
        outcome = common.run_procedure(target, sample, DOUBLE_BACKWARD, reference)
        if common.require_success(
            target, recorder, outcome, f"double backward of {sample.describe()}", sample.index
        ):
            common.compare_observation(target, recorder, subject, sample, outcome.value, reference)
            recorder.compared(1)
