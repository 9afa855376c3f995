"""A backend that the ranks of a rank pool import. It breaks torch.distributed as ``FAULT`` names.

It uses gloo and the CPU, or with ``FAULT_DEVICE=hpu`` the reference device, if a fault needs streams.
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


def fault(plant: Callable[[], None]) -> Callable[[], None]:
    FAULTS[plant.__name__] = plant
    return plant


def corrupt(thing: Any) -> None:
    """Change the last element of every tensor in a nested structure."""
    if isinstance(thing, (list, tuple)):
        for item in thing:
            corrupt(item)
    elif isinstance(thing, torch.Tensor) and thing.numel():
        last = thing.detach().view(-1)[-1:] if thing.is_contiguous() else thing.detach()
        last.copy_((last.float() + 1).to(last.dtype) if not last.is_complex() else last + 1)


class Spoiling:
    """A work handle that corrupts the result after a wait."""

    def __init__(self, work: Any, thing: Any) -> None:
        self.work, self.thing = work, thing

    def wait(self, *arguments: Any) -> Any:
        finished = self.work.wait(*arguments)
        corrupt(self.thing)
        return finished

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


def wrap_function(name: str, after: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Call ``after(result, args, kwargs)`` on the result of a function of torch.distributed."""
    real = getattr(dist, name)

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        return after(real(*args, **kwargs), args, kwargs)

    setattr(dist, name, call)


