"""A backend module that the ranks of a rank pool import. It injects a fault into torch.distributed. The
environment variable ``FAULT`` names the fault.

The ranks use gloo and the CPU. If a fault needs streams, ``FAULT_DEVICE=hpu`` selects the reference device.
The docstring of each fault function describes the faulty device.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.tensor import DTensor

FAULTS: dict[str, Callable[[], None]] = {}


def register_fault(inject: Callable[[], None]) -> Callable[[], None]:
    FAULTS[inject.__name__] = inject
    return inject


def change_last_elements(tensors: Any) -> None:
    """Change tensors in nested lists: the last element of each contiguous tensor, and all elements of any
    other tensor.
    """
    if isinstance(tensors, (list, tuple)):
        for item in tensors:
            change_last_elements(item)
    elif isinstance(tensors, torch.Tensor) and tensors.numel():
        last = tensors.detach().view(-1)[-1:] if tensors.is_contiguous() else tensors.detach()
        last.copy_((last.float() + 1).to(last.dtype) if not last.is_complex() else last + 1)


class WorkWithWrongResult:
    """A work handle whose ``wait`` changes the result tensors after waiting."""

    def __init__(self, work: Any, result_tensors: Any) -> None:
        self.work, self.result_tensors = work, result_tensors

    def wait(self, *arguments: Any) -> Any:
        finished = self.work.wait(*arguments)
        change_last_elements(self.result_tensors)
        return finished

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


def replace_result_of(name: str, after: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Replace a function of torch.distributed by one that returns ``after(result, args, kwargs)``."""
    real = getattr(dist, name)

    @functools.wraps(real)
    def faulty_call(*args: Any, **kwargs: Any) -> Any:
        return after(real(*args, **kwargs), args, kwargs)

    setattr(dist, name, faulty_call)


