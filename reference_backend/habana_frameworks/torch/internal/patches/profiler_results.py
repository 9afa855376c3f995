"""Complete the device's data in the results of `torch.profiler`.

The collector of torch 2.13 supports the device, but four places of torch's Python code do not. An operator
gets neither its kernels nor the device memory that it allocated. Memory allocated outside of operators has no
size. The table does not sum device time, and raises an error.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, DEVICE_TYPE_IN_EVENTS, device_module

import torch
from torch._C._autograd import DeviceType
from torch.autograd import profiler, profiler_util

from .profiler_activity import DebugActivity
from .wrap_function import replace_function

_MEMORY = "[memory]"
_log = logging.getLogger("habana_frameworks.torch.profiler")


def patch_profiler_results() -> None:
    """Make `torch.profiler` attribute the device's rows and memory to operators."""
    replace_function(profiler.profile, "_parse_kineto_results", _wrap_parse_kineto_results)
    replace_function(profiler_util, "_build_table", _wrap_build_table)
    replace_function(profiler.profile, "_start_trace", _wrap_start_trace)
    replace_function(profiler.profile, "__exit__", _wrap_exit)
    replace_function(profiler.profile, "__init__", _wrap_autograd_profile_init)
    for kind in (torch.profiler.profile, torch.profiler.profiler._KinetoProfile):
        replace_function(kind, "__init__", _wrap_profile_init)


def _wrap_parse_kineto_results(original: Callable[..., Any]) -> Callable[..., Any]:
    def _parse_kineto_results(self: Any, result: Any, *args: Any, **kwargs: Any) -> Any:
        events = original(self, result, *args, **kwargs)
        if self.use_device == DEVICE_TYPE:
            _attach_kernels_to_operators(events, result)
            _attach_memory_to_operators(events, result)
        return events

    return _parse_kineto_results


def _attach_kernels_to_operators(events: Sequence[Any], result: Any) -> None:
    hosts = {
        event.id: event for event in events if event.device_type == DeviceType.CPU and not event.is_async
    }
    if any(event.kernels for event in hosts.values()):
        return  # this release of torch adds the kernels itself
    for row in result.events():
        host = hosts.get(row.linked_correlation_id()) if row.device_type() == DEVICE_TYPE_IN_EVENTS else None
        if host is not None:
            host.append_kernel(row.name(), row.device_index(), (row.end_ns() - row.start_ns()) / 1000)


def _attach_memory_to_operators(events: Sequence[Any], result: Any) -> None:
    start = result.trace_start_ns()
    records = sorted(
        ((event.start_ns() - start) / 1000, event.nbytes())
        for event in result.events()
        if event.name() == _MEMORY and event.device_type() == DEVICE_TYPE_IN_EVENTS
    )
    if not records or any(event.device_memory_usage for event in events):
        return  # no records exist, or this torch release itself adds the memory of the device to the rows
    times = [time for time, _ in records]
    for event in events:
        if event.device_type != DeviceType.CPU:
            continue
        first = bisect_left(times, event.time_range.start)
        if event.name == _MEMORY:
            if event.cpu_memory_usage == 0 and first < len(times) and times[first] == event.time_range.start:
                event.device_memory_usage = records[first][1]
            continue
        while first < len(times) and times[first] <= event.time_range.end:
            event.device_memory_usage += records[first][1]
            first += 1


def _wrap_build_table(original: Callable[..., str]) -> Callable[..., str]:
    def _build_table(events: Sequence[Any], *args: Any, **kwargs: Any) -> str:
        rows = [event for event in events if event.device_type == DEVICE_TYPE_IN_EVENTS]
        try:
            for row in rows:
                row.device_type = DeviceType.PrivateUse1  # a device type that the table supports
            return original(events, *args, **kwargs)
        finally:
            for row in rows:
                row.device_type = DEVICE_TYPE_IN_EVENTS

    return _build_table


# Count the profilers that request memory events: the device reports memory only while the count is above 0.
def _wrap_start_trace(original: Callable[..., None]) -> Callable[..., None]:
    def _start_trace(self: Any) -> None:
        if self.profile_memory and not getattr(self, "_counted_by_hpu", False):
            device_module().memory._change_profiler_count(1)
            self._counted_by_hpu = True
        original(self)

    return _start_trace


def _wrap_exit(original: Callable[..., bool]) -> Callable[..., bool]:
    def __exit__(self: Any, *args: Any) -> bool:
        try:
            return original(self, *args)
        finally:
            if getattr(self, "_counted_by_hpu", False):
                device_module().memory._change_profiler_count(-1)
                self._counted_by_hpu = False

    return __exit__


def _wrap_autograd_profile_init(original: Callable[..., None]) -> Callable[..., None]:
    def init(
        self: Any, *args: Any, use_device: str | None = None, use_cpu: bool = True, **kwargs: Any
    ) -> None:
        if use_device == DEVICE_TYPE and os.environ.get("HABANA_PROFILE") == "0":
            if not use_cpu:
                raise RuntimeError(
                    "HABANA_PROFILE=0 disables the profile of hpu. Unset the variable, or profile the CPU as "
                    "well."
                )
            _log.error("HABANA_PROFILE=0 disables the profile of the hpu device; only the host is recorded")
            use_device = None
        if use_device == DEVICE_TYPE and not args:
            kwargs["use_kineto"] = (
                True  # Kineto, the only collector that supports the device, is not the default
            )
        original(self, *args, use_device=use_device, use_cpu=use_cpu, **kwargs)

    return init


def _wrap_profile_init(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, *args: Any, debug_activities: Sequence[Any] | None = None, **kwargs: Any) -> None:
        for activity in debug_activities or ():
            if not isinstance(activity, DebugActivity):
                raise TypeError(f"debug_activities contains {activity!r}. Use members of DebugActivity.")
        original(self, *args, **kwargs)

    return init
