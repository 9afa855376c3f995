"""Check torch.distributed.checkpoint: a checkpoint that one rank or all ranks saved can be loaded by a
different number of ranks.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from conformance.distributed.rank_programs import Rank, program
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker, multi_rank_property
from conformance.properties.multi_rank._single_process_reference import FLOATS, train_single_process
from conformance.properties.multi_rank._training_model import (
    BatchSource,
    TensorsByName,
    make_adamw,
    make_model,
    parameters_on_cpu,
    take_steps,
    without_losses,
)
from conformance.properties.multi_rank.fsdp import shard_with_fsdp2

_NEEDS = ("autograd", "serialization")


def checkpoint_module() -> Any:
    """Return the module torch.distributed.checkpoint, typed as Any because its ``__all__`` does not list all
    documented functions.
    """
    import torch.distributed.checkpoint

    return torch.distributed.checkpoint


def state_for_checkpoint(net: Any, optimizer: Any) -> dict[str, Any]:
    """Return the state dicts of a model and its optimizer, as torch.distributed.checkpoint saves them."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, states = get_state_dict(net, optimizer)
    return {"weights": weights, "states": states}


@program
def train_and_save(rank: Rank, dtype: str, folder: str) -> TensorsByName:
    """Train a model under fully_shard and save it. Return its parameters."""
    import torch.distributed as dist

    net = shard_with_fsdp2(rank, make_model(dtype))
    optimizer = make_adamw(net)
    take_steps(net, BatchSource(rank.device, dtype, rank.rank, rank.size), optimizer=lambda _: optimizer)
    checkpoint_module().save(state_for_checkpoint(net, optimizer), checkpoint_id=folder)
    dist.barrier()
    return parameters_on_cpu(net)


@program
def load_and_train(rank: Rank, dtype: str, folder: str) -> TensorsByName:
    """Load the checkpoint into a new model and continue training. Return the parameters after each step."""
    from torch.distributed.checkpoint.state_dict import set_state_dict

    net = shard_with_fsdp2(rank, make_model(dtype))
    optimizer = make_adamw(net)
    state = state_for_checkpoint(net, optimizer)
    checkpoint_module().load(state, checkpoint_id=folder)
    set_state_dict(net, optimizer, model_state_dict=state["weights"], optim_state_dict=state["states"])
    loaded = {f"loaded {name}": value for name, value in parameters_on_cpu(net).items()}
    take_steps(net, BatchSource(rank.device, dtype, rank.rank, rank.size), optimizer=lambda _: optimizer)
    return {**loaded, **parameters_on_cpu(net)}


@multi_rank_property("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_all_loaded_by_all(checker: MultiRankChecker) -> None:
    """All ranks can load weights and optimizer states that all ranks saved, and continue training."""
    with tempfile.TemporaryDirectory() as folder:
        saved = checker.run(train_and_save, dtype=checker.dtype, folder=folder)
        replies = (
            checker.run(load_and_train, dtype=checker.dtype, folder=folder) if saved is not None else None
        )
    if saved is None or replies is None:
        return
    net = make_model(checker.dtype)
    optimizer = make_adamw(net)
    batch_source = BatchSource(torch.device("cpu"), checker.dtype)
    take_steps(net, batch_source, optimizer=lambda _: optimizer)
    halfway = parameters_on_cpu(net)
    take_steps(net, batch_source, optimizer=lambda _: optimizer)
    expected = {**{f"loaded {name}": value for name, value in halfway.items()}, **parameters_on_cpu(net)}
    for number, reply in enumerate(replies):
        checker.check_close(f"rank {number}", reply, expected, roundings=4096.0)


@multi_rank_property("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_all_loaded_by_one(checker: MultiRankChecker) -> None:
    """Shards that all ranks saved can be loaded by a single process, into an unsharded model."""

    net = make_model(checker.dtype)
    with tempfile.TemporaryDirectory() as folder:
        saved = checker.run(train_and_save, dtype=checker.dtype, folder=folder)
        if saved is None:
            return
        weights = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
        checkpoint_module().load({"weights": weights}, checkpoint_id=folder, no_dist=True)
    expected = without_losses(train_single_process(checker.dtype, optimizer=make_adamw))
    checker.check_close("the weights that one process loaded", weights, expected, roundings=4096.0)


@multi_rank_property("checkpoints", dtypes=FLOATS, capabilities=_NEEDS)
def saved_by_one_loaded_by_all(checker: MultiRankChecker) -> None:
    """All ranks can load the checkpoint of a single process into shards."""
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net = make_model(checker.dtype)
    optimizer = make_adamw(net)
    batch_source = BatchSource(torch.device("cpu"), checker.dtype)
    take_steps(net, batch_source, optimizer=lambda _: optimizer)
    with tempfile.TemporaryDirectory() as folder:
        weights, states = get_state_dict(net, optimizer)
        checkpoint_module().save({"weights": weights, "states": states}, checkpoint_id=folder, no_dist=True)
        halfway = parameters_on_cpu(net)
        replies = checker.run(load_and_train, dtype=checker.dtype, folder=folder)
    take_steps(net, batch_source, optimizer=lambda _: optimizer)
    expected = {**{f"loaded {name}": value for name, value in halfway.items()}, **parameters_on_cpu(net)}
    for number, reply in enumerate(replies or ()):
        checker.check_close(f"rank {number}", reply, expected, roundings=4096.0)
