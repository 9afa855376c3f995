"""Check that asynchronous collectives run in stream order, and that their handles and memory are correct."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import torch

from conformance.device.capture import side_stream
from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall
from conformance.distributed.collectives import Collective, find_collective
from conformance.distributed.rank_programs import Rank, program
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.collectives._collective_checks import (
    any_dtype_for_default_reduction,
    compare_results_of_ranks,
    copies_on_cpu,
    inputs_of_rank,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (129, 33)
#: Seconds for which the device is busy before the collective's input is written.
_DELAY = 0.2
_IN_FLIGHT = 4


def _any_dtype_if_asynchronous(target: Target, subject: Subject) -> Sequence[str]:
    return any_dtype_for_default_reduction(target, subject) if subject.info.asynchronous else []


@program
def timed_collective_after_slow_kernel(
    rank: Rank, name: str, on_side_stream: bool
) -> tuple[float, list[torch.Tensor]]:
    """Run :func:`collective_after_slow_kernel` once as a warm-up, then three times with time measurement.

    If ``on_side_stream`` is true, use a side stream. Return the smallest number of seconds for which the host
    was blocked, and the results of the last run.
    """
    collective = find_collective(name)
    with side_stream(rank.target) if on_side_stream else contextlib.nullcontext():
        collective_after_slow_kernel(rank, collective)
        runs = [collective_after_slow_kernel(rank, collective) for _ in range(3)]
    return min(seconds for seconds, _ in runs), runs[-1][1]


def collective_after_slow_kernel(rank: Rank, collective: Collective) -> tuple[float, list[torch.Tensor]]:
    """Issue a collective whose input a slow kernel still has to write, wait for its handle, and use its
    results.

    After the wait, overwrite the input, and reallocate and overwrite freed memory. If the collective still
    reads its input then, its results are wrong.

    Returns:
        The seconds for which the host was blocked, and the results of the collective, each increased by one.
    """
    import torch.distributed as dist

    delay = rank.target.hook("delay")
    inputs = [
        t.to(rank.device) for t in inputs_of_rank(collective, rank.rank, rank.size, _SHAPE, torch.float32)
    ]
    tensors = [torch.full_like(t, 77.0) for t in inputs]
    call = CollectiveCall(
        range(rank.size), rank.rank, rank.size - 1, collective.reduction, asynchronous=collective.asynchronous
    )
    rank.synchronize()
    start = time.monotonic()
    if delay is not None:
        delay(_DELAY)
    for tensor, value in zip(tensors, inputs, strict=True):
        torch.mul(value, 1.0, out=tensor)
    outputs = collective.issue(dist, call, tensors).wait()
    results = [output + 1 for output in outputs]
    seconds = time.monotonic() - start
    for tensor in tensors:
        tensor.fill_(-99.0)
    del tensors, outputs
    garbage = [torch.full(_SHAPE, 1e30, device=rank.device) for _ in range(8)]
    rank.synchronize()
    del garbage
    return seconds, copies_on_cpu(results)


@register(
    "collective-order",
    subject_kind="collective",
    statement=(
        "A collective reads the values that its stream had written when it was issued. Later work on the "
        "stream reads its result. Waiting for its handle does not wait for the device."
    ),
    documentation="accelerator/distributed.html",
    level="core",
    applies=any_dtype_for_default_reduction,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def check_collective_order(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the order on the current stream and on a side stream.

    If the target file declares the hook ``delay``, a slow kernel precedes the collective.
    """
    collective: Collective = subject.info
    _check_order(target, recorder, collective, on_side_stream=False)
    if target.capable("streams") and not target.is_cpu:
        _check_order(target, recorder, collective, on_side_stream=True)
    else:
        recorder.note("the target has only one stream")


