"""torch.distributed.checkpoint: many ranks save, and others load."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program
from conformance.properties.multi_rank._multi_rank_checks import Bench, together
from conformance.properties.multi_rank._single_process_reference import FLOATS, alone
from conformance.properties.multi_rank._training_model import (
    Feed,
    Losses,
    adam,
    model,
    parameters,
    take_steps,
    without_losses,
)
from conformance.properties.multi_rank.fsdp import sharded_twice

_NEEDS = ("autograd", "serialization")


def checkpoint() -> Any:
    """Return torch.distributed.checkpoint, which documents functions that it does not list in __all__."""
    import torch.distributed.checkpoint

    return torch.distributed.checkpoint


def state_of(net: Any, optimizer: Any) -> dict[str, Any]:
    """Return the state of a model and its optimizer, by torch's names, as checkpoints hold it."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, states = get_state_dict(net, optimizer)
    return {"weights": weights, "states": states}


@program
def saves(rank: Rank, dtype: str, folder: str) -> Losses:
    """Train a model under fully_shard, and save it; return its parameters."""
    import torch.distributed as dist

    net = sharded_twice(rank, model(dtype))
    optimizer = adam(net)
    take_steps(net, Feed(rank.device, dtype, rank.rank, rank.size), optimizer=lambda _: optimizer)
    checkpoint().save(state_of(net, optimizer), checkpoint_id=folder)
    dist.barrier()
    return parameters(net)


@program
def loads(rank: Rank, dtype: str, folder: str) -> Losses:
    """Load into a fresh model, and train on; return the parameters as loaded and after training."""
    from torch.distributed.checkpoint.state_dict import set_state_dict

    net = sharded_twice(rank, model(dtype))
    optimizer = adam(net)
    state = state_of(net, optimizer)
    checkpoint().load(state, checkpoint_id=folder)
    set_state_dict(net, optimizer, model_state_dict=state["weights"], optim_state_dict=state["states"])
    loaded = {f"loaded {name}": value for name, value in parameters(net).items()}
    take_steps(net, Feed(rank.device, dtype, rank.rank, rank.size), optimizer=lambda _: optimizer)
    return {**loaded, **parameters(net)}


@together("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_all_loaded_by_all(bench: Bench) -> None:
    """Weights and optimizer states that all ranks saved are loaded by all, and training goes on."""
    with tempfile.TemporaryDirectory() as folder:
        saved = bench.values(saves, dtype=bench.dtype, folder=folder)
        answers = bench.values(loads, dtype=bench.dtype, folder=folder) if saved is not None else None
    if saved is None or answers is None:
        return
    net = model(bench.dtype)
    optimizer = adam(net)
    feed = Feed(torch.device("cpu"), bench.dtype)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    halfway = parameters(net)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    due = {**{f"loaded {name}": value for name, value in halfway.items()}, **parameters(net)}
    for number, answer in enumerate(answers):
        bench.close(f"rank {number}", answer, due, roundings=4096.0)


@together("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_all_loaded_by_one(bench: Bench) -> None:
    """A single process loads the shards that all ranks saved into a whole model."""

    net = model(bench.dtype)
    with tempfile.TemporaryDirectory() as folder:
        saved = bench.values(saves, dtype=bench.dtype, folder=folder)
        if saved is None:
            return
        weights = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
        checkpoint().load({"weights": weights}, checkpoint_id=folder, no_dist=True)
    due = without_losses(alone(bench.dtype, optimizer=adam))
    bench.close("what one process loaded", weights, due, roundings=4096.0)


@together("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_one_loaded_by_all(bench: Bench) -> None:
    """All ranks load in shards the checkpoint that a single process saved."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net = model(bench.dtype)
    optimizer = adam(net)
    feed = Feed(torch.device("cpu"), bench.dtype)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    with tempfile.TemporaryDirectory() as folder:
        weights, states = get_state_dict(net, optimizer)
        checkpoint().save({"weights": weights, "states": states}, checkpoint_id=folder, no_dist=True)
        halfway = parameters(net)
        answers = bench.values(loads, dtype=bench.dtype, folder=folder)
    take_steps(net, feed, optimizer=lambda _: optimizer)
    due = {**{f"loaded {name}": value for name, value in halfway.items()}, **parameters(net)}
    for number, answer in enumerate(answers or ()):
        bench.close(f"rank {number}", answer, due, roundings=4096.0)
