"""Check that non-blocking copies are complete after synchronization."""

from __future__ import annotations

import torch

from conformance.device import api as device_api
from conformance.framework.compare import compare_exact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import SIZE, applies_to_part, run_recorded
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "pinned_copy",
    subject_kind="device",
    statement=(
        "Non-blocking copies from and to pinned memory have their values immediately after synchronization."
    ),
    documentation="notes/cuda.html",
    level="core",
    applies=applies_to_part("Copy"),
    capabilities=("non_blocking", "pinned_memory"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Copy tensors from pinned memory to the device and back, then compare the values."""
    api = device_api.device_api(target)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        if not target.declares(str(dtype).removeprefix("torch.")):
            continue
        for size in (1, SIZE, 64 * SIZE + 3):
            source = (torch.arange(size) % 251).to(dtype)

            def work(source: torch.Tensor = source) -> tuple[torch.Tensor, torch.Tensor]:
                pinned, copied_back = api.pin(source), api.pin(torch.zeros_like(source))
                on_device = torch.empty(source.shape, dtype=source.dtype, device=target.device)
                with api.on(api.current()):
                    on_device.copy_(pinned, non_blocking=True)
                    copied_back.copy_(on_device, non_blocking=True)
                api.synchronize()
                pinned.fill_(1)  # the copy is finished and must not be affected
                return on_device, copied_back

            outcome = run_recorded(target, recorder, f"copying {size} elements of {dtype}", work)
            if outcome.ok:
                on_device, copied_back = outcome.value
                compare_exact(recorder, on_device, source, label=f"{size} elements of {dtype} on the device")
                compare_exact(
                    recorder, copied_back, source, label=f"{size} elements of {dtype} back in pinned memory"
                )
