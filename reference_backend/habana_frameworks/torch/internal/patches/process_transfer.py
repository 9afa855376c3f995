"""Raise a clear error if a program sends an hpu tensor to another process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.multiprocessing import reductions

_MESSAGE = (
    "a tensor on hpu cannot be sent to another process, because each process has its own device memory. Send "
    "tensor.cpu(), and move it to hpu in the other process. Return CPU tensors from the dataset of a "
    "DataLoader."
)


def patch_multiprocessing_reductions() -> None:
    """Make `torch.multiprocessing` refuse tensors and storages on hpu.

    A `multiprocessing.Queue` pickles values in a thread that only prints errors, so that the receiver would
    wait forever. Therefore this thread sends an object that raises the error in the receiver.
    """
    for kind, reduce in (
        (torch.Tensor, reductions.reduce_tensor),
        (torch.nn.Parameter, reductions.reduce_tensor),
        (torch.UntypedStorage, reductions.reduce_storage),
    ):
        ForkingPickler.register(kind, _wrap_reduction_to_reject_hpu(reduce))


def _wrap_reduction_to_reject_hpu(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def reduce(value: Any) -> Any:
        if value.device.type != DEVICE_TYPE:
            return original(value)
        if _feeds_queue_without_error_handler():
            return _raise_in_receiver, ()
        raise RuntimeError(_MESSAGE)

    return reduce


def _feeds_queue_without_error_handler() -> bool:
    """Return whether this is the thread of a `multiprocessing.Queue` that only prints errors.

    In contrast, a queue of `concurrent.futures` reports errors through the future.
    """
    queues = sys.modules.get("multiprocessing.queues")  # without an import, because few programs use queues
    if queues is None:
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not queues.Queue._feed.__code__:
        frame = frame.f_back
    return frame is not None and frame.f_locals.get("onerror") is queues.Queue._on_queue_feeder_error


def _raise_in_receiver() -> None:
    raise RuntimeError(_MESSAGE)
