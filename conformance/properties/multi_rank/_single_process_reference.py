"""Compare data-parallel training on all ranks with training in a single process."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker
from conformance.properties.multi_rank._training_model import (
    BatchSource,
    TensorsByName,
    make_model,
    train,
    without_losses,
)

#: The largest allowed error of a training step in bfloat16, relative to the size of the step.
_LARGEST_RELATIVE_ERROR = 0.1
FLOATS = ("float32", "float64")


def train_single_process(dtype: str, *, normalise: bool = True, **options: Any) -> TensorsByName:
    """Train the model in this process on the CPU with whole batches. Return losses and parameters."""
    return train(make_model(dtype, normalise=normalise), BatchSource(torch.device("cpu"), dtype), **options)


def compare_with_single_process(
    checker: MultiRankChecker,
    results: list[TensorsByName] | None,
    expected: TensorsByName,
    *,
    roundings: float = 0.0,
    label: str = "",
) -> None:
    """Compare the mean of the ranks' losses, and the parameters of each rank, with the results of a single
    process.
    """
    if results is None:
        return
    losses = {
        name: torch.stack([result[name] for result in results]).mean(0)
        for name in expected
        if name.startswith("loss")
    }
    checker.check_close(
        f"{label or 'training'}, mean over the ranks",
        losses,
        {name: value for name, value in expected.items() if name.startswith("loss")},
        roundings=roundings,
    )
    for number, result in enumerate(results):
        checker.check_close(
            f"{label or 'training'} on rank {number}",
            without_losses(result),
            without_losses(expected),
            roundings=roundings,
        )


def compare_with_float32_step(
    checker: MultiRankChecker, label: str, parameters_after_step: TensorsByName
) -> None:
    """Compare the parameters after one step in lower precision with the parameters after one float32 step of
    a single process.

    The tolerance allows the roundings of about ten operations in bfloat16. It is small enough to detect a
    step that is wrong by a factor of two.
    """
    start = dict(make_model("float32").named_parameters())
    for name, value in without_losses(train_single_process("float32", steps=1)).items():
        actual = parameters_after_step[name]
        checker.check(
            actual.dtype == torch.float32,
            f"{name} of {label} has dtype {actual.dtype}, not torch.float32.",
            Kind.DTYPE,
        )
        step_size = float((value - start[name].detach()).abs().max())
        error = float((actual.float() - value).abs().max())
        checker.check(
            error <= _LARGEST_RELATIVE_ERROR * step_size,
            f"{name} of {label} is off by {error:.3g} after a step of {step_size:.3g}.",
            Kind.VALUE,
        )
