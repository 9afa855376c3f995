"""Property ``sparse-gradients``: optimizer steps with sparse gradients agree with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.optimizers import Build, Observation, OptimizerProcedure, observe_parameters_and_state
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import STEP_COUNT, OptimizationProblem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    if not (subject.info.supports_sparse or subject.info.only_supports_sparse_grads):
        return []
    return [name for name in common.supported_dtypes(target, subject) if name in ("float32", "float64")]


def _sparse_gradient(dense: torch.Tensor, step: int) -> torch.Tensor:
    """Return a COO gradient of two rows, one of which is listed twice, like the gradient of an embedding."""
    rows = torch.tensor([[step % dense.shape[0], 1, 1]], device=dense.device)
    values = torch.stack([dense[step % dense.shape[0]], dense[1], dense[0]])
    return torch.sparse_coo_tensor(rows, values, dense.shape)


def _sparse_procedure(options: dict[str, Any]) -> OptimizerProcedure:
    def steps_with_sparse_gradients(problem: OptimizationProblem, build: Build) -> Observation:
        used = [
            index
            for index, parameter in enumerate(problem.parameters)
            if parameter.dim() > 1 and parameter.shape[0] > 1
        ]
        optimizer = build([problem.parameters[index] for index in used], **options)
        for step in range(STEP_COUNT):
            for index in used:
                problem.parameters[index].grad = _sparse_gradient(problem.gradients[step][index], step)
            optimizer.step()
        return observe_parameters_and_state(problem, optimizer)

    return OptimizerProcedure(f"sparse {sorted(options)}", steps_with_sparse_gradients)


@register(
    "sparse-gradients",
    subject_kind="optimizer",
    statement="Gradients in COO layout, with repeated rows, update parameters as on the CPU.",
    documentation="generated/torch.optim.SparseAdam.html",
    level="full",
    applies=dtypes_to_check,
    capabilities=("autograd", "sparse"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Take steps with sparse gradients on the target and compare parameters and states with the reference."""
    # Only the for-loop accepts sparse gradients; foreach and fused need dense gradients.
    sparse_options = dict(subject.info.metadata_for_sparse[0])
    for options in ({}, sparse_options):
        procedure = _sparse_procedure(options)
        limit = 4 if subject.info.only_supports_sparse_grads else 1
        for sample, reference in common.samples_with_references(target, subject, recorder, procedure, limit):
            for_loop_options = common.options_by_implementation(target, subject, sample)["for-loop"]
            outcome = common.run_procedure(target, sample, procedure, for_loop_options)
            if common.require_success(
                target, recorder, outcome, f"sparse steps of {sample.describe()}", sample.index
            ):
                common.compare_observation(
                    target, recorder, subject, sample, outcome.value, reference, label="sparse gradients"
                )
