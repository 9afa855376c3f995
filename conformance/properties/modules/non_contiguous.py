"""Property ``non-contiguous``: modules compute correctly with inputs that are not contiguous in memory."""

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
    ModuleProcedure,
    Observation,
    current_gradients,
    observe_call,
    run_backward,
)
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import Arguments, ModuleSample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    return common.supported_dtypes(target, subject)[:2]


def copy_with_memory_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that uses every second element of a larger storage, after an offset.

    If the tensor has two or more dimensions, the last two dimensions are also swapped in memory. Unused
    elements are NaN or, in integer tensors, zero: an index out of range could terminate the process.
    """
    if tensor.numel() == 0 or tensor.layout is not torch.strided:
        return tensor
    swapped = tensor.transpose(-1, -2) if tensor.dim() > 1 else tensor
    shape = (*swapped.shape, 2) if swapped.dim() else (3,)
    gap_value = float("nan") if tensor.is_floating_point() or tensor.is_complex() else 0
    storage = torch.full(shape, gap_value, dtype=tensor.dtype, device=tensor.device)
    view = storage.select(-1, 1)
    view.copy_(swapped)
    return view.transpose(-1, -2) if tensor.dim() > 1 else view


def _run_with_memory_gaps(
    module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents
) -> Observation:
    args, kwargs = common.with_changed_tensors(arguments, copy_with_memory_gaps)
    if cotangents is None:
        return observe_call(module, (args, kwargs))
    with torch.enable_grad():
        result = module(*args, **kwargs)
        observation: Observation = {f"output {number}": leaf for number, leaf in enumerate(leaves(result))}
        run_backward(result, [copy_with_memory_gaps(cotangent) for cotangent in cotangents])
    observation.update(current_gradients(module, (args, kwargs)))
    return observation


def _fails_on_cpu_with_same_error(
    sample: ModuleSample, procedure: ModuleProcedure, module_reference: ModuleReference, error: Exception
) -> bool:
    """Return whether the CPU raises an equal error for the strided inputs.

    Some modules call ``view``, which does not accept all strides.
    """
    reference = attempt(
        lambda: procedure.run(sample.module(), sample.arguments(), module_reference.cotangents)
    )
    return (
        reference.error is not None
        and type(reference.error) is type(error)
        and str(reference.error) == str(error)
    )


PROCEDURES = (
    (ModuleProcedure("strided", _run_with_memory_gaps), FORWARD),
    (ModuleProcedure("strided", _run_with_memory_gaps, backward=True), BACKWARD),
)


@register(
    "non-contiguous",
    subject_kind="module",
    statement="Strided inputs and cotangents give the same outputs and gradients as contiguous ones.",
    documentation="generated/torch.nn.Module.html",
    basis="consistency",
    ground="The module must give the same values for strided and for dense inputs",
    level="core",
    applies=dtypes_to_check,
    capabilities=("non_contiguous", "strides"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run the module on strided inputs and compare outputs and gradients with the reference of contiguous
    inputs.
    """
    for procedure, reference_procedure in PROCEDURES[: 2 if target.capable("autograd") else 1]:
        for sample, module_reference in common.samples_with_references(
            subject, recorder, reference_procedure, 3
        ):
            outcome = common.run_procedure(target, sample, procedure, module_reference)
            if outcome.error is not None and _fails_on_cpu_with_same_error(
                sample, procedure, module_reference, outcome.error
            ):
                recorder.note(f"not checked: the CPU refuses strided inputs of {sample.describe()} too")
                recorder.compared(1)
                continue
            if common.require_success(
                target, recorder, outcome, f"strided inputs of {sample.describe()}", sample.index
            ):
                common.compare_observation(
                    target,
                    recorder,
                    subject,
                    sample,
                    outcome.value,
                    module_reference,
                    only=("output", "gradient"),
                    label="strided ",
                )
