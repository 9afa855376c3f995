"""Emulated peers: with ``PT_HPU_EMULATE_DISTRIBUTED=1``, one rank of a job of any size runs alone.

``PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK=1`` has the same effect and makes the process rank 0, so that no
launcher needs to assign a rank.

The process does not wait for other processes, not even in `torch.distributed.init_process_group`. That
function raises an error if the backend is not hccl. A group of another backend that is created later with
`torch.distributed.new_group` is not emulated and waits for its peers.

A collective uses only the data of this rank. A gather returns copies of this rank's part, a reduction returns
this rank's value, and a receive leaves its tensor unchanged. Argument checks, stream order and timeouts are
as for hccl. Shapes and times of a program can be tested in this way, but its losses are meaningless.
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


def fake_process_group(rank: int, size: int) -> Any:
    """Return torch's FakeProcessGroup, which replaces gloo and copies this rank's data to itself.

    Raises:
        RuntimeError: this build of torch does not have the class FakeProcessGroup.
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
    """Write a store entry for each peer, which says that the peer shares no memory with this process.

    The first collective of the group reads these entries.
    """
    for peer in range(size):
        if peer != rank:
            store.set(f"shared/surroundings/{peer}", "none")


def patch_init_process_group() -> None:
    """Patch `torch.distributed.init_process_group` so that it does not wait for emulated peers."""
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