def _make_result_wrong(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if result is None or isinstance(result, int):
        change_last_elements(args[0])
        return None
    return WorkWithWrongResult(result, args[0])


@register_fault
def wrong_values() -> None:
    """The last element of each result is wrong by one."""
    for name in (
        *(
            "all_reduce",
            "all_reduce_coalesced",
            "reduce",
            "broadcast",
            "all_gather",
            "all_gather_into_tensor",
        ),
        *("reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "scatter"),
        *("irecv", "recv"),
    ):
        replace_result_of(name, _make_result_wrong)
    replace_result_of("gather", lambda result, args, kwargs: change_last_elements(args[1]) or result)
    real = functional.wait_tensor

    def wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
        result = real(tensor) + 0
        change_last_elements(result)
        return result

    functional.wait_tensor = wait_tensor


@register_fault
def wrong_batch_isend_irecv() -> None:
    """The last element that batch_isend_irecv receives is wrong by one."""
    replace_result_of(
        "batch_isend_irecv",
        lambda works, args, kwargs: [WorkWithWrongResult(w, args[0][1].tensor) for w in works],
    )


@register_fault
def all_gather_changes_input() -> None:
    """all_gather changes its input tensor."""
    replace_result_of("all_gather", lambda result, args, kwargs: change_last_elements(args[1]) or result)


@register_fault
def wrong_result_dtype() -> None:
    """The result has a different dtype."""
    from conformance.distributed.collective_call import IssuedCall

    real = IssuedCall.wait
    IssuedCall.wait = lambda self: [t.double() for t in real(self)]  # type: ignore[method-assign]


@register_fault
def work_never_completed() -> None:
    replace_result_of("all_reduce", lambda work, args, kwargs: work and WorkNeverCompleted(work))


class WorkNeverCompleted:
    def __init__(self, work: Any) -> None:
        self.wait = work.wait

    def is_completed(self) -> bool:
        return False


@register_fault
def broadcast_returns_no_work() -> None:
    replace_result_of("broadcast", lambda work, args, kwargs: work and work.wait() and None)


@register_fault
def wait_blocks_host() -> None:
    replace_result_of("all_reduce", lambda work, args, kwargs: work and WorkBlockingHost(work))


class WorkBlockingHost:
    def __init__(self, work: Any) -> None:
        self.work = work

    def wait(self) -> None:
        self.work.wait()
        torch.hpu.synchronize()


@register_fault
def wait_does_nothing() -> None:
    replace_result_of("all_reduce", lambda work, args, kwargs: work and WorkWithoutWait())


class WorkWithoutWait:
    def wait(self) -> None:
        pass


@register_fault
def subgroup_reduces_over_all_ranks() -> None:
    """all_reduce in a group of one rank returns the sum over all ranks."""
    real = dist.all_reduce

    def all_reduce(tensor: torch.Tensor, *args: Any, group: Any = None, **kwargs: Any) -> Any:
        work = real(tensor, *args, group=group, **kwargs)
        if group is not None and dist.get_world_size(group) == 1:
            tensor.mul_(2)
        return work

    dist.all_reduce = all_reduce


@register_fault
def strided_input_read_as_dense() -> None:
    """The gathered input is read as if it were contiguous."""
    real = dist.all_gather_into_tensor

    def faulty_call(output: torch.Tensor, inputs: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        dense = inputs.as_strided(inputs.shape, torch.empty(inputs.shape).stride()).clone()
        return real(output, dense, *args, **kwargs)

    dist.all_gather_into_tensor = faulty_call


@register_fault
def result_storage_offset_ignored() -> None:
    """Results are written to the start of the storage instead of the tensor's storage offset."""
    real = dist.all_gather_into_tensor

    def faulty_call(output: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not output.is_contiguous():
            raise ValueError("not contiguous")
        return real(output.as_strided(output.shape, output.stride(), 0), *args, **kwargs)

    dist.all_gather_into_tensor = faulty_call


@register_fault
def side_streams_not_awaited() -> None:
    """A collective that is issued on a side stream does not wait for earlier work of this stream."""
    real = dist.all_reduce

    def all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        stream = torch.accelerator.current_stream()
        torch.accelerator.set_stream(torch.hpu.default_stream())
        try:
            return real(tensor, *args, **kwargs)
        finally:
            torch.accelerator.set_stream(stream)

    dist.all_reduce = all_reduce


@register_fault
def error_on_one_rank_only() -> None:
    real = dist.all_to_all_single

    def faulty_call(output: torch.Tensor, inputs: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not inputs.is_contiguous():
            if dist.get_rank() == 0:
                raise ValueError("not contiguous")
            return None
        return real(output, inputs, *args, **kwargs)

    dist.all_to_all_single = faulty_call


@register_fault
def wrong_rank_numbers() -> None:
    replace_result_of("get_rank", lambda rank, args, kwargs: rank if rank < 0 else rank + 1)


@register_fault
def no_default_backend() -> None:
    dist.get_default_backend_for_device = lambda device: "undefined"


@register_fault
def non_members_have_a_rank() -> None:
    replace_result_of("get_rank", lambda rank, args, kwargs: 0 if args else rank)


@register_fault
def barrier_does_not_wait() -> None:
    dist.barrier = lambda *args, **kwargs: None


@register_fault
def invalid_arguments_accepted() -> None:
    for name in ("all_gather", "broadcast", "all_to_all", "reduce_scatter_tensor"):
        real = getattr(dist, name)

        def faulty_call(*args: Any, real: Any = real, **kwargs: Any) -> Any:
            try:
                return real(*args, **kwargs)
            except (RuntimeError, ValueError, TypeError):
                return None

        setattr(dist, name, faulty_call)


@register_fault
def all_reduce_errors_swallowed() -> None:
    """An all_reduce that must fail returns without an error."""
    real = dist.all_reduce

    def faulty_call(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except RuntimeError:
            return None

    dist.all_reduce = faulty_call


@register_fault
def all_reduce_hangs_instead_of_error() -> None:
    """An all_reduce that should raise an error sleeps for 1000 seconds instead."""
    real = dist.all_reduce

    def faulty_call(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except RuntimeError:
            time.sleep(1000)

    dist.all_reduce = faulty_call


@register_fault
def non_member_tensors_zeroed() -> None:
    real = dist.all_reduce

    def faulty_call(tensor: torch.Tensor, *args: Any, group: Any = None, **kwargs: Any) -> Any:
        if group is not None and dist.get_rank(group) < 0:
            tensor.zero_()
            return None
        return real(tensor, *args, group=group, **kwargs)

    dist.all_reduce = faulty_call


@register_fault
def gathered_objects_reversed() -> None:
    replace_result_of("all_gather_object", lambda result, args, kwargs: args[0].reverse())


@register_fault
def store_not_shared() -> None:
    class Store(dist.HashStore):
        def __init__(self, *args: Any) -> None:
            super().__init__()

        def get(self, key: str) -> bytes:
            return b"?"

    dist.FileStore = Store


@register_fault
def wrong_shard_values() -> None:
    """The local shard of a distributed tensor, and the tensor gathered from all shards, are wrong by one."""
    local, full = DTensor.to_local, DTensor.full_tensor
    DTensor.to_local = lambda self, **kwargs: local(self, **kwargs) + 1  # type: ignore[method-assign]
    DTensor.full_tensor = lambda self, **kwargs: full(self, **kwargs) * 2  # type: ignore[method-assign]


@register_fault
def batches_scaled_on_other_ranks() -> None:
    """All ranks but the first train on different inputs."""
    from conformance.properties.multi_rank._training_model import BatchSource

    real = BatchSource.batch

    def batch(self: BatchSource, step: int) -> Any:
        inputs, targets = real(self, step)
        return inputs * (1.5 if dist.get_rank() else 1.0), targets

    BatchSource.batch = batch  # type: ignore[method-assign]


@register_fault
def ddp_keeps_initial_weights() -> None:
    """DDP keeps the initial weights of each rank."""
    real = torch.nn.parallel.DistributedDataParallel.__init__
    torch.nn.parallel.DistributedDataParallel.__init__ = functools.partialmethod(real, init_sync=False)  # type: ignore[method-assign]


@register_fault
def ddp_skips_gradient_reduction() -> None:
    """DDP does not reduce gradients over the ranks."""
    from torch.nn.parallel import DistributedDataParallel

    real = DistributedDataParallel.forward

    def forward(self: Any, *args: Any) -> Any:
        with self.no_sync():
            return real(self, *args)

    DistributedDataParallel.forward = forward  # type: ignore[method-assign]


@register_fault
def zero_grad_does_nothing() -> None:
    torch.nn.Module.zero_grad = lambda self, set_to_none=True: None  # type: ignore[method-assign]


@register_fault
def functional_all_reduce_breaks_graph() -> None:
    functional.all_reduce = torch._dynamo.disable(functional.all_reduce)


@register_fault
def checkpoint_load_does_nothing() -> None:
    import torch.distributed.checkpoint as dcp

    dcp.load = lambda *args, **kwargs: None


@register_fault
def checkpoint_saves_zeros() -> None:
    import torch.distributed.checkpoint as dcp

    real = dcp.save

    def save(state: Any, **kwargs: Any) -> Any:
        for value in state["weights"].values():
            value.detach().to_local().zero_()
        return real(state, **kwargs)

    dcp.save = save


@register_fault
def dtensor_rand_returns_ones() -> None:
    import torch.distributed.tensor as dt

    dt.rand = lambda size, device_mesh, placements: DTensor.from_local(
        torch.ones(size[0] // 2, *size[1:], device=device_mesh.device_type), device_mesh, placements
    )


if os.environ.get("FAULT_DEVICE") == "hpu":
    import habana_frameworks.torch  # noqa: F401
if os.environ.get("FAULT"):
    FAULTS[os.environ["FAULT"]]()
