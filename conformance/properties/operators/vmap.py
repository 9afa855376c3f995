"""Property: ``vmap`` gives the results of separate calls."""

from __future__ import annotations

import functools
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _func_transforms as transforms
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "vmap",
    subject_kind="operator",
    statement="vmap gives the results of separate calls, for any position of the batch dimension.",
    documentation="generated/torch.vmap.html",
    level="full",
    applies=transforms.dtypes_to_check,
    capabilities=("functorch",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare vmap over several batch dimensions with separate calls on the CPU."""
    for sample, cpu_function, tested in transforms.transformable_samples(target, subject, recorder):
        batch, device_batch = (
            transforms.batch_with_rolled_copies(cpu_function.primals),
            transforms.batch_with_rolled_copies(tested.primals),
        )

        def transform_each_row(primals: transforms.Tensors, cpu_function: Any = cpu_function) -> Any:
            batch = transforms.batch_with_rolled_copies(primals)
            rows = [
                cpu_function.function(*transforms.row_of_batch(batch, row)) for row in range(transforms.BATCH)
            ]
            return transforms.stack_rows(rows)

        for dim in (0, -1):

            def vmap_over_dim(function: Any, tensors: Any, dim: int = dim) -> Any:
                moved = [tensor.movedim(0, dim) for tensor in tensors]
                return torch.vmap(function, in_dims=dim, randomness="same")(*moved)

            transforms.compare_transform(
                target,
                recorder,
                subject,
                sample,
                functools.partial(vmap_over_dim, tested.function, device_batch),
                transform_each_row,
                cpu_function.primals,
                functools.partial(vmap_over_dim, cpu_function.function, batch),
                f"vmap over dimension {dim}",
            )
