"""Check that non-blocking copies are complete after synchronization."""

from __future__ import annotations

import torch

from conformance.device import api as device_api
from conformance.device.api import DeviceApi
from conformance.framework.compare import compare_exact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import (
    SIZE,
    delay_stream,
    dtypes_function_for_part,
    run_and_record_error,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "pinned_copy",
    subject_kind="device",
    statement=(
        "Non-blocking copies from and to pinned memory have their values immediately after synchronization. "
        "A later write to a device tensor does not change a copy of it, and the memory of a pinned tensor is "
        "not used again before its copy ends."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=dtypes_function_for_part("Copy"),
    capabilities=("non_blocking", "pinned_memory"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Copy tensors from pinned memory to the device and back, and compare the values. Then overwrite or free
    the source of a copy while earlier work still delays the copy.
    """
    api = device_api.device_api(target)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        if not target.declares(str(dtype).removeprefix("torch.")):
            continue
        for size in (1, SIZE, 64 * SIZE + 3):
            source = (torch.arange(size) % 251).to(dtype)

            def work(source: torch.Tensor = source) -> tuple[torch.Tensor, torch.Tensor]:
                pinned, copied_back = (
                    api.copy_to_pinned_memory(source),
                    api.copy_to_pinned_memory(torch.zeros_like(source)),
                )
                on_device = torch.empty(source.shape, dtype=source.dtype, device=target.device)
                with api.use_stream(api.current_stream()):
                    on_device.copy_(pinned, non_blocking=True)
                    copied_back.copy_(on_device, non_blocking=True)
                api.synchronize()
                pinned.fill_(1)  # the copy is complete, so this write must not affect it
                return on_device, copied_back

            outcome = run_and_record_error(target, recorder, f"copying {size} elements of {dtype}", work)
            if outcome.ok:
                on_device, copied_back = outcome.value
                compare_exact(recorder, on_device, source, label=f"{size} elements of {dtype} on the device")
                compare_exact(
                    recorder, copied_back, source, label=f"{size} elements of {dtype} back in pinned memory"
                )
        _check_overwritten_source(target, recorder, api, dtype)
        _check_freed_source(target, recorder, api, dtype)


def _check_overwritten_source(target: Target, recorder: Recorder, api: DeviceApi, dtype: torch.dtype) -> None:
    """Overwrite a device tensor after its copy, on the stream of the copy."""
    source = (torch.arange(64 * SIZE) % 251).to(dtype)

    def copy_and_overwrite_source() -> tuple[torch.Tensor, torch.Tensor]:
        on_device = source.to(target.device, copy=True)
        elsewhere, on_host = torch.zeros_like(on_device), api.copy_to_pinned_memory(torch.zeros_like(source))
        api.synchronize()
        with api.use_stream(api.current_stream()):
            delay_stream(api, recorder)
            on_host.copy_(on_device, non_blocking=True)
            elsewhere.copy_(on_device, non_blocking=True)
            on_device.fill_(252)
        api.synchronize()
        return on_host, elsewhere

    outcome = run_and_record_error(
        target, recorder, "overwriting the source of a copy", copy_and_overwrite_source
    )
    if outcome.ok:
        for copy, place in zip(outcome.value, ("in pinned memory", "on the device"), strict=True):
            label = f"the copy {place} of a tensor of {dtype} that is overwritten later"
            compare_exact(recorder, copy, source, label=label)


def _check_freed_source(target: Target, recorder: Recorder, api: DeviceApi, dtype: torch.dtype) -> None:
    """Free pinned tensors after their copies began, and pin other tensors of the same size."""
    sources = [torch.full((64 * SIZE,), number, dtype=dtype) for number in range(4)]

    def copy_and_free_source() -> list[torch.Tensor]:
        copies = [torch.empty_like(source, device=target.device) for source in sources]
        with api.use_stream(api.current_stream()):
            delay_stream(api, recorder)
            for copy, source in zip(copies, sources, strict=True):
                copy.copy_(api.copy_to_pinned_memory(source), non_blocking=True)
        api.synchronize()
        return copies

    outcome = run_and_record_error(target, recorder, "freeing the source of a copy", copy_and_free_source)
    if outcome.ok:
        for copy, source in zip(outcome.value, sources, strict=True):
            label = f"the copy of a pinned tensor of {dtype} that is freed at once"
            compare_exact(recorder, copy, source, label=label)
