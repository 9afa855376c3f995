"""Gradients by state that the forward pass overwrites: the backward pass has what the forward pass had."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn


class _Scaled(torch.autograd.Function):
    """x times a number, whose gradient changes the state of a module too if it has one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: torch.Tensor, module: nn.Module | None) -> torch.Tensor:
        ctx.save_for_backward(factor)
        ctx.module = module
        return x * factor

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (factor,) = ctx.saved_tensors
        if ctx.module is not None:
            with torch.no_grad():
                ctx.module.state.add_(grads[0].sum())
        return grads[0] * factor, None, None


class Model(nn.Module):
    """A weight times what the program makes of a state, which it writes in the same pass."""

    def __init__(
        self, program: Callable[[Model, torch.Tensor], torch.Tensor], strides: tuple[int, int]
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.program = program
        self.state = torch.empty_strided((4, 4), strides, device="hpu")
        self.state.copy_(torch.arange(1.0, 17.0).view(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.program(self, x * self.weight)


def update(model: Model) -> torch.Tensor:
    with torch.no_grad():
        new = 2 * model.state + 1
        model.state.copy_(new)
    return new


def of_the_new_state(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x * update(model).reciprocal()


def in_a_function(model: Model, x: torch.Tensor) -> torch.Tensor:
    return _Scaled.apply(x, update(model).reciprocal(), None)


def of_a_copy_of_the_old_state(model: Model, x: torch.Tensor) -> torch.Tensor:
    old = model.state.clone()
    update(model)
    return x * old


def of_a_view_of_the_old_state(model: Model, x: torch.Tensor) -> torch.Tensor:
    old = model.state[1::2, ::2].clone()
    update(model)
    return x[::2] * old


def of_states_that_both_passes_write(model: Model, x: torch.Tensor) -> torch.Tensor:
    return _Scaled.apply(x, update(model).reciprocal(), model)


PROGRAMS = [
    of_the_new_state,
    in_a_function,
    of_a_copy_of_the_old_state,
    of_a_view_of_the_old_state,
    of_states_that_both_passes_write,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("strides", [(4, 1), (1, 4)], ids=["rows", "columns"])
def test_gradients_by_state_that_the_forward_pass_overwrites(
    program: Any, strides: Any, compiled: Any
) -> None:
    eager = Model(program, strides).to("hpu")
    traced = copy.deepcopy(eager)
    run = compiled(traced)
    for step in range(3):
        gradients = []
        for model, call in ((eager, eager), (traced, run)):
            result = call(torch.arange(1.0, 5.0, device="hpu") + step)
            gradients.append(torch.autograd.grad(result.sum(), model.weight)[0].cpu())
        torch.testing.assert_close(*reversed(gradients))
        torch.testing.assert_close(traced.state.cpu(), eager.state.cpu())


def test_state_with_gaps_that_a_gradient_needs_as_it_was_is_refused(compiled: Any) -> None:
    model = Model(of_a_copy_of_the_old_state, (5, 1)).to("hpu")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="make it contiguous"):
        compiled(model)(torch.ones(4, device="hpu"))
