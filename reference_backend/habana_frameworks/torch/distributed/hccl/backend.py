"""The process group backend hccl: the core computes the collectives, and gloo transports the data."""

from __future__ import annotations

import functools
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.settings.environment import read_variable

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from . import flight_recorder, operators
from .emulated import fake_process_group, is_emulated, write_peer_entries

NAME = "hccl"

#: Backends that several groups share if ``PT_ENABLE_COMM_GROUP_CACHE=1``, by ranks and timeout of the groups.
#: `create_backend` empties this dict when it creates the default process group.
_communicators: dict[tuple[Any, ...], dist.Backend] = {}


def create_backend(options: Any, backend_options: Any = None) -> dist.Backend:
    """Return the hccl backend of a new process group.

    With ``PT_ENABLE_COMM_GROUP_CACHE=1``, groups with equal ranks and timeout share one backend, which runs
    their collectives in one common order. Otherwise each group has its own backend, as torch requires.

    Args:
        options: torch's `DistributedBackendOptions`: store, rank, size and timeout of the group.
        backend_options: not used; hccl has no options.

    Raises:
        RuntimeError: gloo cannot connect the ranks within the timeout.
    """
    if not dist.is_initialized():  # the new group is the default process group
        _communicators.clear()
        operators.reset_comm_ids()
    ranks = options.global_ranks_in_group or range(options.group_size)  # empty: all ranks
    key = (tuple(ranks), options.timeout)
    operators.assign_comm_id(options.group_id)
    flight_recorder.watch_if_requested()
    if not read_variable("PT_ENABLE_COMM_GROUP_CACHE", "bool", False):
        return _create_connected_backend(options)
    if key not in _communicators:
        _communicators[key] = _create_connected_backend(options)
    return _communicators[key]


def _create_connected_backend(options: Any) -> dist.Backend:
    _apply_environment_flags()
    if is_emulated():
        group = PrefixStore(NAME, options.store)
        write_peer_entries(group, options.group_rank, options.group_size)
        alone = fake_process_group(options.group_rank, options.group_size)
        emulated: dist.Backend = _C.create_hccl(
            alone, group, options.group_rank, options.group_size, options.timeout
        )
        return emulated
    # The prefix separates gloo's keys in the store from the keys that report missing ranks.
    store = PrefixStore("gloo", options.store)
    gloo = dist.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    hccl: dist.Backend = _C.create_hccl(
        gloo,
        PrefixStore(NAME, options.store),
        options.group_rank,
        options.group_size,
        options.timeout,
        synchronizes_first=bool(read_variable("PT_HPU_USE_PT_STORE_SYNC", "bool", False)),
    )
    return hccl


@functools.cache
def _apply_environment_flags() -> None:
    _C.set_blocking_collectives(
        bool(read_variable("PT_HPU_USE_NW_STREAM_SYNC", "bool", False))
        or bool(read_variable("PT_HPU_DISABLE_ASYNC_COLLECTIVE", "bool", False))
        or not read_variable("PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE", "bool", True)
    )


@functools.cache
def register_hccl_backend() -> None:
    """Register ``backend="hccl"`` with `torch.distributed`, as the backend for hpu."""
    dist.Backend.register_backend(NAME, create_backend, extended_api=True, devices=[DEVICE_TYPE])
