"""Collectives that are issued and waited for later: order with streams, handles, memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import torch

from conformance.device.capture import side_stream
from conformance.distributed import worker_ranks
from conformance.distributed.collective_call import CollectiveCall
from conformance.distributed.collectives import Collective, find
from conformance.distributed.rank_programs import Rank, program
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.collectives._collective_checks import any_dtype, compare_ranks, given_by, host
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_SHAPE = (129, 33)
#: Seconds that the device is kept busy before a collective sees its input.
_DELAY = 0.2
_IN_FLIGHT = 4


def _with_handles(target: Target, subject: Subject) -> Sequence[str]:
    return any_dtype(target, subject) if subject.info.asynchronous else []


@program
def ordered(rank: Rank, name: str, aside: bool) -> tuple[float, list[torch.Tensor]]:
    """Return the seconds until the host was free, and the result plus one, after a first use.

    ``aside``: on a stream of its own.
    """
    collective = find(name)
    with side_stream(rank.target) if aside else contextlib.nullcontext():
        behind_a_slow_kernel(rank, collective)
        runs = [behind_a_slow_kernel(rank, collective) for _ in range(3)]
    return min(seconds for seconds, _ in runs), runs[-1][1]


def behind_a_slow_kernel(rank: Rank, collective: Collective) -> tuple[float, list[torch.Tensor]]:
    """Give a collective an input that a slow kernel has yet to write, and use the result at once.

    Once the stream waits, the input and freed memory are overwritten. Returns the seconds until the host was
    free, and the result plus one.
    """
    import torch.distributed as dist

    delay = rank.target.hook("delay")
    given = [t.to(rank.device) for t in given_by(collective, rank.rank, rank.size, _SHAPE, torch.float32)]
    tensors = [torch.full_like(t, 77.0) for t in given]
    call = CollectiveCall(
        range(rank.size), rank.rank, rank.size - 1, collective.reduction, asynchronous=collective.asynchronous
    )
    rank.synchronize()
    start = time.monotonic()
    if delay is not None:
        delay(_DELAY)
    for tensor, value in zip(tensors, given, strict=True):
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
    return seconds, host(results)


@register(
    "collective-order",
    subject_kind="collective",
    statement="A collective sees what its stream had written when it was issued, what follows on the stream "
    "sees its result, and waiting for its handle does not wait for the device.",
    documentation="distributed.html",
    level="core",
    applies=any_dtype,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def collective_order(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the order on the current stream and on another one, behind a slow kernel if the target file names
    one.
    """
    collective: Collective = subject.info
    _in_order(target, recorder, collective, aside=False)
    if target.capable("streams") and not target.is_cpu:
        _in_order(target, recorder, collective, aside=True)
    else:
        recorder.note("there is one stream only")


def _in_order(target: Target, recorder: Recorder, collective: Collective, *, aside: bool) -> None:
    what = f"{collective.name} on a side stream" if aside else collective.name
    answers = worker_ranks.values(target, recorder, ordered, what=what, name=collective.name, aside=aside)
    if answers is None:
        return
    size = len(answers)
    given = [given_by(collective, me, size, _SHAPE, torch.float32) for me in range(size)]
    actual = [[tensor - 1 for tensor in answer[1]] for answer in answers]
    compare_ranks(recorder, collective, actual, given, size - 1, f"{what} behind a slow kernel")
    # A call without a handle may hold the host, and so may receiving, whose end only the host sees.
    if not (collective.asynchronous and target.capable("asynchronous") and "delay" in target.hooks):
        recorder.note("holding the host cannot be observed here")
        return
    worst = max(answer[0] for answer in answers)
    fact(
        recorder,
        worst < _DELAY * 0.9,
        Kind.STATE,
        f"issuing {what} and waiting for its handle held the host for {worst:.2f} s, while the device "
        f"was busy for {_DELAY} s; wait() must hold the stream, not the host.",
    )


def completed(handle: Any) -> bool:
    """Return whether a Work or a Future says that it is completed."""
    return bool(handle.is_completed() if hasattr(handle, "is_completed") else handle.done())


@program
def in_flight(rank: Rank, name: str) -> dict[str, Any]:
    """Return the results of several calls at once, waited for from the last to the first, and their handles'
    states.
    """
    import torch.distributed as dist

    collective = find(name)
    call = CollectiveCall(range(rank.size), rank.rank, 0, collective.reduction, asynchronous=True)
    running, kept = [], []
    for salt in range(_IN_FLIGHT):
        given = given_by(collective, rank.rank, rank.size, (33, 5), torch.float32, salt)
        kept.append([t.to(rank.device) for t in given])
        running.append(collective.issue(dist, call, kept[-1]))
    results = [issued.wait() for issued in reversed(running)][::-1]
    rank.synchronize()
    works = [work for issued in running for work in issued.works if work is not None]
    deadline = time.monotonic() + 1.0
    while not all(completed(work) for work in works) and time.monotonic() < deadline:
        time.sleep(0.01)
    return {
        "results": [host(outputs) for outputs in results],
        "handles": len(works),
        "completed": [completed(work) for work in works],
    }


@register(
    "collective-handles",
    subject_kind="collective",
    statement="Several calls may be in flight and their handles waited for in any order; afterwards each is "
    "completed and each result right.",
    documentation="distributed.html",
    level="core",
    applies=_with_handles,
    modes=("distributed",),
    runs=False,
    capabilities=("distributed",),
)
def collective_handles(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check four calls with other numbers each."""
    collective: Collective = subject.info
    answers = worker_ranks.values(
        target, recorder, in_flight, what=f"several {collective.name}", name=collective.name
    )
    if answers is None:
        return
    size = len(answers)
    for salt in range(_IN_FLIGHT):
        given = [given_by(collective, me, size, (33, 5), torch.float32, salt) for me in range(size)]
        actual = [answer["results"][salt] for answer in answers]
        compare_ranks(recorder, collective, actual, given, 0, f"call {salt} of {collective.name}")
    for me, answer in enumerate(answers):
        fact(
            recorder,
            answer["handles"] > 0,
            Kind.STATE,
            f"{collective.name} gave rank {me} no handle for async_op=True.",
        )
        fact(
            recorder,
            all(answer["completed"]),
            Kind.STATE,
            f"a handle of {collective.name} says on rank {me} that it is not completed, a second after "
            "the waits for it and for the device.",
        )
