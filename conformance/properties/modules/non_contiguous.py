"""Inputs with gaps, offsets and swapped dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.calls import attempt
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.trees import leaves
from conformance.oracle.modules import ModuleReference
from conformance.oracle.observed_modules import (
    BACKWARD,
    FORWARD,
    Cotangents,
    Observation,
    Procedure,
    backward,
    gradients,
    observe,
)
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments, ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return common.dtypes_of(target, subject)[:2]


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values in every second place of a larger memory that starts with something else.

    Of two or more dimensions, the last two are swapped in memory too. The gaps hold NaN, or zero among
    integers: those may be indices, and one out of bounds would end the process.
    """
    if tensor.numel() == 0 or tensor.layout is not torch.strided:
        return tensor
    swapped = tensor.transpose(-1, -2) if tensor.dim() > 1 else tensor
    shape = (*swapped.shape, 2) if swapped.dim() else (3,)
    hole = float("nan") if tensor.is_floating_point() or tensor.is_complex() else 0
    memory = torch.full(shape, hole, dtype=tensor.dtype, device=tensor.device)
    place = memory.select(-1, 1)
    place.copy_(swapped)
    return place.transpose(-1, -2) if tensor.dim() > 1 else place


def _run(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents) -> Observation:
    args, kwargs = common.each_tensor(arguments, strided)
    if cotangents is None:
        return observe(module, (args, kwargs))
    with torch.enable_grad():
        result = module(*args, **kwargs)
        observation: Observation = {f"output {number}": leaf for number, leaf in enumerate(leaves(result))}
        backward(result, [strided(cotangent) for cotangent in cotangents])
    observation.update(gradients(module, (args, kwargs)))
    return observation


def _refused_by_cpu(sample: ModuleSample, run: Procedure, want: ModuleReference, error: Exception) -> bool:
    """Return whether the CPU raises the same error: some modules take a view that strided memory
    cannot give.
    """
    reference = attempt(lambda: run.run(sample.module(), sample.arguments(), want.cotangents))
    return (
        reference.error is not None
        and type(reference.error) is type(error)
        and str(reference.error) == str(error)
    )


RUNS = ((Procedure("strided", _run), FORWARD), (Procedure("strided", _run, backward=True), BACKWARD))


@register(
    "non-contiguous",
    subject_kind="module",
    statement="Strided inputs and cotangents give the outputs and gradients of contiguous ones.",
    documentation="generated/torch.Tensor.stride.html",
    level="core",
    applies=applies,
    capabilities=("non_contiguous",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for run, reference in RUNS[: 2 if target.capable("autograd") else 1]:
        for sample, want in common.cases(subject, recorder, reference, 3):
            outcome = common.run_on(target, sample, run, want)
            if outcome.error is not None and _refused_by_cpu(sample, run, want, outcome.error):
                recorder.note(f"strided inputs of {sample.describe()} are refused on the CPU too")
                recorder.compared(1)
                continue
            if common.succeeded(
                target, recorder, outcome, f"strided inputs of {sample.describe()}", sample.index
            ):
                common.compare_observation(
                    target,
                    recorder,
                    subject,
                    sample,
                    outcome.value,
                    want,
                    only=("output", "gradient"),
                    label="strided ",
                )
