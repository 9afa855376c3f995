"""Test gradients that depend on a state tensor that the forward pass overwrites.

The backward pass must use the values that the state had when the forward pass read it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn


class _Scale(torch.autograd.Function):
    """``autograd.Function`` that multiplies by a factor. Its ``backward`` can also write a module's state."""

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


class ModelWithState(nn.Module):
    """A module that calls ``program`` with the product of input and weight. The program writes ``state``."""

    def __init__(
        self, program: Callable[[ModelWithState, torch.Tensor], torch.Tensor], strides: tuple[int, int]
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.program = program
        self.state = torch.empty_strided((4, 4), strides, device="hpu")
        self.state.copy_(torch.arange(1.0, 17.0).view(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.program(self, x * self.weight)


def write_new_state(model: ModelWithState) -> torch.Tensor:
    with torch.no_grad():
        new = 2 * model.state + 1
        model.state.copy_(new)
    return new


def scale_by_new_state(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
    return x * write_new_state(model).reciprocal()


def scale_by_new_state_in_autograd_function(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
    return _Scale.apply(x, write_new_state(model).reciprocal(), None)


def scale_by_copy_of_old_state(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
    old = model.state.clone()
    write_new_state(model)
    return x * old


def scale_by_view_of_old_state(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
    old = model.state[1::2, ::2].clone()
    write_new_state(model)
    return x[::2] * old


def scale_by_state_that_both_passes_write(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
    return _Scale.apply(x, write_new_state(model).reciprocal(), model)


def scale_by_parts_of_old_state(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
    first, last = model.state.chunk(2, dim=1)[0].double(), model.state.unbind(1)[1].double()
    write_new_state(model)
    return x[:2] * first * 2 + x[:2] * last[:2]


PROGRAMS = [
    scale_by_new_state,
    scale_by_new_state_in_autograd_function,
    scale_by_copy_of_old_state,
    scale_by_view_of_old_state,
    scale_by_parts_of_old_state,
    scale_by_state_that_both_passes_write,
]


@pytest.mark.nightly("each case compiles; the programs differ in one expression", every=3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("strides", [(4, 1), (1, 4), (6, 1)], ids=["rows", "columns", "gaps"])
def test_gradients_that_depend_on_an_overwritten_state(program: Any, strides: Any, compiled: Any) -> None:
    eager = ModelWithState(program, strides).to("hpu")
    traced = copy.deepcopy(eager)
    run = compiled(traced)
    for step in range(3):
        gradients = []
        for model, call in ((eager, eager), (traced, run)):
            result = call(torch.arange(1.0, 5.0, device="hpu") + step)
            gradients.append(torch.autograd.grad(result.sum(), model.weight)[0].cpu())
        torch.testing.assert_close(*reversed(gradients))
        torch.testing.assert_close(traced.state.cpu(), eager.state.cpu())


def test_saved_as_strided_view_of_a_written_state_raises(compiled: Any) -> None:
    def program(model: ModelWithState, x: torch.Tensor) -> torch.Tensor:
        old = torch.as_strided(model.state, (4,), (2,), 5).double() + 1
        write_new_state(model)
        return x * old

    model = ModelWithState(program, (4, 1)).to("hpu")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="clone the tensor first"):
        compiled(model)(torch.ones(4, device="hpu"))


def test_saved_result_with_memory_gaps() -> None:
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
                padded = torch.ops.test_saved.padded(x.detach(), row)
                ctx.save_for_backward(padded)
                return x * padded

            @staticmethod
            def backward(ctx: Any, *grads: torch.Tensor) -> Any:
                return grads[0] * ctx.saved_tensors[0], None

        def program(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            result = Squared.apply(x, state[0])
            with torch.no_grad():
                state[0].add_(1)
            return result

        gradient_sets = []
        for call in (program, torch.compile(program, backend="hpu_backend")):
            x = torch.arange(8.0, device="hpu").view(2, 4).requires_grad_()
            state = torch.arange(1.0, 9.0, device="hpu").view(2, 4)
            call(x, state).sum().backward()
            gradient_sets.append((x.grad, state))
        torch.testing.assert_close(gradient_sets[1], gradient_sets[0])


def test_saved_tensor_hooks_get_the_copies(interpreted: Any) -> None:
    """AOTAutograd finds the tensors to pass to the hooks by their names in the backward graph."""
    traced_identity = torch.fx.symbolic_trace(lambda x: x * 1)
    model = ModelWithState(scale_by_new_state, (4, 1)).to("hpu")
    with torch.autograd.graph.saved_tensors_hooks(traced_identity, traced_identity):
        result = interpreted(model)(torch.arange(1.0, 5.0, device="hpu"))
        gradient = torch.autograd.grad(result.sum(), model.weight)[0]
    new = 2 * torch.arange(1.0, 17.0).view(4, 4) + 1
    torch.testing.assert_close(gradient.cpu(), (torch.arange(1.0, 5.0) / new).sum(0))
