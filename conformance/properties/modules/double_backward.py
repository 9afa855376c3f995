"""Gradients of gradients equal the oracle's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import tensors
from conformance.oracle.observed_modules import Cotangents, Observation, Procedure, differentiable
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Modules whose backward has no derivative on the CPU.
NOT_TWICE = frozenset({"nn.MultiMarginLoss", "nn.MultiLabelMarginLoss", "nn.CTCLoss", "nn.Hardsigmoid"})


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in NOT_TWICE or not getattr(subject.info, "supports_gradgrad", True):
        return []
    return [name for name in common.dtypes_of(target, subject) if name in ("float32", "float64")][:1]


def noise(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return numbers of a normal distribution that are the same in every dtype and on every device."""
    numbers = torch.randn(like.shape, generator=generator, dtype=torch.float32)
    return numbers.to(device=like.device, dtype=like.dtype)


def _twice(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents) -> Observation:
    """Return gradients of a fixed sum of the gradients; attention by the kernel that has second
    derivatives.
    """
    args, kwargs = arguments
    named: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        named[f"gradient of gradient of {name}"] = parameter
    for number, tensor in enumerate(tensors(arguments)):
        if tensor.requires_grad:
            named[f"gradient of gradient of input {number}"] = tensor
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        outputs = differentiable(module(*args, **kwargs))
        if not outputs or not named:
            return {}
        sources = list(named.values())
        given = [
            cotangent.to(device=out.device, dtype=out.dtype)
            for cotangent, out in zip(cotangents or (), outputs, strict=True)
        ]
        first = torch.autograd.grad(outputs, sources, given, create_graph=True, allow_unused=True)
        again = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
        if not again:
            return dict.fromkeys(named)
        generator = torch.Generator().manual_seed(len(again))
        weights = [noise(gradient, generator) for gradient in again]
        return dict(zip(named, torch.autograd.grad(again, sources, weights, allow_unused=True), strict=True))


TWICE = Procedure("double backward", _twice, backward=True)


@register(
    "double-backward",
    subject_kind="module",
    statement="The gradient of a fixed weighted sum of all gradients has the oracle's values.",
    documentation="notes/gradcheck.html",
    level="full",
    applies=applies,
    capabilities=("autograd", "double_backward"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in common.cases(subject, recorder, TWICE, 3):
        outcome = common.run_on(target, sample, TWICE, want)
        if common.succeeded(
            target, recorder, outcome, f"double backward of {sample.describe()}", sample.index
        ):
            common.compare_observation(target, recorder, subject, sample, outcome.value, want)
            recorder.compared(1)
