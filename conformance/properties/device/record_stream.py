"""Check that memory is not reused while a recorded stream works on it."""

from __future__ import annotations

import torch

from conformance.device import api as device_api
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.device._device_checks import (
    SIZE,
    check_all_equal,
    delay_stream,
    device_zeros,
    dtypes_function_for_part,
    run_and_record_error,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The number of tensors that are allocated after a tensor was deleted. One of the new tensors probably gets
#: the memory of the deleted tensor.
ATTEMPTS = 8


@register(
    "record_stream",
    subject_kind="device",
    statement=(
        "A deleted tensor for which record_stream was called keeps its values until that stream has read "
        "them."
    ),
    documentation="generated/torch.Tensor.record_stream.html",
    level="core",
    applies=dtypes_function_for_part("Memory"),
    capabilities=("streams", "record_stream"),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Delete a tensor that a delayed stream has yet to read, and overwrite newly allocated memory."""
    api = device_api.device_api(target)
    for size in (SIZE, 64 * SIZE):
        y = device_zeros(target, size)

        def work(size: int = size, y: torch.Tensor = y) -> list[torch.Tensor]:
            x = api.allocate_elements(size)
            x.fill_(5)
            stream = api.new_stream()
            stream.wait_stream(api.current_stream())
            with api.use_stream(stream):
                delay_stream(api, recorder)
                y.copy_(x)
            api.record_stream(x, stream)
            del x
            overwritten = []
            for _ in range(ATTEMPTS):
                overwritten.append(api.allocate_elements(size))
                overwritten[-1].fill_(-1)
            stream.synchronize()
            return overwritten

        if run_and_record_error(target, recorder, "deleting a tensor that another stream reads", work).ok:
            check_all_equal(recorder, y, 5, f"the values that a stream read from {8 * size} deleted bytes")
