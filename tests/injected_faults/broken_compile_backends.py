"""Backends of torch.compile with one fault each. Import this module to register the backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import register_backend


def enlarge_gradient(value: torch.Tensor) -> torch.Tensor:
    """Return the value unchanged, with gradients that are one hundredth larger."""
    return value + 0.01 * (value - value.detach()) if value.requires_grad else value


@register_backend
def faulty_wrong_values(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph whose results are one hundredth larger."""
    return lambda *args: [out * 1.01 if out.is_floating_point() else out for out in module(*args)]


@register_backend
def faulty_results_slightly_too_large(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph whose results are three hundredths larger. In bfloat16 this is less than four times the
    machine epsilon.
    """
    return lambda *args: [out * 1.03 for out in module(*args)]


@register_backend
def faulty_ignores_gradient_of_last_row(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph whose backward pass ignores the gradient of the last row of results with at least 64
    rows.
    """

    def detach_last_row(value: torch.Tensor) -> torch.Tensor:
        is_large = value.dim() == 2 and value.shape[0] >= 64
        return torch.cat([value[:-1], value[-1:].detach()]) if is_large else value

    return lambda *args: [detach_last_row(out) for out in module(*args)]


@register_backend
def faulty_reads_inputs_as_dense(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph that reads each input as if it were contiguous with storage offset 0."""

    def read_as_dense(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, torch.empty(tensor.shape).stride(), 0)

    return lambda *args: module(*[read_as_dense(a) if isinstance(a, torch.Tensor) else a for a in args])


@register_backend
def faulty_zeros_in_last_row(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph that returns zeros in the last row of results with at least 64 rows."""

    def zero_last_row(value: torch.Tensor) -> torch.Tensor:
        is_large = value.dim() == 2 and value.shape[0] >= 64
        return torch.cat([value[:-1], torch.zeros_like(value[-1:])]) if is_large else value

    return lambda *args: [zero_last_row(out) for out in module(*args)]


@register_backend
def faulty_skips_first_inplace_mul(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph without its first in-place multiplication, so that later calls read the old values."""
    for node in module.graph.nodes:
        if node.op == "call_method" and node.target == "mul_":
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
            break
    module.recompile()
    forward: Callable[..., Any] = module.forward
    return forward


@register_backend
def faulty_gradients_too_large(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph whose gradients are one hundredth larger."""
    return lambda *args: [enlarge_gradient(out) for out in module(*args)]


@register_backend
def faulty_returns_first_results(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph that returns the results of its first run in every run."""
    outputs: list[Any] = []

    def run(*args: Any) -> Any:
        outputs.append(module(*args))
        return [out.clone() for out in outputs[0]]

    return run


@register_backend
def faulty_drops_last_write(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph without its last in-place call."""
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
    """Compile a graph that writes into copies of its inputs."""
    return lambda *args: module(*[x.clone() if isinstance(x, torch.Tensor) else x for x in args])


@register_backend
def faulty_backward_reads_written_inputs(module: Any, inputs: Any) -> Callable[..., Any]:
    """Compile a graph that saves no copies of its inputs. Its backward pass reads the inputs, which later
    writes may have changed.
    """

    class LateBackward(torch.autograd.Function):
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

    return LateBackward.apply


@register_backend
def faulty_raises_on_compilation(module: Any, inputs: Any) -> Callable[..., Any]:
    """Raise an error instead of compiling."""
    raise NotImplementedError("no such graph")
