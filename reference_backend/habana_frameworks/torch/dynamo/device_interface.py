"""The device interface for Dynamo. Importing this module imports Dynamo."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch import hpu

import torch
from torch._dynamo.device_interface import DeviceInterface


class HpuInterface(DeviceInterface):
    """Functions of ``torch.hpu`` under the names that Dynamo uses."""

    device = hpu.device
    Event = hpu.Event
    Stream = hpu.Stream

    class Worker:
        """Device functions for compile workers, which must not acquire the device. The device index is 0."""

        @staticmethod
        def set_device(device: int) -> None:
            """Do nothing, because a process has one device."""
            return None

        @staticmethod
        def current_device() -> int:
            """Return the index of the device, 0."""
            return 0

        @staticmethod
        def get_device_properties(device: Any = None) -> str:
            """Return the properties of the device; see `torch.hpu.get_device_properties`."""
            return hpu.get_device_properties(device)

    current_device = staticmethod(hpu.current_device)
    set_device = staticmethod(hpu.set_device)
    exchange_device = staticmethod(hpu._exchange_device)
    maybe_exchange_device = staticmethod(hpu._maybe_exchange_device)
    device_count = staticmethod(hpu.device_count)
    is_available = staticmethod(hpu.is_available)
    stream = staticmethod(hpu.stream)
    current_stream = staticmethod(hpu.current_stream)
    set_stream = staticmethod(hpu.set_stream)
    _set_stream_by_id = staticmethod(hpu._set_stream_by_id)
    synchronize = staticmethod(hpu.synchronize)
    get_device_properties = staticmethod(hpu.get_device_properties)
    get_compute_capability = staticmethod(hpu.get_device_capability)
    memory_allocated = staticmethod(hpu.memory_allocated)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """Return the id of this thread's current stream."""
        return hpu.current_stream(device_idx).stream_id

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Return True: bfloat16 is always supported."""
        return hpu.is_bf16_supported()

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        """Return True: the reference device supports every dtype of the CPU."""
        return True
