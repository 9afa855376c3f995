"""Batches by vmap."""

from __future__ import annotations

import functools
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _func_transforms as transforms
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "vmap",
    subject_kind="operator",
    statement="vmap gives what one call after the other gives, wherever the batch dimension is.",
    documentation="generated/torch.vmap.html",
    level="full",
    applies=transforms.applies,
    capabilities=("functorch",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, plain, tested in transforms.cases(target, subject, recorder):
        batch, device_batch = transforms.batch_of(plain.primals), transforms.batch_of(tested.primals)

        def one_by_one(primals: transforms.Tensors, plain: Any = plain) -> Any:
            batch = transforms.batch_of(primals)
            rows = [plain.function(*transforms.rows_of(batch, row)) for row in range(transforms.BATCH)]
            return transforms.stacked(rows)

        for dim in (0, -1):

            def mapped(function: Any, tensors: Any, dim: int = dim) -> Any:
                moved = [tensor.movedim(0, dim) for tensor in tensors]
                return torch.vmap(function, in_dims=dim, randomness="same")(*moved)

            transforms.compare(
                target,
                recorder,
                subject,
                sample,
                functools.partial(mapped, tested.function, device_batch),
                one_by_one,
                plain.primals,
                functools.partial(mapped, plain.function, batch),
                f"vmap over dimension {dim}",
            )
