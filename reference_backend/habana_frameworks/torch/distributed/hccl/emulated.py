"""Emulated peers: with ``PT_HPU_EMULATE_DISTRIBUTED=1``, one rank of a job of any size runs alone.

``PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK=1`` has the same effect for a process to which no launcher assigned a
rank. The process is then rank 0.

The process does not wait for other processes, not even at the start. A backend other than hccl raises an
error at the start; a later group with another backend (`torch.distributed.new_group`) waits for its peers.

A collective uses only the data of this rank: it gathers copies of its own part, reduces its own value, and
leaves received tensors unchanged. Argument checks, ordering with the device's work and timeouts are as for
hccl. Shapes and times of a program can be tested this way; its losses are meaningless.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.patches.wrap_function import replace_function
from habana_frameworks.torch.internal.settings import bridge_config

import torch.distributed as dist
from torch._C import _distributed_c10d

from .launch import initialize_distributed_hpu

_waits_for_none = False


def is_emulated() -> bool:
    """Return whether ``PT_HPU_EMULATE_DISTRIBUTED`` or its ``_SINGLE_RANK`` variant is set."""
    return bool(bridge_config.value_of("PT_HPU_EMULATE_DISTRIBUTED")) or _is_single_rank_requested()


def _is_single_rank_requested() -> bool:
    """Return whether the ``_SINGLE_RANK`` variant is set, which makes this process rank 0."""
    return bool(bridge_config.value_of("PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK"))


def emulated_transport(rank: int, size: int) -> Any:
    """Return a transport that copies this rank's data to itself, in place of gloo.

    Raises:
        RuntimeError: this build of torch does not have the transport.
    """
    fake = getattr(_distributed_c10d, "FakeProcessGroup", None)
    if fake is None:
        raise RuntimeError(
            "PT_HPU_EMULATE_DISTRIBUTED needs torch's FakeProcessGroup, which this build does not have. "
            "Unset the variable."
        )
    if hasattr(fake, "_create_internal"):
        return fake._create_internal(rank, size, fake.Options())
    return fake(rank, size)


def write_peer_entries(store: Any, rank: int, size: int) -> None:
    """Write a store entry for each peer: the peer shares no memory. The first collective reads them."""
    for peer in range(size):
        if peer != rank:
            store.set(f"shared/surroundings/{peer}", "none")


def start_without_peers() -> None:
    """Make `torch.distributed.init_process_group` not wait for peers while they are emulated."""
    global _waits_for_none
    if is_emulated() and not _waits_for_none:
        _waits_for_none = True
        replace_function(dist, "init_process_group", _wrap_init_process_group)


def _wrap_init_process_group(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        if not is_emulated():
            original(backend, *args, **kwargs)
            return
        arguments = signature.bind(backend or "hccl", *args, **kwargs).arguments
        if str(arguments["backend"]) not in ("hccl", "hpu:hccl"):
            raise ValueError(
                f"PT_HPU_EMULATE_DISTRIBUTED emulates the peers of hccl, but {arguments['backend']!r} would "
                "wait for its peers. Use backend='hccl', or unset the variable."
            )
        arguments.pop("init_method", None)
        sizes = {name: arguments[name] for name in ("world_size", "rank") if arguments.get(name, -1) >= 0}
        if _is_single_rank_requested():
            sizes["rank"] = 0
        size, rank, _ = initialize_distributed_hpu(**sizes)
        arguments.update(store=_distributed_c10d.HashStore(), world_size=size, rank=max(rank, 0))
        original(**arguments)

    return init_process_group
