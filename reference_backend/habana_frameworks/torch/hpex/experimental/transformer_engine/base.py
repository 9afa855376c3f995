"""State that all modules of fp8 have."""

from __future__ import annotations

import io
from typing import Any

import torch

from .fp8 import in_backward, update_scales
from .recipe import DelayedScaling
from .utils import FP8TensorMeta


class Fp8Module(torch.nn.Module):
    """A module with scales for its tensors; they are part of its state."""

    #: Number of tensors of the forward pass, and of the backward pass.
    PLACES = (2, 1)

    def __init__(self) -> None:
        super().__init__()
        self.fp8_meta: dict[str, FP8TensorMeta] = {}
        self._steps = {"scaling_fwd": 0, "scaling_bwd": 0}

    def metas(self, recipe: DelayedScaling, device: torch.device) -> dict[str, FP8TensorMeta]:
        """Scales of both passes, made at the first use and anew if a recipe has another history."""
        with torch.inference_mode(False), torch.no_grad():  # training writes to what evaluation may make
            for name, places in zip(("scaling_fwd", "scaling_bwd"), self.PLACES, strict=True):
                meta = self.fp8_meta.get(name)
                if meta is None or meta.amax_history.size(0) != recipe.amax_history_len:
                    fresh = FP8TensorMeta.make(places, recipe.amax_history_len, device)
                    if meta is not None:
                        fresh.scale.copy_(meta.scale)
                        fresh.scale_inv.copy_(meta.scale_inv)
                        fresh.amax_history[0].copy_(meta.amax_history[0])
                    self.fp8_meta[name] = fresh
                elif meta.scale.device != device:
                    moved = (meta.scale, meta.scale_inv, meta.amax_history)
                    self.fp8_meta[name] = FP8TensorMeta(*(tensor.to(device) for tensor in moved))
        return self.fp8_meta

    def learns(self) -> bool:
        """Say whether a forward pass counts for the scales: in training, and not if it runs again."""
        return self.training and not in_backward()

    @torch.no_grad()
    def begin(self, name: str, recipe: DelayedScaling, group: Any) -> None:
        """Make the scales of a step from those before it."""
        step = self._steps[name]
        self._steps[name] += 1
        if step and step % recipe.interval == 0:
            update_scales(self.fp8_meta[name], recipe, name == "scaling_fwd", group)

    def get_extra_state(self) -> torch.Tensor:
        """Scales and histories as bytes, uint8."""
        buffer = io.BytesIO()
        tensors = {
            name: [meta.scale.cpu(), meta.scale_inv.cpu(), meta.amax_history.cpu()]
            for name, meta in self.fp8_meta.items()
        }
        torch.save({"tensors": tensors, "steps": self._steps}, buffer)
        return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` gave."""
        if state is None or not isinstance(state, torch.Tensor) or not state.numel():
            return
        loaded = torch.load(io.BytesIO(state.cpu().numpy().tobytes()), weights_only=True)
        device = next((p.device for p in self.parameters()), torch.device("hpu"))
        self.fp8_meta = {
            name: FP8TensorMeta(*(tensor.to(device) for tensor in tensors))
            for name, tensors in loaded["tensors"].items()
        }
        self._steps = dict(loaded["steps"])
