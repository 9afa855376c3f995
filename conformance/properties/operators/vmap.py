"""Batches by vmap."""

from __future__ import annotations

from typing import Any

import torch

from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.properties.operators import _transforms as transforms
from conformance.subjects.databases import Subject
from conformance.target.target import Target


@register(
    "vmap",
    subject_kind="operator",
    statement="vmap gives what one call after the other gives, wherever the batch dimension stands.",
    level="full",
    applies=transforms.applies,
    capabilities=("functorch",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    for sample, plain, own in transforms.cases(target, subject, recorder):
        batch, mine = transforms.batch_of(plain.primals), transforms.batch_of(own.primals)

        def one_by_one(primals: transforms.Tensors, plain: Any = plain) -> Any:
            batch = transforms.batch_of(primals)
            rows = [plain.function(*transforms.rows_of(batch, row)) for row in range(transforms.BATCH)]
            return transforms.stacked(rows)

        for where in (0, -1):

            def mapped(function: Any, tensors: Any, where: int = where) -> Any:
                moved = [tensor.movedim(0, where) for tensor in tensors]
                return torch.vmap(function, in_dims=where, randomness="same")(*moved)

            transforms.compare(
                target,
                recorder,
                subject,
                sample,
                lambda own=own, mine=mine, mapped=mapped: mapped(own.function, mine),  # type: ignore[misc]
                one_by_one,
                plain.primals,
                lambda plain=plain, batch=batch, mapped=mapped: mapped(plain.function, batch),  # type: ignore[misc]
                f"vmap over dimension {where}",
            )
