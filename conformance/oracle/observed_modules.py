"""The observations of one call of a module, by name: outputs, buffers afterwards, gradients."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework import trees
from conformance.samples.modules import Arguments, ModuleSample

#: Name of what was observed (``output 0``, ``buffer running_mean``, ``gradient of weight``) with its value.
Observation = dict[str, Any]


#: One random direction per differentiable output, or None if no backward pass is wanted.
Cotangents = list[torch.Tensor] | None


@dataclasses.dataclass(frozen=True)
class Procedure:
    """A use of a module and its arguments, the same on the target and on the CPU.

    ``run(module, arguments, cotangents)`` owns the module and the arguments and may change them. With
    ``backward`` it receives cotangents, else None.
    """

    name: str
    run: Callable[[torch.nn.Module, Arguments, Cotangents], Observation]
    backward: bool = False


def observe(module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents = None) -> Observation:
    """Call a module once. With ``cotangents``, one per differentiable output, the backward pass runs too.

    Without them no graph is made. Values stay on the device; gradients are those of this call alone.
    """
    args, kwargs = arguments
    with warnings.catch_warnings(), torch.set_grad_enabled(cotangents is not None):
        warnings.simplefilter("ignore")
        result = module(*args, **kwargs)
        observation: Observation = {
            f"output {number}": leaf for number, leaf in enumerate(trees.leaves(result))
        }
        if cotangents is not None:
            backward(result, cotangents)
            observation.update(gradients(module, arguments))
    for name, buffer in module.named_buffers():
        observation[f"buffer {name}"] = buffer
    return observation


#: One call without a graph, and one with its backward pass.
FORWARD = Procedure("forward", observe)
BACKWARD = Procedure("backward", observe, backward=True)


def backward(result: Any, cotangents: list[torch.Tensor]) -> None:
    """Run the backward pass from all differentiable outputs."""
    outputs = differentiable(result)
    if outputs:
        directions = [
            cotangent.to(device=out.device, dtype=out.dtype)
            for cotangent, out in zip(cotangents, outputs, strict=True)
        ]
        torch.autograd.backward(outputs, directions)


def gradients(module: torch.nn.Module, arguments: Arguments) -> Observation:
    """Return the gradients of parameters and of differentiable inputs as they are now."""
    observation: Observation = {
        f"gradient of {name}": parameter.grad for name, parameter in module.named_parameters()
    }
    for number, tensor in enumerate(trees.tensors(arguments)):
        if tensor.requires_grad:
            observation[f"gradient of input {number}"] = tensor.grad
    return observation


def differentiable(result: Any) -> list[torch.Tensor]:
    """Return the outputs from which a gradient flows."""
    return [tensor for tensor in trees.tensors(result) if tensor.requires_grad]


def cotangents_of(sample: ModuleSample) -> list[torch.Tensor]:
    """Return one random direction per differentiable output, on the CPU in its shape and dtype.

    The directions depend on the sample's seed only. Raises whatever the module raises on the CPU.
    """
    args, kwargs = sample.arguments()
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        outputs = differentiable(sample.module()(*args, **kwargs))
    generator = torch.Generator().manual_seed(sample.seed)
    return [
        torch.empty(out.shape, dtype=torch.float32).uniform_(0.5, 2.0, generator=generator).to(out.dtype)
        for out in outputs
    ]
