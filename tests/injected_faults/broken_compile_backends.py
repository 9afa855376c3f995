"""Backends of torch.compile with one fault each. Importing this module registers the backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import register_backend


def steeper(value: torch.Tensor) -> torch.Tensor:
    """Return the same value with a derivative one hundredth larger."""
    return value + 0.01 * (value - value.detach()) if value.requires_grad else value


@register_backend
def faulty_wrong_values(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compute values one hundredth larger."""
    return lambda *args: [out * 1.01 if out.is_floating_point() else out for out in module(*args)]


@register_backend
def faulty_takes_strides_as_dense(module: Any, inputs: Any) -> Callable[..., Any]:
    """Read each input as if it were contiguous and began at the start of its storage."""

    def dense(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, torch.empty(tensor.shape).stride(), 0)

    return lambda *args: module(*[dense(a) if isinstance(a, torch.Tensor) else a for a in args])


@register_backend
def faulty_steeper(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compute gradients one hundredth larger."""
    return lambda *args: [steeper(out) for out in module(*args)]


@register_backend
def faulty_keeps_values(module: Any, inputs: Any) -> Callable[..., Any]:
    """Return the results of the first run."""
    outputs: list[Any] = []

    def run(*args: Any) -> Any:
        outputs.append(module(*args))
        return [out.clone() for out in outputs[0]]

    return run


@register_backend
def faulty_drops_a_write(module: Any, inputs: Any) -> Callable[..., Any]:
    """Omit the last write of a graph."""
    for node in reversed(module.graph.nodes):
        if node.op == "call_method" and node.target.endswith("_"):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
            module.recompile()
            break
    forward: Callable[..., Any] = module.forward
    return forward


@register_backend
def faulty_writes_to_copies(module: Any, inputs: Any) -> Callable[..., Any]:
    """Write into copies of the inputs."""
    return lambda *args: module(*[x.clone() if isinstance(x, torch.Tensor) else x for x in args])


@register_backend
def faulty_saves_the_state_that_it_writes(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compute gradients from the contents of the inputs at the time of the backward pass."""

    class Late(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: torch.Tensor) -> Any:
            ctx.given = arguments
            with torch.no_grad():
                return tuple(module(*arguments))

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            now = [x.detach().clone().requires_grad_(x.requires_grad) for x in ctx.given]
            with torch.enable_grad():
                results = module(*now)
            differentiable = [x for x in now if x.requires_grad]
            gradients = iter(torch.autograd.grad(results, differentiable, grads))
            return tuple(next(gradients) if x.requires_grad else None for x in now)

    return Late.apply


@register_backend
def faulty_refuses(module: Any, inputs: Any) -> Callable[..., Any]:
    """Refuse to compile."""
    raise NotImplementedError("no such graph")
