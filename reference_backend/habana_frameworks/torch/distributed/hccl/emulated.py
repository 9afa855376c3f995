"""Ranks without peers: ``PT_HPU_EMULATE_DISTRIBUTED=1`` lets one rank of a job of any size run alone.

``PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK=1`` does the same for a process that no launcher has given a number:
it is rank 0.

No process is waited for, not even to meet. Another backend than hccl is an error at the start; a later group
of one (`torch.distributed.new_group`) waits for its peers.

A collective does what this rank does in it: what it gathers is copies of its own part, what it reduces is its
own value, what it receives stays as it was. The checks of arguments, the order behind the device's work and
the timeouts are those of hccl; shapes and times of a program can be tried, its losses mean nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from habana_frameworks.torch.internal.patches.wrap_function import replace
from habana_frameworks.torch.internal.settings import bridge_config

import torch.distributed as dist
from torch._C import _distributed_c10d

from .launch import initialize_distributed_hpu

_waits_for_none = False


def is_emulated() -> bool:
    """Say whether ``PT_HPU_EMULATE_DISTRIBUTED`` or its ``_SINGLE_RANK`` is set."""
    return bool(bridge_config.value_of("PT_HPU_EMULATE_DISTRIBUTED")) or _is_the_first()


def _is_the_first() -> bool:
    """Say whether the process is rank 0, whatever a launcher says."""
    return bool(bridge_config.value_of("PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK"))


def transport(rank: int, size: int) -> Any:
    """Transport that copies what this rank has to itself, in place of gloo.

    Raises:
        RuntimeError: this build of torch has no such transport.
    """
    fake = getattr(_distributed_c10d, "FakeProcessGroup", None)
    if fake is None:
        raise RuntimeError(
            "PT_HPU_EMULATE_DISTRIBUTED needs torch's FakeProcessGroup, which this build lacks: unset it"
        )
    if hasattr(fake, "_create_internal"):
        return fake._create_internal(rank, size, fake.Options())
    return fake(rank, size)


def answer_for_peers(store: Any, rank: int, size: int) -> None:
    """Write into the group's store what peers write before the first collective: no shared memory."""
    for peer in range(size):
        if peer != rank:
            store.set(f"shared/surroundings/{peer}", "none")


def let_ranks_start_alone() -> None:
    """Make `torch.distributed.init_process_group` wait for no one while ranks are emulated."""
    global _waits_for_none
    if is_emulated() and not _waits_for_none:
        _waits_for_none = True
        replace(dist, "init_process_group", _starting_alone)


def _starting_alone(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        if not is_emulated():
            original(backend, *args, **kwargs)
            return
        given = signature.bind(backend or "hccl", *args, **kwargs).arguments
        if str(given["backend"]) not in ("hccl", "hpu:hccl"):
            raise ValueError(
                f"PT_HPU_EMULATE_DISTRIBUTED runs a rank of hccl alone, and {given['backend']!r} would wait "
                "for its peers: use backend='hccl', or unset the variable"
            )
        given.pop("init_method", None)
        sizes = {name: given[name] for name in ("world_size", "rank") if given.get(name, -1) >= 0}
        if _is_the_first():
            sizes["rank"] = 0
        size, rank, _ = initialize_distributed_hpu(**sizes)
        given.update(store=dist.HashStore(), world_size=size, rank=max(rank, 0))
        original(**given)

    return init_process_group
