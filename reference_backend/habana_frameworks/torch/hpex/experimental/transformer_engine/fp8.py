"""The state of `fp8_autocast`, and the computation of scales from magnitudes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from habana_frameworks.torch.internal.operators import low_precision_rounding

import torch

from .recipe import DelayedScaling, Format
from .utils import FP8TensorMeta


class FP8GlobalStateManager:
    """The fp8 state of the process: whether fp8 is enabled, recipe, group of ranks, and measurement mode."""

    FP8_ENABLED = False
    FP8_RECIPE: DelayedScaling | None = None
    FP8_GROUP: Any = None
    FP8_AUTOCAST_DEPTH = 0
    MANUAL_MEASUREMENT: bool | None = None

    @classmethod
    def set_measurement_mode(cls, manual: bool, manual_value: bool = True) -> None:
        """Select when fp8 modules measure magnitudes and change their scales.

        Args:
            manual: if False, modules measure in each training step. If True, ``manual_value`` decides.
            manual_value: whether modules measure in training; used only if ``manual`` is True.
        """
        cls.MANUAL_MEASUREMENT = manual_value if manual else None

    @classmethod
    def get_manual_measurement_mode(cls) -> bool | None:
        """Return whether modules measure by manual choice, or None if they measure in each training step."""
        return cls.MANUAL_MEASUREMENT

    @classmethod
    def is_fp8_enabled(cls) -> bool:
        """Return whether modules compute in fp8."""
        return cls.FP8_ENABLED

    @classmethod
    def get_fp8_recipe(cls) -> DelayedScaling:
        """Return the recipe of the innermost `fp8_autocast`, or the default recipe."""
        return cls.FP8_RECIPE if cls.FP8_RECIPE is not None else get_default_fp8_recipe()

    @classmethod
    def get_fp8_group(cls) -> Any:
        """Return the group of ranks that share magnitudes; None for all ranks."""
        return cls.FP8_GROUP

    @classmethod
    def get_fp8_autocast_state(cls) -> tuple[bool, DelayedScaling | None, Any]:
        """Return whether fp8 is enabled, the recipe and the group, for `set_fp8_autocast_state`."""
        return cls.FP8_ENABLED, cls.FP8_RECIPE, cls.FP8_GROUP

    @classmethod
    def set_fp8_autocast_state(cls, state: tuple[bool, DelayedScaling | None, Any]) -> None:
        """Restore a state of `fp8_autocast` that `get_fp8_autocast_state` returned."""
        cls.FP8_ENABLED, cls.FP8_RECIPE, cls.FP8_GROUP = state

    @classmethod
    def reset(cls) -> None:
        """Restore the initial state: fp8 disabled, default recipe, no manual measurement mode."""
        cls.set_fp8_autocast_state((False, None, None))
        cls.FP8_AUTOCAST_DEPTH = 0
        cls.MANUAL_MEASUREMENT = None

    #: The name of `reset` in the Gaudi bridge.
    reset_global_state = reset


def is_amax_measurement_enabled() -> bool:
    """Return whether fp8 modules measure magnitudes and change their scales in training."""
    return FP8GlobalStateManager.MANUAL_MEASUREMENT is not False


def is_in_backward() -> bool:
    """Return whether a backward pass is running in this thread.

    A forward pass inside a backward pass is the recomputation of an activation checkpoint. While Dynamo
    traces a graph, the result is False.
    """
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def get_default_fp8_recipe() -> DelayedScaling:
    """Return the default recipe of `fp8_autocast`."""
    return DelayedScaling()


@contextlib.contextmanager
def fp8_autocast(
    enabled: bool = False,
    force_measurement: bool | None = None,
    fp8_recipe: DelayedScaling | Mapping[str, Any] | None = None,
    fp8_group: Any = None,
) -> Iterator[None]:
    """Make modules of this package compute in fp8 within a ``with`` block.

    Args:
        enabled: compute in fp8.
        force_measurement: whether modules measure magnitudes and change scales in the block; None for the
            mode that `FP8GlobalStateManager.set_measurement_mode` selected.
        fp8_recipe: the recipe, or a mapping with fields of `DelayedScaling`; None for the default recipe.
        fp8_group: group of ranks that share magnitudes; None for all ranks.
    """
    state = FP8GlobalStateManager.get_fp8_autocast_state()
    measurement = FP8GlobalStateManager.MANUAL_MEASUREMENT
    if force_measurement is not None:
        FP8GlobalStateManager.MANUAL_MEASUREMENT = force_measurement
    recipe = DelayedScaling(**fp8_recipe) if isinstance(fp8_recipe, Mapping) else fp8_recipe
    FP8GlobalStateManager.set_fp8_autocast_state((enabled, recipe, fp8_group))
    FP8GlobalStateManager.FP8_AUTOCAST_DEPTH += 1
    try:
        yield
    finally:
        FP8GlobalStateManager.set_fp8_autocast_state(state)
        FP8GlobalStateManager.FP8_AUTOCAST_DEPTH -= 1
        if force_measurement is not None:
            FP8GlobalStateManager.MANUAL_MEASUREMENT = measurement


def get_fp8_te_dtype(fp8_recipe: DelayedScaling, fprop_tensor: bool = True) -> torch.dtype:
    """Return the fp8 dtype of a recipe for the forward pass, or for the backward pass."""
    return fp8_recipe.fp8_format.forward if fprop_tensor else fp8_recipe.fp8_format.backward


def get_fp8_te_sr(fp8_recipe: DelayedScaling, fprop_tensor: bool = True) -> bool:
    """Return whether tensors are rounded stochastically. Tensors of the forward pass are never rounded so.

    Gradients are rounded stochastically if the recipe requests stochastic rounding, or if the recipe's format
    is HYBRID. The environment variable ``PT_TE_FORCE_SR_BWD`` overrides this for gradients.
    """
    if fprop_tensor:
        return False
    forced = os.environ.get("PT_TE_FORCE_SR_BWD", "")
    if forced:
        return forced.lower() in ("1", "true")
    return fp8_recipe.stochastic_rounding or fp8_recipe.fp8_format is Format.HYBRID


def get_fp8_max(fp8_recipe: DelayedScaling, fprop_tensor: bool = True) -> float:
    """Return the largest number of a recipe's fp8 dtype; simulated hardware limits may reduce the number."""
    return low_precision_rounding.largest_finite_number(get_fp8_te_dtype(fp8_recipe, fprop_tensor))


