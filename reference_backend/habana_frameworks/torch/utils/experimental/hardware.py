"""Functions for what only hardware has: each raises one sentence that says so."""

from __future__ import annotations

from typing import Any, NoReturn

import torch


def _record_params(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> NoReturn:
    """Refuse: the hardware's debugger looks parameters up by address, and there is no such debugger here."""
    raise NotImplementedError(
        "_record_params writes addresses for the hardware's debugger, which this device does not have: use "
        "utils.debug.graph_dumps or torch.profiler"
    )


def _reset_device_memory() -> NoReturn:
    """Refuse: memory belongs to tensors until these are dropped."""
    raise NotImplementedError(
        "_reset_device_memory takes the memory of tensors that are in use, which this device does not do: "
        "drop the tensors and call hpu.empty_cache()"
    )


def _set_profiler_tracer_memory(*arguments: Any) -> NoReturn:
    """Refuse: traces need no memory of the device here."""
    raise NotImplementedError(
        "_set_profiler_tracer_memory sets the hardware's buffer for traces, which this device does not have"
    )
