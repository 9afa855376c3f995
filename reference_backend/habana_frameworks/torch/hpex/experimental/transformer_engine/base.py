"""The base class of modules that compute in fp8."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

from .cpp_extensions import cast_to_fp8
from .fp8 import get_fp8_te_dtype, is_amax_measurement_enabled, is_in_backward, update_scales_and_history
from .recipe import DelayedScaling
from .utils import INITIAL_HISTORY_LENGTH, FP8TensorMeta


class Fp8Module(torch.nn.Module):
    """A module whose state contains the fp8 scales of its input, weight and gradient tensors."""

    #: Number of tensors that are scaled in the forward pass, and in the backward pass.
    SCALED_TENSOR_COUNTS = (2, 1)

    def __init__(self, device: torch.device | str | None = None) -> None:
        super().__init__()
        target_device = torch.device(device or DEVICE_TYPE)
        if target_device.type == "meta":
            target_device = torch.device(DEVICE_TYPE)
        with torch.inference_mode(
            False
        ):  # otherwise training could not write to scales that were created under inference mode
            self.fp8_meta = {
                name: FP8TensorMeta.make(tensor_count, INITIAL_HISTORY_LENGTH, target_device)
                for name, tensor_count in zip(
                    ("scaling_fwd", "scaling_bwd"), self.SCALED_TENSOR_COUNTS, strict=True
                )
            }

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        """Apply ``fn`` as in `torch.nn.Module`, and move the fp8 scales to the resulting device only."""
        module = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = fn(torch.empty(0, device=self.fp8_meta["scaling_fwd"].scale.device)).device
        if device.type != "meta":
            self._move_scales_to(device)
        return module

    def _move_scales_to(self, device: torch.device) -> None:
        with torch.inference_mode(False):
            self.fp8_meta = {name: meta.to(device) for name, meta in self.fp8_meta.items()}

    def scales_on(self, device: torch.device, min_history: int = 0) -> dict[str, FP8TensorMeta]:
        """Return the scales of the forward and backward pass, on ``device`` and with enough history.

        If the scales are on another device, or their history has fewer than ``min_history`` steps, they are
        replaced.

        Raises:
            RuntimeError: the scales would have to be replaced under `torch.compile`. This is not possible,
                because the backward pass of a graph cannot write to tensors that its forward pass creates.
        """
        meta = self.fp8_meta["scaling_fwd"]
        room = meta.amax_history.size(0)
        away, short = meta.scale.device != device, room < min_history
        if (away or short) and torch.compiler.is_compiling():
            raise RuntimeError(
                f"the scales of {type(self).__name__} are on {meta.scale.device} with a history of {room} "
                f"steps, but a graph needs them on {device} for {min_history} steps. Run one step without "
                "torch.compile first."
            )
        if away:
            self._move_scales_to(device)
        if short:
            with torch.inference_mode(False):
                self.fp8_meta = {
                    name: meta.with_history_length(min_history) for name, meta in self.fp8_meta.items()
                }
        return self.fp8_meta

    def should_update_scales(self) -> bool:
        """Return whether a forward pass updates the scales.

        This is True in training if magnitudes are measured, except in the recomputation of a checkpoint.
        """
        return self.training and is_amax_measurement_enabled() and not is_in_backward()

    @torch.no_grad()
    def round_to_fp8(
        self, recipe: DelayedScaling, group: Any, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the given tensors of the forward pass in fp8, followed by one tensor of inverse scales.

        If this forward pass updates the scales, this call begins a step. The inverse scales are a copy, so
        that the backward pass uses the scales of its own forward pass.
        """
        measure = self.should_update_scales()
        meta = self.scales_on(tensors[0].device, recipe.amax_history_len if measure else 0)["scaling_fwd"]
        if measure:
            update_scales_and_history(meta, recipe, True, group)
        kind = get_fp8_te_dtype(recipe)
        low = [
            cast_to_fp8(tensor.detach(), meta, tensor_index, kind, measure_amax=measure)
            for tensor_index, tensor in enumerate(tensors)
        ]
        return (*low, meta.scale_inv.clone())

    def get_extra_state(self) -> torch.Tensor:
        """Return scales and magnitude histories, serialized as a uint8 tensor, for the ``state_dict``."""
        buffer = io.BytesIO()
        torch.save(
            {name: dataclasses.asdict(meta.to(torch.device("cpu"))) for name, meta in self.fp8_meta.items()},
            buffer,
        )
        return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Restore scales and histories that `get_extra_state` returned.

        Raises:
            ValueError: the state does not have the entries of this module.
        """
        if state is None or not isinstance(state, torch.Tensor) or not state.numel():
            return
        loaded = torch.load(io.BytesIO(state.cpu().numpy().tobytes()), weights_only=True)
        if set(loaded) != set(self.fp8_meta):
            raise ValueError(
                f"the _extra_state of {type(self).__name__} has {sorted(loaded)}, not "
                f"{sorted(self.fp8_meta)}. Remove _extra_state from the state dict to start with new scales."
            )
        device = self.fp8_meta["scaling_fwd"].scale.device
        self.fp8_meta = {name: FP8TensorMeta(**tensors).to(device) for name, tensors in loaded.items()}
