"""Mark the parameters and buffers of a model as constant, for inference."""

from __future__ import annotations

from collections.abc import Iterator

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

_MARK = "_hpu_is_const"


def _mark_params_as_const(model: torch.nn.Module, *, scales: bool = True, non_scales: bool = True) -> None:
    """Mark the parameters and buffers of a model as constant.

    Args:
        model: a model whose parameters and buffers are all on hpu.
        scales: mark the quantization scales: tensors whose name, without the module path, contains ``scale``.
        non_scales: mark all other tensors.

    Raises:
        RuntimeError: a parameter or buffer is not on hpu.
    """
    for name, tensor in _parameters_and_buffers(model):
        if tensor.device.type != DEVICE_TYPE:
            raise RuntimeError(
                f"{name} is on {tensor.device} but only tensors on {DEVICE_TYPE} can be marked as "
                f"constant. Move the model with .to('{DEVICE_TYPE}') first."
            )
        if scales if _is_scale(name) else non_scales:
            setattr(tensor, _MARK, True)


def _check_params_as_const(model: torch.nn.Module) -> None:
    """Raise AssertionError unless all parameters and buffers of a model are marked as constant.

    Raises:
        AssertionError: a parameter or buffer is not marked; the message names it.
    """
    for name, tensor in _parameters_and_buffers(model):
        if not getattr(tensor, _MARK, False):
            raise AssertionError(f"{name} is not marked as constant. Call hpu_initialize on the model first.")


def _is_scale(name: str) -> bool:
    return "scale" in name.rpartition(".")[2]


def _parameters_and_buffers(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()
