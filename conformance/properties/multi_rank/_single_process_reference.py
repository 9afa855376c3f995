"""The comparison of data-parallel training on all ranks with training on one."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.properties.multi_rank._multi_rank_checks import Bench
from conformance.properties.multi_rank._training_model import Feed, Losses, model, train, without_losses

#: Part of a step that rounding to bfloat16 may take or add.
_NEAR = 0.1
FLOATS = ("float32", "float64")


def alone(dtype: str, *, normalise: bool = True, **options: Any) -> Losses:
    """Return losses and parameters of a single process on the CPU that sees whole batches."""
    return train(model(dtype, normalise=normalise), Feed(torch.device("cpu"), dtype), **options)


def held_against_one(
    bench: Bench, answers: list[Losses] | None, due: Losses, *, roundings: float = 0.0, what: str = ""
) -> None:
    """Compare the ranks' mean losses, and the parameters of each rank, with those of a single process."""
    if answers is None:
        return
    losses = {
        name: torch.stack([answer[name] for answer in answers]).mean(0)
        for name in due
        if name.startswith("loss")
    }
    bench.close(
        f"{what or 'training'}, mean over the ranks",
        losses,
        {name: value for name, value in due.items() if name.startswith("loss")},
        roundings=roundings,
    )
    for number, answer in enumerate(answers):
        bench.close(
            f"{what or 'training'} on rank {number}",
            without_losses(answer),
            without_losses(due),
            roundings=roundings,
        )


def near_float32(bench: Bench, what: str, stepped: Losses) -> None:
    """Compare parameters after one step in less precision with one step of a single process in float32.

    A step that is wrong by a factor of two is seen, rounding to eight bits in some ten operations is not.
    """
    start = dict(model("float32").named_parameters())
    for name, value in without_losses(alone("float32", steps=1)).items():
        actual = stepped[name]
        bench.fact(actual.dtype == torch.float32, f"{name} of {what} is kept in {actual.dtype}.", Kind.DTYPE)
        moved = float((value - start[name].detach()).abs().max())
        apart = float((actual.float() - value).abs().max())
        bench.fact(
            apart <= _NEAR * moved,
            f"{name} of {what} is off by {apart:.3g} after a step of {moved:.3g}.",
            Kind.VALUE,
        )
