"""Calls of collectives by a rank: functions of torch.distributed, the call and the rank's inputs.

Each issues one collective and returns the running call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.distributed.collective_call import CollectiveCall, Running, Tensors
from conformance.distributed.collective_inputs import parts

Issue = Callable[[Any, CollectiveCall, Tensors], Running]


def _options(call: CollectiveCall) -> dict[str, Any]:
    return {"group": call.group, "async_op": call.asynchronous}


def all_reduce(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_reduce``."""
    return Running(given, [dist.all_reduce(given[0], op=call.op, **_options(call))])


def all_reduce_coalesced(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_reduce_coalesced``."""
    return Running(given, [dist.all_reduce_coalesced(given, op=call.op, **_options(call))])


def reduce(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.reduce``; only the root has a result."""
    work = dist.reduce(given[0], call.ranks[call.root], op=call.op, **_options(call))
    return Running(given if call.me == call.root else [], [work])


def broadcast(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.broadcast``."""
    return Running(given, [dist.broadcast(given[0], call.ranks[call.root], **_options(call))])


def all_gather(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_gather``."""
    outputs = [call.result(given[0], *given[0].shape) for _ in range(call.size)]
    return Running(outputs, [dist.all_gather(outputs, given[0], **_options(call))])


def all_gather_into_tensor(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_gather_into_tensor`` with rows behind each other."""
    output = call.result(given[0], call.size * given[0].shape[0], *given[0].shape[1:])
    return Running([output], [dist.all_gather_into_tensor(output, given[0], **_options(call))])


def all_gather_stacked(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_gather_into_tensor`` with a new first dimension."""
    output = call.result(given[0], call.size, *given[0].shape)
    return Running([output], [dist.all_gather_into_tensor(output, given[0], **_options(call))])


def reduce_scatter(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.reduce_scatter``."""
    output = call.result(given[0], *given[0].shape)
    return Running([output], [dist.reduce_scatter(output, given, op=call.op, **_options(call))])


def reduce_scatter_tensor(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.reduce_scatter_tensor`` with rows behind each other."""
    output = call.result(given[0], given[0].shape[0] // call.size, *given[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, given[0], op=call.op, **_options(call))
    return Running([output], [work])


def reduce_scatter_stacked(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.reduce_scatter_tensor`` with one layer of the first dimension for each rank."""
    output = call.result(given[0], *given[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, given[0], op=call.op, **_options(call))
    return Running([output], [work])


def all_to_all(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_to_all``."""
    outputs = [call.result(tensor, *tensor.shape) for tensor in given]
    return Running(outputs, [dist.all_to_all(outputs, given, **_options(call))])


def all_to_all_single(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_to_all_single`` with equal groups of rows."""
    output = call.result(given[0], *given[0].shape)
    return Running([output], [dist.all_to_all_single(output, given[0], **_options(call))])


def all_to_all_uneven(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.all_to_all_single`` with groups of rows of different sizes."""
    sent = parts(call.me, call.size)
    received = [parts(sender, call.size)[call.me] for sender in range(call.size)]
    output = call.result(given[0], sum(received), *given[0].shape[1:])
    return Running([output], [dist.all_to_all_single(output, given[0], received, sent, **_options(call))])


def gather(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.gather``; only the root has results."""
    outputs = (
        [call.result(given[0], *given[0].shape) for _ in range(call.size)] if call.me == call.root else None
    )
    work = dist.gather(given[0], outputs, call.ranks[call.root], **_options(call))
    return Running(outputs or [], [work])


def scatter(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Issue ``dist.scatter``."""
    output = call.result(given[0], *given[0].shape)
    parts = given if call.me == call.root else None
    return Running([output], [dist.scatter(output, parts, call.ranks[call.root], **_options(call))])


def ring(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Send to the right neighbour with ``dist.isend`` and receive from the left one with ``dist.irecv``.

    Of two neighbours the one with the even number sends first, and in an odd ring the last rank goes last, so
    that backends which connect pair by pair never wait in a circle.
    """
    to, source = call.ranks[(call.me + 1) % call.size], call.ranks[(call.me - 1) % call.size]
    output = call.result(given[0], *given[0].shape)
    if call.size == 1:
        return Running([output.copy_(given[0])], [])

    def send() -> Any:
        return dist.isend(given[0], to, group=call.group)

    def receive() -> Any:
        return dist.irecv(output, source, group=call.group)

    first, second = (send, receive) if call.me % 2 == 0 else (receive, send)
    if call.me == call.size - 1 and call.size % 2:
        first, second = receive, send
    return Running([output], [first(), second()])


def pairs(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Exchange with a partner by ``dist.send`` and ``dist.recv``; the even rank sends first."""
    output = call.result(given[0], *given[0].shape)
    partner = call.ranks[call.me ^ 1] if call.me ^ 1 < call.size else None
    if partner is None:
        output.copy_(given[0])
    elif call.me % 2 == 0:
        dist.send(given[0], partner, group=call.group)
        dist.recv(output, partner, group=call.group)
    else:
        dist.recv(output, partner, group=call.group)
        dist.send(given[0], partner, group=call.group)
    return Running([output], [])


def batch(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
    """Send to the right and receive from the left neighbour in one ``dist.batch_isend_irecv``."""
    output = call.result(given[0], *given[0].shape)
    if call.size == 1:
        return Running([output.copy_(given[0])], [])
    to, source = call.ranks[(call.me + 1) % call.size], call.ranks[(call.me - 1) % call.size]
    operations = [
        dist.P2POp(dist.isend, given[0], to, group=call.group),
        dist.P2POp(dist.irecv, output, source, group=call.group),
    ]
    return Running([output], list(dist.batch_isend_irecv(operations)))


def _waited(functional: Any, tensor: torch.Tensor) -> torch.Tensor:
    waited: torch.Tensor = functional.wait_tensor(tensor)
    return waited


def functional(name: str) -> Issue:
    """Return the issue of a functional collective, whose result is a new tensor that waits for itself when
    used.
    """

    def issue(dist: Any, call: CollectiveCall, given: Tensors) -> Running:
        import torch.distributed._functional_collectives as functional

        group = call.group if call.group is not None else dist.group.WORLD
        if name == "all_reduce":
            output = functional.all_reduce(given[0], call.word, group)
        elif name == "all_gather_tensor":
            output = functional.all_gather_tensor(given[0], 0, group)
        elif name == "reduce_scatter_tensor":
            output = functional.reduce_scatter_tensor(given[0], call.word, 0, group)
        elif name == "broadcast":
            output = functional.broadcast(given[0], call.root, group)
        elif name == "all_to_all_single":
            output = functional.all_to_all_single(given[0], None, None, group)
        else:
            assert name == "all_reduce_coalesced"
            outputs = functional.all_reduce_coalesced(given, call.word, group)
            return Running([_waited(functional, tensor) for tensor in outputs], [])
        return Running([_waited(functional, output)], [])

    return issue
