"""Record the outputs, the buffers after the call and the gradients of one module call, by name."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework import trees
from conformance.samples.modules import Arguments, ModuleSample

#: Observed values by name, such as ``output 0``, ``buffer running_mean`` and ``gradient of weight``.
Observation = dict[str, Any]


#: One random direction for each differentiable output, or None if no backward pass is run.
Cotangents = list[torch.Tensor] | None


@dataclasses.dataclass(frozen=True)
class ModuleProcedure:
    """A named function that uses a module with its arguments, on the target and on the CPU.

    ``run(module, arguments, cotangents)`` may change the module and the arguments. ``cotangents`` is None
    unless ``backward`` is true.
    """

    name: str
    run: Callable[[torch.nn.Module, Arguments, Cotangents], Observation]
    backward: bool = False


def observe_call(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents = None) -> Observation:
    """Call a module once and return its outputs, its buffers and, with ``cotangents``, its gradients.

    ``cotangents`` has one tensor for each differentiable output. Without ``cotangents``, no autograd graph is
    built and no backward pass runs. Values stay on the device. Callers pass a module without gradients,
    because the backward pass accumulates gradients.
    """
    args, kwargs = arguments
    with warnings.catch_warnings(), torch.set_grad_enabled(cotangents is not None):
        warnings.simplefilter("ignore")
        result = module(*args, **kwargs)
        observation: Observation = {
            f"output {number}": leaf for number, leaf in enumerate(trees.leaves(result))
        }
        if cotangents is not None:
            run_backward(result, cotangents)
            observation.update(current_gradients(module, arguments))
    for name, buffer in module.named_buffers():
        observation[f"buffer {name}"] = buffer
    return observation


#: ``FORWARD`` is a forward call without an autograd graph, ``BACKWARD`` a forward call and its backward pass.
FORWARD = ModuleProcedure("forward", observe_call)
BACKWARD = ModuleProcedure("backward", observe_call, backward=True)


def run_backward(result: Any, cotangents: list[torch.Tensor]) -> None:
    """Run the backward pass from all differentiable outputs."""
    outputs = differentiable_outputs(result)
    if outputs:
        directions = [
            cotangent.to(device=out.device, dtype=out.dtype)
            for cotangent, out in zip(cotangents, outputs, strict=True)
        ]
        torch.autograd.backward(outputs, directions)


def current_gradients(module: torch.nn.Module, arguments: Arguments) -> Observation:
    """Return the current gradients of the parameters and of the differentiable inputs."""
    observation: Observation = {
        f"gradient of {name}": parameter.grad for name, parameter in module.named_parameters()
    }
    for number, tensor in enumerate(trees.tensors(arguments)):
        if tensor.requires_grad:
            observation[f"gradient of input {number}"] = tensor.grad
    return observation


def differentiable_outputs(result: Any) -> list[torch.Tensor]:
    """Return the output tensors that require a gradient."""
    return [tensor for tensor in trees.tensors(result) if tensor.requires_grad]


def cotangents_of(sample: ModuleSample) -> list[torch.Tensor]:
    """Return one random CPU tensor for each differentiable output, with the shape and dtype of the output.

    The tensors depend on the sample's seed only. Exceptions of the module on the CPU are not caught.
    """
    args, kwargs = sample.arguments()
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        outputs = differentiable_outputs(sample.module()(*args, **kwargs))
    generator = torch.Generator().manual_seed(sample.seed)
    return [
        torch.empty(out.shape, dtype=torch.float32).uniform_(0.5, 2.0, generator=generator).to(out.dtype)
        for out in outputs
    ]
