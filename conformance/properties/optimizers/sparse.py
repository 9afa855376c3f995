"""Sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.optimizers import Build, Observation, Procedure, observed
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.optimizers import STEPS, Problem
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not (subject.info.supports_sparse or subject.info.only_supports_sparse_grads):
        return []
    return [name for name in common.dtypes_of(target, subject) if name in ("float32", "float64")]


def _thinned(dense: torch.Tensor, step: int) -> torch.Tensor:
    """Return a COO gradient of two of the rows, one of them given twice, as an embedding makes it."""
    rows = torch.tensor([[step % dense.shape[0], 1, 1]], device=dense.device)
    values = torch.stack([dense[step % dense.shape[0]], dense[1], dense[0]])
    return torch.sparse_coo_tensor(rows, values, dense.shape)


def _sparse(options: dict[str, Any]) -> Procedure:
    def run(problem: Problem, build: Build) -> Observation:
        used = [
            index
            for index, parameter in enumerate(problem.parameters)
            if parameter.dim() > 1 and parameter.shape[0] > 1
        ]
        optimizer = build([problem.parameters[index] for index in used], **options)
        for step in range(STEPS):
            for index in used:
                problem.parameters[index].grad = _thinned(problem.gradients[step][index], step)
            optimizer.step()
        return observed(problem, optimizer)

    return Procedure(f"sparse {sorted(options)}", run)


@register(
    "sparse-gradients",
    subject_kind="optimizer",
    statement="Gradients in COO layout, with repeated rows, move parameters as on the CPU.",
    documentation="generated/torch.optim.SparseAdam.html",
    level="full",
    applies=applies,
    capabilities=("autograd", "sparse"),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    # foreach and fused take dense gradients only, so the for-loop alone is asked for.
    tuned = dict(subject.info.metadata_for_sparse[0])
    for options in ({}, tuned):
        procedure = _sparse(options)
        limit = 4 if subject.info.only_supports_sparse_grads else 1
        for sample, want in common.cases(target, subject, recorder, procedure, limit):
            plain = common.implementations(target, subject, sample)["for-loop"]
            outcome = common.run_on(target, sample, procedure, plain)
            if common.succeeded(
                target, recorder, outcome, f"sparse steps of {sample.describe()}", sample.index
            ):
                common.compare_observation(
                    target, recorder, subject, sample, outcome.value, want, label="sparse gradients"
                )
