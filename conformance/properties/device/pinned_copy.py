"""Non-blocking copies have arrived once they are waited for."""

from __future__ import annotations

import torch

from conformance.device import api as device_api
from conformance.framework.compare import compare_exact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import SIZE, about, do
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


@register(
    "pinned_copy",
    subject_kind="device",
    statement="Non-blocking copies from and to pinned memory hold their values right after synchronisation.",
    documentation="notes/cuda.html",
    level="core",
    applies=about("Copy"),
    capabilities=("non_blocking", "pinned_memory"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        if not target.declares(str(dtype).removeprefix("torch.")):
            continue
        for size in (1, SIZE, 64 * SIZE + 3):
            source = (torch.arange(size) % 251).to(dtype)

            def work(source: torch.Tensor = source) -> tuple[torch.Tensor, torch.Tensor]:
                pinned, back = api.pin(source), api.pin(torch.zeros_like(source))
                there = torch.empty(source.shape, dtype=source.dtype, device=target.device)
                with api.on(api.current()):
                    there.copy_(pinned, non_blocking=True)
                    back.copy_(there, non_blocking=True)
                api.synchronize()
                pinned.fill_(1)  # a finished copy no longer depends on its source
                return there, back

            outcome = do(target, recorder, f"copying {size} elements of {dtype}", work)
            if outcome.ok:
                there, back = outcome.value
                compare_exact(recorder, there, source, what=f"{size} elements of {dtype} on the device")
                compare_exact(
                    recorder, back, source, what=f"{size} elements of {dtype} back in pinned memory"
                )
