"""A small model, its batches and its training, the same on one process and on many."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from conformance.distributed import worker_ranks

#: Rows of a batch for each rank of the world.
ROWS = 4
STEPS = 3

Losses = dict[str, torch.Tensor]


def model(dtype: str, *, normalise: bool = True) -> nn.Sequential:
    """Return the model with its first weights, always the same ones, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        middle: nn.Module = nn.LayerNorm(8) if normalise else nn.BatchNorm1d(8)
        wide = 8 * worker_ranks.size()  # tensor parallel wants an even split
        net = nn.Sequential(nn.Linear(8, wide), nn.GELU(), nn.Linear(wide, 8), middle, nn.Linear(8, 4))
    return net.to(getattr(torch, dtype))


@dataclasses.dataclass(frozen=True)
class Feed:
    """Batches on a device: whole ones, or the share of a rank."""

    device: torch.device
    dtype: str
    rank: int = 0
    size: int = 1

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs (rows, 8) and targets (rows, 4) of a step, in the feed's dtype on its device."""
        generator = torch.Generator().manual_seed(100 + step)
        kind = getattr(torch, self.dtype)
        every = ROWS * worker_ranks.size()
        inputs = torch.randn(every, 8, generator=generator, dtype=torch.float64).to(kind)
        targets = torch.randn(every, 4, generator=generator, dtype=torch.float64).to(kind)
        rows = every // self.size
        share = slice(self.rank * rows, (self.rank + 1) * rows)
        return inputs[share].to(self.device), targets[share].to(self.device)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the CPU of all of a tensor, which may be spread over ranks."""
    full: Any = tensor.detach()
    if hasattr(full, "full_tensor"):
        # Shards on the host move to the devices of the mesh, between which they can be gathered.
        full = full.to(full.device_mesh.device_type).full_tensor()
    copy: torch.Tensor = full.cpu().clone()
    return copy


def backward(loss: Any) -> None:
    """Run the backward pass of a loss (torch's stubs leave the types of ``Tensor.backward`` open)."""
    loss.backward()


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that takes plain steps with momentum."""
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def one_by_one(net: nn.Module) -> torch.optim.Optimizer:
    """Return :func:`sgd` for one parameter after the other: lists may not mix distributed and other
    tensors.
    """
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=False)


def adam(net: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW, whose steps do not depend on the size of gradients; its epsilon keeps rounding small."""
    return torch.optim.AdamW(net.parameters(), lr=0.01, eps=1e-3)


def take_steps(
    net: nn.Module,
    feed: Feed,
    *,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = sgd,
    steps: int = STEPS,
    accumulate: int = 1,
    pause: Callable[[bool], Any] | None = None,
) -> Losses:
    """Train for ``steps`` steps; return the loss of each on this feed.

    Each step adds up the gradients of ``accumulate`` batches; ``pause(last)`` is a context around each.
    """
    chosen = optimizer(net)
    losses = {}
    for step in range(steps):
        chosen.zero_grad()
        for part in range(accumulate):
            last = part == accumulate - 1
            with pause(last) if pause is not None else contextlib.nullcontext():
                inputs, targets = feed.batch(step * accumulate + part)
                loss = nn.functional.mse_loss(net(inputs), targets) / accumulate
                backward(loss)
        chosen.step()
        losses[f"loss {step}"] = whole(loss)
    return losses


def parameters(net: nn.Module) -> Losses:
    """Return all parameters whole, by the names that they have in the plain model."""
    return {_plain(name): whole(value) for name, value in net.named_parameters()}


def _plain(name: str) -> str:
    for prefix in ("_orig_mod.", "module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."):
        name = name.replace(prefix, "")
    return name


def train(net: nn.Module, feed: Feed, **options: Any) -> Losses:
    """Train, and return losses and final parameters."""
    losses = take_steps(net, feed, **options)
    return {**losses, **parameters(net)}


def without_losses(results: Losses) -> Losses:
    """Return the parameters among the results of :func:`train`."""
    return {name: value for name, value in results.items() if not name.startswith("loss")}