def _default_sf_compute(amax: torch.Tensor, scale: torch.Tensor, fp8_max: float, margin: int) -> torch.Tensor:
    """Return new scales: each maps the largest magnitude ``amax`` to ``fp8_max`` / 2**margin.

    If a magnitude is 0, infinite or NaN, the previous scale is returned.
    """
    wanted = (fp8_max / amax) / 2**margin
    usable = (amax > 0) & torch.isfinite(amax) & torch.isfinite(wanted)
    return torch.where(usable, wanted, scale)


@torch.no_grad()
def update_scales_and_history(
    meta: FP8TensorMeta, recipe: DelayedScaling, fprop: bool, group: Any = None
) -> None:
    """Begin a training step: every ``interval`` steps, compute new scales and shift the magnitude history.

    The condition is a tensor and not a Python bool, so that a compiled program has one graph for all steps.
    Therefore the functions of a recipe are called in each step, including the first step, in which all
    magnitudes are 0. With ``reduce_amax``, the ranks of a group exchange the magnitudes of the last step.
    """
    is_update_step = (meta.step > 0) & (meta.step % recipe.interval == 0)
    history = meta.amax_history[: recipe.amax_history_len]
    if recipe.reduce_amax and torch.distributed.is_available() and torch.distributed.is_initialized():
        last = history[0].clone()
        torch.distributed.all_reduce(last, torch.distributed.ReduceOp.MAX, group=group)
        history[0].copy_(last)
    if callable(recipe.amax_compute_algo):
        amax = recipe.amax_compute_algo(history)
    else:
        amax = history.amax(0) if recipe.amax_compute_algo == "max" else history[0]
    largest = get_fp8_max(recipe, fprop)
    if recipe.scaling_factor_compute_algo is not None:
        scale = recipe.scaling_factor_compute_algo(amax, meta.scale, largest, recipe)
    else:
        scale = _default_sf_compute(amax, meta.scale, largest, recipe.margin)
    meta.scale.copy_(torch.where(is_update_step, scale, meta.scale))
    meta.scale_inv.copy_(torch.where(is_update_step, scale.reciprocal(), meta.scale_inv))
    moved = torch.nn.functional.pad(history[:-1], (0, 0, 1, meta.amax_history.size(0) - history.size(0)))
    meta.amax_history.copy_(torch.where(is_update_step, moved, meta.amax_history))
    meta.step.add_(1)