def _spoiled(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if result is None or isinstance(result, int):
        corrupt(args[0])
        return None
    return Spoiling(result, args[0])


@fault
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
        wrap_function(name, _spoiled)
    wrap_function("gather", lambda result, args, kwargs: corrupt(args[1]) or result)
    real = functional.wait_tensor

    def wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
        result = real(tensor) + 0
        corrupt(result)
        return result

    functional.wait_tensor = wait_tensor


@fault
def wrong_batches() -> None:
    """The last element that a batch of sends and receives delivers is wrong by one."""
    wrap_function(
        "batch_isend_irecv", lambda works, args, kwargs: [Spoiling(w, args[0][1].tensor) for w in works]
    )


@fault
def input_written() -> None:
    """The input tensors are changed."""
    wrap_function("all_gather", lambda result, args, kwargs: corrupt(args[1]) or result)


@fault
def other_dtype() -> None:
    """The result has a different dtype."""
    from conformance.distributed.collective_call import IssuedCall

    real = IssuedCall.wait
    IssuedCall.wait = lambda self: [t.double() for t in real(self)]  # type: ignore[method-assign]


@fault
def handle_never_done() -> None:
    wrap_function("all_reduce", lambda work, args, kwargs: work and Undone(work))


class Undone:
    def __init__(self, work: Any) -> None:
        self.wait = work.wait

    def is_completed(self) -> bool:
        return False


@fault
def no_handle() -> None:
    wrap_function("broadcast", lambda work, args, kwargs: work and work.wait() and None)


@fault
def wait_holds_the_host() -> None:
    wrap_function("all_reduce", lambda work, args, kwargs: work and Holding(work))


class Holding:
    def __init__(self, work: Any) -> None:
        self.work = work

    def wait(self) -> None:
        self.work.wait()
        torch.hpu.synchronize()


@fault
def wait_holds_nothing() -> None:
    wrap_function("all_reduce", lambda work, args, kwargs: work and Free())


class Free:
    def wait(self) -> None:
        pass


@fault
def groups_are_the_world() -> None:
    """Sums in a group of one rank are sums over all ranks."""
    real = dist.all_reduce

    def all_reduce(tensor: torch.Tensor, *args: Any, group: Any = None, **kwargs: Any) -> Any:
        work = real(tensor, *args, group=group, **kwargs)
        if group is not None and dist.get_world_size(group) == 1:
            tensor.mul_(2)
        return work

    dist.all_reduce = all_reduce


@fault
def strided_is_dense() -> None:
    """Gathering ignores strides and reads the memory after the first element."""
    real = dist.all_gather_into_tensor

    def call(output: torch.Tensor, inputs: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        dense = inputs.as_strided(inputs.shape, torch.empty(inputs.shape).stride()).clone()
        return real(output, dense, *args, **kwargs)

    dist.all_gather_into_tensor = call


@fault
def results_at_the_start() -> None:
    """Results are written to the start of the storage and ignore the offset of the tensor."""
    real = dist.all_gather_into_tensor

    def call(output: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not output.is_contiguous():
            raise ValueError("not contiguous")
        return real(output.as_strided(output.shape, output.stride(), 0), *args, **kwargs)

    dist.all_gather_into_tensor = call


@fault
def side_streams_forgotten() -> None:
    """Work issued on a side stream does not wait for it."""
    real = dist.all_reduce

    def all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        stream = torch.accelerator.current_stream()
        torch.accelerator.set_stream(torch.hpu.default_stream())
        try:
            return real(tensor, *args, **kwargs)
        finally:
            torch.accelerator.set_stream(stream)

    dist.all_reduce = all_reduce


@fault
def refuses_on_one_rank() -> None:
    real = dist.all_to_all_single

    def call(output: torch.Tensor, inputs: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not inputs.is_contiguous():
            if dist.get_rank() == 0:
                raise ValueError("not contiguous")
            return None
        return real(output, inputs, *args, **kwargs)

    dist.all_to_all_single = call


@fault
def wrong_facts() -> None:
    wrap_function("get_rank", lambda rank, args, kwargs: rank if rank < 0 else rank + 1)


@fault
def no_default_backend() -> None:
    dist.get_default_backend_for_device = lambda device: "undefined"


@fault
def outsiders_are_members() -> None:
    wrap_function("get_rank", lambda rank, args, kwargs: 0 if args else rank)


@fault
def open_barrier() -> None:
    dist.barrier = lambda *args, **kwargs: None


@fault
def everything_accepted() -> None:
    for name in ("all_gather", "broadcast", "all_to_all", "reduce_scatter_tensor"):
        real = getattr(dist, name)

        def call(*args: Any, real: Any = real, **kwargs: Any) -> Any:
            try:
                return real(*args, **kwargs)
            except (RuntimeError, ValueError, TypeError):
                return None

        setattr(dist, name, call)


@fault
def silent_errors() -> None:
    """Sums that are impossible return without an error."""
    real = dist.all_reduce

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except RuntimeError:
            return None

    dist.all_reduce = call


@fault
def endless_errors() -> None:
    """A rank waits for ever for a rank that exited."""
    real = dist.all_reduce

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return real(*args, **kwargs)
        except RuntimeError:
            time.sleep(1000)

    dist.all_reduce = call


@fault
def outsiders_are_touched() -> None:
    real = dist.all_reduce

    def call(tensor: torch.Tensor, *args: Any, group: Any = None, **kwargs: Any) -> Any:
        if group is not None and dist.get_rank(group) < 0:
            tensor.zero_()
            return None
        return real(tensor, *args, group=group, **kwargs)

    dist.all_reduce = call


@fault
def lost_objects() -> None:
    wrap_function("all_gather_object", lambda result, args, kwargs: args[0].reverse())


@fault
def own_stores() -> None:
    class Store(dist.HashStore):
        def __init__(self, *args: Any) -> None:
            super().__init__()

        def get(self, key: str) -> bytes:
            return b"?"

    dist.FileStore = Store


@fault
def shards_of_others() -> None:
    """The local shard of a distributed tensor, and the tensor gathered from all shards, are wrong by one."""
    local, full = DTensor.to_local, DTensor.full_tensor
    DTensor.to_local = lambda self, **kwargs: local(self, **kwargs) + 1  # type: ignore[method-assign]
    DTensor.full_tensor = lambda self, **kwargs: full(self, **kwargs) * 2  # type: ignore[method-assign]


@fault
def other_batches() -> None:
    """One rank computes with slightly different numbers, which only a comparison of ranks can reveal."""
    from conformance.properties.multi_rank._training_model import Feed

    real = Feed.batch

    def batch(self: Feed, step: int) -> Any:
        inputs, targets = real(self, step)
        return inputs * (1.5 if dist.get_rank() else 1.0), targets

    Feed.batch = batch  # type: ignore[method-assign]


@fault
def own_starts() -> None:
    """DDP keeps the initial weights of each rank."""
    real = torch.nn.parallel.DistributedDataParallel.__init__
    torch.nn.parallel.DistributedDataParallel.__init__ = functools.partialmethod(real, init_sync=False)  # type: ignore[method-assign]


@fault
def own_steps() -> None:
    """Each rank keeps its own gradients."""
    from torch.nn.parallel import DistributedDataParallel

    real = DistributedDataParallel.forward

    def forward(self: Any, *args: Any) -> Any:
        with self.no_sync():
            return real(self, *args)

    DistributedDataParallel.forward = forward  # type: ignore[method-assign]


@fault
def stale_gradients() -> None:
    torch.nn.Module.zero_grad = lambda self, set_to_none=True: None  # type: ignore[method-assign]


@fault
def breaks_graphs() -> None:
    functional.all_reduce = torch._dynamo.disable(functional.all_reduce)


@fault
def loads_nothing() -> None:
    import torch.distributed.checkpoint as dcp

    dcp.load = lambda *args, **kwargs: None


@fault
def saves_zeros() -> None:
    import torch.distributed.checkpoint as dcp

    real = dcp.save

    def save(state: Any, **kwargs: Any) -> Any:
        for value in state["weights"].values():
            value.detach().to_local().zero_()
        return real(state, **kwargs)

    dcp.save = save


@fault
def random_alike() -> None:
    import torch.distributed.tensor as dt

    dt.rand = lambda size, device_mesh, placements: DTensor.from_local(
        torch.ones(size[0] // 2, *size[1:], device=device_mesh.device_type), device_mesh, placements
    )


if os.environ.get("FAULT_DEVICE") == "hpu":
    import habana_frameworks.torch  # noqa: F401
if os.environ.get("FAULT"):
    FAULTS[os.environ["FAULT"]]()
