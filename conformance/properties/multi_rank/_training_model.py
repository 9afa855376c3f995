"""A small model, its batches and its training loop, which are the same in a single process and on the
ranks.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from conformance.distributed import worker_ranks

#: Number of rows of a batch per rank.
ROWS = 4
STEPS = 3

TensorsByName = dict[str, torch.Tensor]


def make_model(dtype: str, *, normalise: bool = True) -> nn.Sequential:
    """Return a model on the CPU. Its initial weights are always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        normalisation: nn.Module = nn.LayerNorm(8) if normalise else nn.BatchNorm1d(8)
        width = 8 * worker_ranks.world_size()  # tensor parallelism divides the width by the number of ranks
        net = nn.Sequential(
            nn.Linear(8, width), nn.GELU(), nn.Linear(width, 8), normalisation, nn.Linear(8, 4)
        )
    return net.to(getattr(torch, dtype))


@dataclasses.dataclass(frozen=True)
class BatchSource:
    """Makes batches on a device: whole batches or, if ``size`` is larger than 1, the rows of one rank."""

    device: torch.device
    dtype: str
    rank: int = 0
    size: int = 1

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs, of shape (rows, 8), and the targets, of shape (rows, 4), of a step."""
        generator = torch.Generator().manual_seed(100 + step)
        dtype = getattr(torch, self.dtype)
        batch_rows = ROWS * worker_ranks.world_size()
        inputs = torch.randn(batch_rows, 8, generator=generator, dtype=torch.float64).to(dtype)
        targets = torch.randn(batch_rows, 4, generator=generator, dtype=torch.float64).to(dtype)
        rows = batch_rows // self.size
        share = slice(self.rank * rows, (self.rank + 1) * rows)
        return inputs[share].to(self.device), targets[share].to(self.device)


def full_copy_on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU copy of a tensor. If the tensor is a DTensor, gather its shards from all ranks first."""
    full_tensor: Any = tensor.detach()
    if hasattr(full_tensor, "full_tensor"):
        # Offloaded shards are on the host. Move them to the devices of the mesh, which gather them.
        full_tensor = full_tensor.to(full_tensor.device_mesh.device_type).full_tensor()
    copy: torch.Tensor = full_tensor.cpu().clone()
    return copy


def run_backward(loss: Any) -> None:
    """Run the backward pass of a loss. ``loss`` is Any, because torch's stubs do not type
    ``Tensor.backward``.
    """
    loss.backward()


def make_sgd(net: nn.Module) -> torch.optim.Optimizer:
    """Return an SGD optimizer with momentum."""
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def make_sgd_without_foreach(net: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of :func:`make_sgd` with ``foreach=False``, because the foreach implementation
    does not accept lists that contain both DTensors and ordinary tensors.
    """
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=False)


def make_adamw(net: nn.Module) -> torch.optim.Optimizer:
    """Return an AdamW optimizer. Its ``eps`` is large, to limit the effect of rounding errors in small
    gradients.
    """
    return torch.optim.AdamW(net.parameters(), lr=0.01, eps=1e-3)


def take_steps(
    net: nn.Module,
    batch_source: BatchSource,
    *,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = make_sgd,
    steps: int = STEPS,
    accumulate: int = 1,
    synchronization_context: Callable[[bool], Any] | None = None,
) -> TensorsByName:
    """Train for ``steps`` steps and return the loss of each step.

    Each step adds the gradients of ``accumulate`` batches. Each batch runs inside the context manager
    ``synchronization_context(last)``. ``last`` is True for the last batch of a step.
    """
    chosen_optimizer = optimizer(net)
    losses = {}
    for step in range(steps):
        chosen_optimizer.zero_grad()
        for batch_index in range(accumulate):
            last = batch_index == accumulate - 1
            with (
                synchronization_context(last)
                if synchronization_context is not None
                else contextlib.nullcontext()
            ):
                inputs, targets = batch_source.batch(step * accumulate + batch_index)
                loss = nn.functional.mse_loss(net(inputs), targets) / accumulate
                run_backward(loss)
        chosen_optimizer.step()
        losses[f"loss {step}"] = full_copy_on_cpu(loss)
    return losses


def parameters_on_cpu(net: nn.Module) -> TensorsByName:
    """Return full CPU copies of all parameters, by their names in the unwrapped model."""
    return {_name_in_unwrapped_model(name): full_copy_on_cpu(value) for name, value in net.named_parameters()}


def _name_in_unwrapped_model(name: str) -> str:
    for prefix in ("_orig_mod.", "module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."):
        name = name.replace(prefix, "")
    return name


def train(net: nn.Module, batch_source: BatchSource, **options: Any) -> TensorsByName:
    """Train the model, and return the losses and the final parameters by name."""
    losses = take_steps(net, batch_source, **options)
    return {**losses, **parameters_on_cpu(net)}


def without_losses(results: TensorsByName) -> TensorsByName:
    """Return only the parameters of the results of :func:`train`."""
    return {name: value for name, value in results.items() if not name.startswith("loss")}
