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


def of_parts_of_the_old_state(model: Model, x: torch.Tensor) -> torch.Tensor:
    first, last = model.state.chunk(2, dim=1)[0].double(), model.state.unbind(1)[1].double()
    update(model)
    return x[:2] * first * 2 + x[:2] * last[:2]


PROGRAMS = [
    of_the_new_state,
    in_a_function,
    of_a_copy_of_the_old_state,
    of_a_view_of_the_old_state,
    of_parts_of_the_old_state,
    of_states_that_both_passes_write,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("strides", [(4, 1), (1, 4), (6, 1)], ids=["rows", "columns", "gaps"])
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


def test_memory_that_a_backward_pass_addresses_is_not_copied(compiled: Any) -> None:
    def program(model: Model, x: torch.Tensor) -> torch.Tensor:
        old = torch.as_strided(model.state, (4,), (2,), 5).double() + 1
        update(model)
        return x * old

    model = Model(program, (4, 1)).to("hpu")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="clone the tensor first"):
        compiled(model)(torch.ones(4, device="hpu"))


def test_an_operator_whose_result_has_gaps_beside_a_write() -> None:
    with torch.library._scoped_library("test_saved", "FRAGMENT") as library:
        library.define("padded(Tensor x, Tensor row) -> Tensor")

        def padded(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.pad(x * row, (0, 4))[..., :4]

        library.impl("padded", padded, "CPU")
        library.impl("padded", padded, "HPU")
        library.impl("padded", padded, "Meta")

        class Squared(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
                made = torch.ops.test_saved.padded(x.detach(), row)
                ctx.save_for_backward(made)
                return x * made

            @staticmethod
            def backward(ctx: Any, *grads: torch.Tensor) -> Any:
                return grads[0] * ctx.saved_tensors[0], None

        def program(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            result = Squared.apply(x, state[0])
            with torch.no_grad():
                state[0].add_(1)
            return result

        seen = []
        for call in (program, torch.compile(program, backend="hpu_backend")):
            x = torch.arange(8.0, device="hpu").view(2, 4).requires_grad_()
            state = torch.arange(1.0, 9.0, device="hpu").view(2, 4)
            call(x, state).sum().backward()
            seen.append((x.grad, state))
        torch.testing.assert_close(seen[1], seen[0])


def test_copies_are_known_to_hooks_of_saved_tensors(interpreted: Any) -> None:
    """AOTAutograd looks up in the backward graph, by name, what hooks that are graphs get."""
    made = torch.fx.symbolic_trace(lambda x: x * 1)
    model = Model(of_the_new_state, (4, 1)).to("hpu")
    with torch.autograd.graph.saved_tensors_hooks(made, made):
        result = interpreted(model)(torch.arange(1.0, 5.0, device="hpu"))
        found = torch.autograd.grad(result.sum(), model.weight)[0]
    new = 2 * torch.arange(1.0, 17.0).view(4, 4) + 1
    torch.testing.assert_close(found.cpu(), (torch.arange(1.0, 5.0) / new).sum(0))
