"""How a rank calls each collective: functions of torch.distributed, the call and the given tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.distributed.calls import Call, Running, Tensors
from conformance.distributed.shapes import parts

Issue = Callable[[Any, Call, Tensors], Running]


def _options(call: Call) -> dict[str, Any]:
    return {"group": call.group, "async_op": call.asynchronous}


def all_reduce(dist: Any, call: Call, given: Tensors) -> Running:
    return Running(given, [dist.all_reduce(given[0], op=call.op, **_options(call))])


def all_reduce_coalesced(dist: Any, call: Call, given: Tensors) -> Running:
    return Running(given, [dist.all_reduce_coalesced(given, op=call.op, **_options(call))])


def reduce(dist: Any, call: Call, given: Tensors) -> Running:
    work = dist.reduce(given[0], call.ranks[call.root], op=call.op, **_options(call))
    return Running(given if call.me == call.root else [], [work])


def broadcast(dist: Any, call: Call, given: Tensors) -> Running:
    return Running(given, [dist.broadcast(given[0], call.ranks[call.root], **_options(call))])


def all_gather(dist: Any, call: Call, given: Tensors) -> Running:
    outputs = [call.result(given[0], *given[0].shape) for _ in range(call.size)]
    return Running(outputs, [dist.all_gather(outputs, given[0], **_options(call))])


def all_gather_into_tensor(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], call.size * given[0].shape[0], *given[0].shape[1:])
    return Running([output], [dist.all_gather_into_tensor(output, given[0], **_options(call))])


def all_gather_stacked(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], call.size, *given[0].shape)
    return Running([output], [dist.all_gather_into_tensor(output, given[0], **_options(call))])


def reduce_scatter(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], *given[0].shape)
    return Running([output], [dist.reduce_scatter(output, given, op=call.op, **_options(call))])


def reduce_scatter_tensor(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], given[0].shape[0] // call.size, *given[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, given[0], op=call.op, **_options(call))
    return Running([output], [work])


def reduce_scatter_stacked(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], *given[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, given[0], op=call.op, **_options(call))
    return Running([output], [work])


def all_to_all(dist: Any, call: Call, given: Tensors) -> Running:
    outputs = [call.result(one, *one.shape) for one in given]
    return Running(outputs, [dist.all_to_all(outputs, given, **_options(call))])


def all_to_all_single(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], *given[0].shape)
    return Running([output], [dist.all_to_all_single(output, given[0], **_options(call))])


def all_to_all_uneven(dist: Any, call: Call, given: Tensors) -> Running:
    mine = parts(call.me, call.size)
    theirs = [parts(other, call.size)[call.me] for other in range(call.size)]
    output = call.result(given[0], sum(theirs), *given[0].shape[1:])
    return Running([output], [dist.all_to_all_single(output, given[0], theirs, mine, **_options(call))])


def gather(dist: Any, call: Call, given: Tensors) -> Running:
    outputs = (
        [call.result(given[0], *given[0].shape) for _ in range(call.size)] if call.me == call.root else None
    )
    work = dist.gather(given[0], outputs, call.ranks[call.root], **_options(call))
    return Running(outputs or [], [work])


def scatter(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], *given[0].shape)
    parts = given if call.me == call.root else None
    return Running([output], [dist.scatter(output, parts, call.ranks[call.root], **_options(call))])


def ring(dist: Any, call: Call, given: Tensors) -> Running:
    """Each to its right: of two neighbours the one with the even number sends first, and in an odd ring the
    last rank goes last, so that backends which connect pair by pair never wait in a circle.
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


def pairs(dist: Any, call: Call, given: Tensors) -> Running:
    output = call.result(given[0], *given[0].shape)
    other = call.ranks[call.me ^ 1] if call.me ^ 1 < call.size else None
    if other is None:
        output.copy_(given[0])
    elif call.me % 2 == 0:
        dist.send(given[0], other, group=call.group)
        dist.recv(output, other, group=call.group)
    else:
        dist.recv(output, other, group=call.group)
        dist.send(given[0], other, group=call.group)
    return Running([output], [])


def batch(dist: Any, call: Call, given: Tensors) -> Running:
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
    found: torch.Tensor = functional.wait_tensor(tensor)
    return found


def functional(name: str) -> Issue:
    """A functional collective: its result is another tensor, which waits for itself when it is used."""

    def issue(dist: Any, call: Call, given: Tensors) -> Running:
        import torch.distributed._functional_collectives as functional

        group = call.group if call.group is not None else dist.group.WORLD
        if name == "all_reduce":
            found = functional.all_reduce(given[0], call.word, group)
        elif name == "all_gather_tensor":
            found = functional.all_gather_tensor(given[0], 0, group)
        elif name == "reduce_scatter_tensor":
            found = functional.reduce_scatter_tensor(given[0], call.word, 0, group)
        elif name == "broadcast":
            found = functional.broadcast(given[0], call.root, group)
        elif name == "all_to_all_single":
            found = functional.all_to_all_single(given[0], None, None, group)
        else:
            assert name == "all_reduce_coalesced"
            several = functional.all_reduce_coalesced(given, call.word, group)
            return Running([_waited(functional, one) for one in several], [])
        return Running([_waited(functional, found)], [])

    return issue
