"""Functions that only hardware supports. Each raises NotImplementedError with the reason."""

from __future__ import annotations

from typing import Any, NoReturn

import torch


def _record_params(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> NoReturn:
    """Raise NotImplementedError: only the hardware's debugger needs the addresses of parameters."""
    raise NotImplementedError(
        "_record_params writes addresses for the hardware's debugger, which this device does not have. Use "
        "utils.debug.graph_dumps or torch.profiler."
    )


def _reset_device_memory() -> NoReturn:
    """Raise NotImplementedError: this device cannot free memory that tensors still use."""
    raise NotImplementedError(
        "_reset_device_memory frees the memory of tensors that are in use, which this device does not "
        "support. Delete the tensors and call hpu.empty_cache()."
    )


def _set_profiler_tracer_memory(*arguments: Any) -> NoReturn:
    """Raise NotImplementedError: traces of this device do not use device memory."""
    raise NotImplementedError(
        "_set_profiler_tracer_memory sets the hardware's buffer for traces, which this device does not have"
    )
