"""State that all modules of fp8 have."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import torch

from .cpp_extensions import cast_to_fp8
from .fp8 import begin_step, get_fp8_te_dtype, in_backward
from .recipe import DelayedScaling
from .utils import ROOM, FP8TensorMeta


class Fp8Module(torch.nn.Module):
    """A module with scales for its tensors; they are part of its state."""

    #: Number of tensors of the forward pass, and of the backward pass.
    PLACES = (2, 1)

    def __init__(self, device: torch.device | str | None = None) -> None:
        super().__init__()
        place = torch.device(device or "hpu")
        if place.type == "meta":
            place = torch.device("hpu")
        with torch.inference_mode(False):  # training writes to what evaluation may make
            self.fp8_meta = {
                name: FP8TensorMeta.make(places, ROOM, place)
                for name, places in zip(("scaling_fwd", "scaling_bwd"), self.PLACES, strict=True)
            }

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Move the scales to where the parameters go; their dtype and values stay."""
        found = super()._apply(fn, recurse)
        device = fn(torch.empty(0, device=self.fp8_meta["scaling_fwd"].scale.device)).device
        if device.type != "meta":
            self._bring(device)
        return found

    def _bring(self, device: torch.device) -> None:
        with torch.inference_mode(False):
            self.fp8_meta = {name: meta.to(device) for name, meta in self.fp8_meta.items()}

    def metas(self, device: torch.device, steps: int = 0) -> dict[str, FP8TensorMeta]:
        """Scales of both passes, on the device of an input and with room for so many steps.

        Raises:
            RuntimeError: in a graph, on another device or with too little room: the backward pass of a graph
                cannot write to what its forward pass makes.
        """
        meta = self.fp8_meta["scaling_fwd"]
        room = meta.amax_history.size(0)
        away, short = meta.scale.device != device, room < steps
        if (away or short) and torch.compiler.is_compiling():
            raise RuntimeError(
                f"the scales of {type(self).__name__} are on {meta.scale.device} with room for {room} steps, "
                f"and a graph needs them on {device} for {steps}: run one step without torch.compile first"
            )
        if away:
            self._bring(device)
        if short:
            with torch.inference_mode(False):
                self.fp8_meta = {name: meta.with_room(steps) for name, meta in self.fp8_meta.items()}
        return self.fp8_meta

    def learns(self) -> bool:
        """Say whether a forward pass counts for the scales: in training, and not if it runs again."""
        return self.training and not in_backward()

    @torch.no_grad()
    def rounded(self, recipe: DelayedScaling, group: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Tensors of the forward pass in fp8, one for each place, and the inverse of their scales.

        A forward pass that counts begins a step. The backward pass has the scales of its forward pass: the
        inverse is a copy.
        """
        measure = self.learns()
        meta = self.metas(tensors[0].device, recipe.amax_history_len if measure else 0)["scaling_fwd"]
        if measure:
            begin_step(meta, recipe, True, group)
        kind = get_fp8_te_dtype(recipe)
        low = [
            cast_to_fp8(tensor.detach(), meta, place, kind, measure_amax=measure)
            for place, tensor in enumerate(tensors)
        ]
        return (*low, meta.scale_inv.clone())

    def get_extra_state(self) -> torch.Tensor:
        """Scales and histories as bytes, uint8."""
        buffer = io.BytesIO()
        torch.save(
            {name: dataclasses.asdict(meta.to(torch.device("cpu"))) for name, meta in self.fp8_meta.items()},
            buffer,
        )
        return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` gave.

        Raises:
            ValueError: the bytes hold something else.
        """
        if state is None or not isinstance(state, torch.Tensor) or not state.numel():
            return
        loaded = torch.load(io.BytesIO(state.cpu().numpy().tobytes()), weights_only=True)
        if set(loaded) != set(self.fp8_meta):
            raise ValueError(
                f"the state of {type(self).__name__} has {sorted(loaded)}, not {sorted(self.fp8_meta)}: "
                "leave its _extra_state out, and the scales are learned anew"
            )
        device = self.fp8_meta["scaling_fwd"].scale.device
        self.fp8_meta = {name: FP8TensorMeta(**tensors).to(device) for name, tensors in loaded.items()}
