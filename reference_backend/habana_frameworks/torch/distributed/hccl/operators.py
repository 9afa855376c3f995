"""Collectives as operators of ``torch.ops.hccl``, which identify a process group by a number.

A process numbers its hccl groups in the order of their creation; the default group has the number 0. As with
`torch.distributed`, collectives run in the order of the current stream, and the host does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, DISPATCH_KEY

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

_SCHEMAS = """\
allgather_out(Tensor input_tensor, int comm_id, Tensor(a!) output_tensor) -> Tensor(a!)
allreduce_(Tensor(a!) tensor, int reduceOp, int comm_id) -> Tensor(a!)
alltoall_out(Tensor input_tensor, int comm_id, int[] outputSplitSizes, int[] inputSplitSizes, \
Tensor(a!) output_tensor) -> Tensor(a!)
broadcast_(Tensor(a!) tensor, int root_rank, int comm_id) -> Tensor(a!)
recv_(Tensor(a!) tensor, int src_rank, int tag, int comm_id) -> Tensor(a!)
reduce_(Tensor(a!) tensor, int dst_rank, int reduceOp, int comm_id) -> Tensor(a!)
reduce_scatter_out(Tensor input_tensor, int reduceOp, int comm_id, Tensor(a!) output_tensor) -> Tensor(a!)
send_(Tensor(a!) tensor, int dst_rank, int tag, int comm_id) -> Tensor(a!)
"""

#: Names of the process groups. The index of a name is the number of the group.
_groups: list[str] = []
_libraries: list[torch.library.Library] = []


def assign_comm_id(group: str) -> None:
    """Assign the next number to the process group with this name."""
    _groups.append(group)


def reset_comm_ids() -> None:
    """Remove the numbers of all process groups, before a new default process group is created."""
    _groups.clear()


def comm_id(group: dist.ProcessGroup | None = None) -> int:
    """Return the number of a process group, by default of the default process group.

    Raises:
        ValueError: the group has no hccl backend.
    """
    name = (group if group is not None else dist.distributed_c10d._get_default_group()).group_name
    if name not in _groups:
        raise ValueError(f"the process group {name!r} has no hccl backend. Create it with backend='hccl'.")
    return _groups.index(name)


def _backend_of_comm_id(comm_id: int) -> Any:
    if not 0 <= comm_id < len(_groups):
        raise RuntimeError(
            f"hccl group {comm_id} does not exist. Use a number that distributed.hccl.operators.comm_id "
            "returned."
        )
    group = c10d._resolve_process_group(_groups[comm_id])  # type: ignore[arg-type]
    return group._get_backend(torch.device(DEVICE_TYPE))


def _reduce_op_of_number(number: int) -> Any:
    """Return the ``ReduceOp`` with the given number in the enumeration ``ReduceOp.RedOpType``."""
    return dist.ReduceOp(dist.ReduceOp.RedOpType(number))


def allgather_out(input_tensor: torch.Tensor, comm_id: int, output_tensor: torch.Tensor) -> torch.Tensor:
    """Concatenate the input tensors of all ranks in the output tensor, and return the output tensor."""
    _backend_of_comm_id(comm_id)._allgather_base(output_tensor, input_tensor, c10d.AllgatherOptions()).wait()
    return output_tensor


def allreduce_(tensor: torch.Tensor, reduceOp: int, comm_id: int) -> torch.Tensor:
    """Reduce the tensors of all ranks in place, with the result on each rank."""
    options = c10d.AllreduceOptions()
    options.reduceOp = _reduce_op_of_number(reduceOp)
    _backend_of_comm_id(comm_id).allreduce([tensor], options).wait()
    return tensor


def alltoall_out(
    input_tensor: torch.Tensor,
    comm_id: int,
    outputSplitSizes: Sequence[int],
    inputSplitSizes: Sequence[int],
    output_tensor: torch.Tensor,
) -> torch.Tensor:
    """Send each rank its part of the input. Empty lists of split sizes mean parts of equal size."""
    _backend_of_comm_id(comm_id).alltoall_base(
        output_tensor, input_tensor, list(outputSplitSizes), list(inputSplitSizes), c10d.AllToAllOptions()
    ).wait()
    return output_tensor


def broadcast_(tensor: torch.Tensor, root_rank: int, comm_id: int) -> torch.Tensor:
    """Copy the tensor of the root rank to all ranks."""
    options = c10d.BroadcastOptions()
    options.rootRank, options.rootTensor = root_rank, 0
    _backend_of_comm_id(comm_id).broadcast([tensor], options).wait()
    return tensor


def recv_(tensor: torch.Tensor, src_rank: int, tag: int, comm_id: int) -> torch.Tensor:
    """Receive a tensor from a rank."""
    _backend_of_comm_id(comm_id).recv([tensor], src_rank, tag).wait()
    return tensor


def reduce_(tensor: torch.Tensor, dst_rank: int, reduceOp: int, comm_id: int) -> torch.Tensor:
    """Reduce the tensors of all ranks, with the result on the destination rank."""
    options = c10d.ReduceOptions()
    options.rootRank, options.reduceOp = dst_rank, _reduce_op_of_number(reduceOp)
    _backend_of_comm_id(comm_id).reduce([tensor], options).wait()
    return tensor


def reduce_scatter_out(
    input_tensor: torch.Tensor, reduceOp: int, comm_id: int, output_tensor: torch.Tensor
) -> torch.Tensor:
    """Reduce the tensors of all ranks, with one part of the result on each rank."""
    options = c10d.ReduceScatterOptions()
    options.reduceOp = _reduce_op_of_number(reduceOp)
    _backend_of_comm_id(comm_id)._reduce_scatter_base(output_tensor, input_tensor, options).wait()
    return output_tensor


def send_(tensor: torch.Tensor, dst_rank: int, tag: int, comm_id: int) -> torch.Tensor:
    """Send a tensor to a rank."""
    _backend_of_comm_id(comm_id).send([tensor], dst_rank, tag).wait()
    return tensor


_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    function.__name__: function
    for function in (
        *(allgather_out, allreduce_, alltoall_out, broadcast_),
        *(recv_, reduce_, reduce_scatter_out, send_),
    )
}


def register_hccl_operators() -> None:
    """Define the operators of ``torch.ops.hccl``. A second call does nothing."""
    if _libraries:
        return
    library = torch.library.Library("hccl", "FRAGMENT")
    _libraries.append(library)
    for schema in _SCHEMAS.splitlines():
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, _KERNELS[name], DISPATCH_KEY)
        library.impl(name, _meta_kernel(name), "Meta")


def _meta_kernel(name: str) -> Callable[..., torch.Tensor]:
    """Return the Meta kernel of an operator: a function that returns the tensor that the operator writes."""
    if name.endswith("_out"):
        return lambda *arguments: arguments[-1]
    return lambda *arguments: arguments[0]