def _check_order(target: Target, recorder: Recorder, collective: Collective, *, on_side_stream: bool) -> None:
    label = f"{collective.name} on a side stream" if on_side_stream else collective.name
    replies = worker_ranks.values_of_ranks(
        target,
        recorder,
        timed_collective_after_slow_kernel,
        label=label,
        name=collective.name,
        on_side_stream=on_side_stream,
    )
    if replies is None:
        return
    size = len(replies)
    inputs = [inputs_of_rank(collective, rank, size, _SHAPE, torch.float32) for rank in range(size)]
    actual = [[tensor - 1 for tensor in reply[1]] for reply in replies]
    compare_results_of_ranks(recorder, collective, actual, inputs, size - 1, f"{label} behind a slow kernel")
    # The following check needs a call that must not block the host. A call without a handle may block. A
    # receive may block too, because only the host can observe that data has arrived.
    if not (collective.asynchronous and target.capable("asynchronous") and "delay" in target.hooks):
        recorder.note(
            "not checked whether the call blocks the host: this needs an asynchronous collective and the "
            "hook delay"
        )
        return
    worst = max(reply[0] for reply in replies)
    fact(
        recorder,
        worst < _DELAY * 0.9,
        Kind.STATE,
        f"issuing {label} and waiting for its handle blocked the host for {worst:.2f} s, while the device "
        f"was busy for {_DELAY} s; wait() must block the stream, not the host.",
    )


def is_completed(handle: Any) -> bool:
    """Return whether a Work or a Future reports that it is completed."""
    return bool(handle.is_completed() if hasattr(handle, "is_completed") else handle.done())


@program
def results_of_overlapping_calls(rank: Rank, name: str) -> dict[str, Any]:
    """Issue several calls, then wait for their handles from the last to the first.

    Return the results, the number of handles, and whether each handle is completed.
    """
    import torch.distributed as dist

    collective = find_collective(name)
    call = CollectiveCall(range(rank.size), rank.rank, 0, collective.reduction, asynchronous=True)
    issued_calls, inputs_on_device = [], []
    for call_index in range(_IN_FLIGHT):
        inputs = inputs_of_rank(collective, rank.rank, rank.size, (33, 5), torch.float32, call_index)
        inputs_on_device.append([t.to(rank.device) for t in inputs])
        issued_calls.append(collective.issue(dist, call, inputs_on_device[-1]))
    results = [issued.wait() for issued in reversed(issued_calls)][::-1]
    rank.synchronize()
    works = [work for issued in issued_calls for work in issued.works if work is not None]
    deadline = time.monotonic() + 1.0
    while not all(is_completed(work) for work in works) and time.monotonic() < deadline:
        time.sleep(0.01)
    return {
        "results": [copies_on_cpu(outputs) for outputs in results],
        "handles": len(works),
        "completed": [is_completed(work) for work in works],
    }


@register(
    "collective-handles",
    subject_kind="collective",
    statement=(
        "Several calls may be in flight, and their handles may be waited for in any order. Afterwards "
        "each handle is completed and each result is correct."
    ),
    documentation="distributed.html",
    level="core",
    applies=_any_dtype_if_asynchronous,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def check_collective_handles(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Issue four calls with different inputs and wait for their handles in reverse order."""
    collective: Collective = subject.info
    replies = worker_ranks.values_of_ranks(
        target,
        recorder,
        results_of_overlapping_calls,
        label=f"several {collective.name}",
        name=collective.name,
    )
    if replies is None:
        return
    size = len(replies)
    for call_index in range(_IN_FLIGHT):
        inputs = [
            inputs_of_rank(collective, rank, size, (33, 5), torch.float32, call_index) for rank in range(size)
        ]
        actual = [reply["results"][call_index] for reply in replies]
        compare_results_of_ranks(
            recorder, collective, actual, inputs, 0, f"call {call_index} of {collective.name}"
        )
    for rank, reply in enumerate(replies):
        fact(
            recorder,
            reply["handles"] > 0,
            Kind.STATE,
            f"{collective.name} gave rank {rank} no handle for async_op=True.",
        )
        fact(
            recorder,
            all(reply["completed"]),
            Kind.STATE,
            f"a handle of {collective.name} on rank {rank} is not completed one second after "
            "the waits for the handle and for the device.",
        )
