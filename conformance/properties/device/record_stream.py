"""Memory is not reused while a stream works on it."""

from __future__ import annotations

import torch

from conformance.device import api as device_api
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import SIZE, about, do, holds, slow, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Tensors that are made in the hope that one gets the memory of the one that was let go.
ATTEMPTS = 8


@register(
    "record_stream",
    subject_kind="device",
    statement=(
        "A tensor that another stream was recorded for keeps its values until that stream has read them."
    ),
    documentation="generated/torch.Tensor.record_stream.html",
    level="core",
    applies=about("Memory"),
    capabilities=("streams", "record_stream"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    for size in (SIZE, 64 * SIZE):
        y = zeros(target, size)

        def work(size: int = size, y: torch.Tensor = y) -> list[torch.Tensor]:
            x = api.empty(size)
            x.fill_(5)
            stream = api.stream()
            stream.wait_stream(api.current())
            with api.on(stream):
                slow(api, recorder)
                y.copy_(x)
            api.record_stream(x, stream)
            del x
            kept = []
            for _ in range(ATTEMPTS):
                kept.append(api.empty(size))
                kept[-1].fill_(-1)
            stream.synchronize()
            return kept

        if do(target, recorder, "letting go of a tensor that another stream reads", work).ok:
            holds(recorder, y, 5, f"what a stream read from {8 * size} bytes that had been let go")
