"""torch.distributed.checkpoint: what many ranks save, others load."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from conformance.distributed.programs import Rank, program
from conformance.properties.world._common import Bench, together
from conformance.properties.world._training import FLOATS, alone
from conformance.properties.world.fsdp import sharded_twice
from conformance.properties.world.models import Feed, Losses, adam, model, parameters, take_steps

_NEEDS = ("autograd", "serialization")


def state_of(net: Any, optimizer: Any) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, states = get_state_dict(net, optimizer)
    return {"weights": weights, "states": states}


@program
def saves(rank: Rank, dtype: str, folder: str) -> Losses:
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    net = sharded_twice(rank, model(dtype))
    optimizer = adam(net)
    take_steps(net, Feed(rank.device, dtype, rank.rank, rank.size), optimizer=lambda _: optimizer)
    dcp.save(state_of(net, optimizer), checkpoint_id=folder)
    dist.barrier()
    return parameters(net)


@program
def loads(rank: Rank, dtype: str, folder: str) -> Losses:
    """Load into a fresh model, and train on."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    net = sharded_twice(rank, model(dtype))
    optimizer = adam(net)
    state = state_of(net, optimizer)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(net, optimizer, model_state_dict=state["weights"], optim_state_dict=state["states"])
    loaded = {f"loaded {name}": value for name, value in parameters(net).items()}
    take_steps(net, Feed(rank.device, dtype, rank.rank, rank.size), optimizer=lambda _: optimizer)
    return {**loaded, **parameters(net)}


@together("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_all_loaded_by_all(bench: Bench) -> None:
    """Weights and optimizer states that all ranks saved are loaded by all, and training goes on."""
    with tempfile.TemporaryDirectory() as folder:
        saved = bench.values(saves, dtype=bench.dtype, folder=folder)
        found = bench.values(loads, dtype=bench.dtype, folder=folder) if saved is not None else None
    if saved is None or found is None:
        return
    net = model(bench.dtype)
    optimizer = adam(net)
    feed = Feed(torch.device("cpu"), bench.dtype)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    halfway = parameters(net)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    due = {**{f"loaded {name}": value for name, value in halfway.items()}, **parameters(net)}
    for number, answer in enumerate(found):
        bench.close(f"rank {number}", answer, due, roundings=4096.0)


@together("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_all_loaded_by_one(bench: Bench) -> None:
    """What all ranks saved in shards a single process loads into a whole model."""
    import torch.distributed.checkpoint as dcp

    net = model(bench.dtype)
    with tempfile.TemporaryDirectory() as folder:
        saved = bench.values(saves, dtype=bench.dtype, folder=folder)
        if saved is None:
            return
        weights = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
        dcp.load({"weights": weights}, checkpoint_id=folder, no_dist=True)
    due = {n: v for n, v in alone(bench.dtype, optimizer=adam).items() if not n.startswith("loss")}
    bench.close("what one process loaded", weights, due, roundings=4096.0)


@together("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_one_loaded_by_all(bench: Bench) -> None:
    """What a single process saved all ranks load in shards."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net = model(bench.dtype)
    optimizer = adam(net)
    feed = Feed(torch.device("cpu"), bench.dtype)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    with tempfile.TemporaryDirectory() as folder:
        weights, states = get_state_dict(net, optimizer)
        dcp.save({"weights": weights, "states": states}, checkpoint_id=folder, no_dist=True)
        halfway = parameters(net)
        found = bench.values(loads, dtype=bench.dtype, folder=folder)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    due = {**{f"loaded {name}": value for name, value in halfway.items()}, **parameters(net)}
    for number, answer in enumerate(found or ()):
        bench.close(f"rank {number}", answer, due, roundings=4096.0)
