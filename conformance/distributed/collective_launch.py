"""Issue collectives.

Each function calls one collective of ``dist`` (torch.distributed) with the rank's inputs and the arguments in
``call``, and returns the issued call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.distributed.collective_call import CollectiveCall, IssuedCall, Tensors
from conformance.distributed.collective_input_shapes import uneven_row_counts_per_rank

Issue = Callable[[Any, CollectiveCall, Tensors], IssuedCall]


def _group_and_async_op(call: CollectiveCall) -> dict[str, Any]:
    return {"group": call.group, "async_op": call.asynchronous}


def all_reduce(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_reduce``."""
    return IssuedCall(inputs, [dist.all_reduce(inputs[0], op=call.reduce_op, **_group_and_async_op(call))])


def all_reduce_coalesced(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_reduce_coalesced``."""
    return IssuedCall(
        inputs, [dist.all_reduce_coalesced(inputs, op=call.reduce_op, **_group_and_async_op(call))]
    )


def reduce(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.reduce``; only the root has a result."""
    work = dist.reduce(inputs[0], call.ranks[call.root], op=call.reduce_op, **_group_and_async_op(call))
    return IssuedCall(inputs if call.group_rank == call.root else [], [work])


def broadcast(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.broadcast``."""
    return IssuedCall(inputs, [dist.broadcast(inputs[0], call.ranks[call.root], **_group_and_async_op(call))])


def all_gather(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_gather``."""
    outputs = [call.new_result_buffer(inputs[0], *inputs[0].shape) for _ in range(call.group_size)]
    return IssuedCall(outputs, [dist.all_gather(outputs, inputs[0], **_group_and_async_op(call))])


def all_gather_into_tensor(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_gather_into_tensor`` into a tensor that concatenates the inputs of all ranks."""
    output = call.new_result_buffer(inputs[0], call.group_size * inputs[0].shape[0], *inputs[0].shape[1:])
    return IssuedCall([output], [dist.all_gather_into_tensor(output, inputs[0], **_group_and_async_op(call))])


def all_gather_stacked(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_gather_into_tensor`` into a tensor that stacks the inputs along a new first
    dimension.
    """
    output = call.new_result_buffer(inputs[0], call.group_size, *inputs[0].shape)
    return IssuedCall([output], [dist.all_gather_into_tensor(output, inputs[0], **_group_and_async_op(call))])


def reduce_scatter(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.reduce_scatter``."""
    output = call.new_result_buffer(inputs[0], *inputs[0].shape)
    return IssuedCall(
        [output], [dist.reduce_scatter(output, inputs, op=call.reduce_op, **_group_and_async_op(call))]
    )


def reduce_scatter_tensor(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.reduce_scatter_tensor``. The rows of the input are divided equally among the ranks."""
    output = call.new_result_buffer(inputs[0], inputs[0].shape[0] // call.group_size, *inputs[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, inputs[0], op=call.reduce_op, **_group_and_async_op(call))
    return IssuedCall([output], [work])


def reduce_scatter_stacked(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.reduce_scatter_tensor``. The first dimension of the input has one index for each rank."""
    output = call.new_result_buffer(inputs[0], *inputs[0].shape[1:])
    work = dist.reduce_scatter_tensor(output, inputs[0], op=call.reduce_op, **_group_and_async_op(call))
    return IssuedCall([output], [work])


def all_to_all(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_to_all``."""
    outputs = [call.new_result_buffer(tensor, *tensor.shape) for tensor in inputs]
    return IssuedCall(outputs, [dist.all_to_all(outputs, inputs, **_group_and_async_op(call))])


def all_to_all_single(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_to_all_single`` with the same number of rows for each rank."""
    output = call.new_result_buffer(inputs[0], *inputs[0].shape)
    return IssuedCall([output], [dist.all_to_all_single(output, inputs[0], **_group_and_async_op(call))])


def all_to_all_uneven(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.all_to_all_single`` with different numbers of rows for the ranks."""
    sent = uneven_row_counts_per_rank(call.group_rank, call.group_size)
    received = [
        uneven_row_counts_per_rank(sender, call.group_size)[call.group_rank]
        for sender in range(call.group_size)
    ]
    output = call.new_result_buffer(inputs[0], sum(received), *inputs[0].shape[1:])
    return IssuedCall(
        [output], [dist.all_to_all_single(output, inputs[0], received, sent, **_group_and_async_op(call))]
    )


def gather(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.gather``; only the root has results."""
    outputs = (
        [call.new_result_buffer(inputs[0], *inputs[0].shape) for _ in range(call.group_size)]
        if call.group_rank == call.root
        else None
    )
    work = dist.gather(inputs[0], outputs, call.ranks[call.root], **_group_and_async_op(call))
    return IssuedCall(outputs or [], [work])


def scatter(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Issue ``dist.scatter``."""
    output = call.new_result_buffer(inputs[0], *inputs[0].shape)
    parts = inputs if call.group_rank == call.root else None
    return IssuedCall(
        [output], [dist.scatter(output, parts, call.ranks[call.root], **_group_and_async_op(call))]
    )


def send_around_ring(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Send to the right neighbour with ``dist.isend`` and receive from the left neighbour with
    ``dist.irecv``.

    Ranks at even positions send first, except the last rank of a ring with an odd number of ranks. A backend
    that connects two ranks at a time therefore never deadlocks.
    """
    to, source = (
        call.ranks[(call.group_rank + 1) % call.group_size],
        call.ranks[(call.group_rank - 1) % call.group_size],
    )
    output = call.new_result_buffer(inputs[0], *inputs[0].shape)
    if call.group_size == 1:
        return IssuedCall([output.copy_(inputs[0])], [])

    def send() -> Any:
        return dist.isend(inputs[0], to, group=call.group)

    def receive() -> Any:
        return dist.irecv(output, source, group=call.group)

    first, second = (send, receive) if call.group_rank % 2 == 0 else (receive, send)
    if call.group_rank == call.group_size - 1 and call.group_size % 2:
        first, second = receive, send
    return IssuedCall([output], [first(), second()])


def exchange_in_pairs(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Exchange tensors between two partners by ``dist.send`` and ``dist.recv``. The rank at the even position
    sends first.
    """
    output = call.new_result_buffer(inputs[0], *inputs[0].shape)
    partner = call.ranks[call.group_rank ^ 1] if call.group_rank ^ 1 < call.group_size else None
    if partner is None:
        output.copy_(inputs[0])
    elif call.group_rank % 2 == 0:
        dist.send(inputs[0], partner, group=call.group)
        dist.recv(output, partner, group=call.group)
    else:
        dist.recv(output, partner, group=call.group)
        dist.send(inputs[0], partner, group=call.group)
    return IssuedCall([output], [])


def send_around_ring_in_batch(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
    """Send to the right neighbour and receive from the left neighbour in one ``dist.batch_isend_irecv``."""
    output = call.new_result_buffer(inputs[0], *inputs[0].shape)
    if call.group_size == 1:
        return IssuedCall([output.copy_(inputs[0])], [])
    to, source = (
        call.ranks[(call.group_rank + 1) % call.group_size],
        call.ranks[(call.group_rank - 1) % call.group_size],
    )
    operations = [
        dist.P2POp(dist.isend, inputs[0], to, group=call.group),
        dist.P2POp(dist.irecv, output, source, group=call.group),
    ]
    return IssuedCall([output], list(dist.batch_isend_irecv(operations)))


def _wait_for_functional_tensor(functional: Any, tensor: torch.Tensor) -> torch.Tensor:
    waited: torch.Tensor = functional.wait_tensor(tensor)
    return waited


def functional_collective_issuer(name: str) -> Issue:
    """Return the function that issues a collective of ``torch.distributed._functional_collectives``, which
    returns new tensors.
    """

    def issue(dist: Any, call: CollectiveCall, inputs: Tensors) -> IssuedCall:
        import torch.distributed._functional_collectives as functional

        group = call.group if call.group is not None else dist.group.WORLD
        if name == "all_reduce":
            output = functional.all_reduce(inputs[0], call.reduction, group)
        elif name == "all_gather_tensor":
            output = functional.all_gather_tensor(inputs[0], 0, group)
        elif name == "reduce_scatter_tensor":
            output = functional.reduce_scatter_tensor(inputs[0], call.reduction, 0, group)
        elif name == "broadcast":
            output = functional.broadcast(inputs[0], call.root, group)
        elif name == "all_to_all_single":
            output = functional.all_to_all_single(inputs[0], None, None, group)
        else:
            assert name == "all_reduce_coalesced"
            outputs = functional.all_reduce_coalesced(inputs, call.reduction, group)
            return IssuedCall([_wait_for_functional_tensor(functional, tensor) for tensor in outputs], [])
        return IssuedCall([_wait_for_functional_tensor(functional, output)], [])

    return issue
