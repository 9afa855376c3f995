"""Memory usage and load of the device, read through the management library `pyhlml`.

With `libhlml.so` of `hpu_reference_tools`, `pyhlml` reports figures of the simulator: the memory of all
processes that use the module (Gaudi card), and their load of one processor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.settings.visible_modules import own_module_id, visible_module_ids

from ._utils import _require_own_device_index


def memory_usage(device: Any = None) -> int:
    """Return the device memory in use, in percent of all device memory.

    Raises:
        ImportError: `pyhlml` is not installed.
        AssertionError: the device index does not exist.
    """
    with _management_library(device) as (pyhlml, handle):
        memory = pyhlml.hlmlDeviceGetMemoryInfo(handle)
        percent: int = round(100 * memory.used / memory.total)
        return percent


def utilization(device: Any = None) -> int:
    """Return how busy the device is, in percent, as the management library reports it.

    Raises:
        ImportError: `pyhlml` is not installed.
        AssertionError: the device index does not exist.
    """
    with _management_library(device) as (pyhlml, handle):
        rates = pyhlml.hlmlDeviceGetUtilizationRates(handle)
        return int(getattr(rates, "aip", rates))  # older releases of pyhlml return a number


@contextlib.contextmanager
def _management_library(device: Any) -> Iterator[tuple[ModuleType, Any]]:
    index = _require_own_device_index(device)
    try:
        import pyhlml

        if not hasattr(pyhlml, "hlmlInit"):  # newer releases define the functions in pyhlml.main
            import pyhlml.main as pyhlml
    except ImportError as error:
        raise ImportError(
            "memory_usage and utilization need the management library, but pyhlml is not installed. "
            "Install habana-pyhlml."
        ) from error
    module = own_module_id() if index == 0 else None
    pyhlml.hlmlInit()
    try:
        yield (
            pyhlml,
            pyhlml.hlmlDeviceGetHandleByIndex(visible_module_ids()[index] if module is None else module),
        )
    finally:
        pyhlml.hlmlShutdown()
