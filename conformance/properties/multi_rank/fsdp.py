"""FullyShardedDataParallel and fully_shard: weights that are spread over ranks train like whole ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from conformance.distributed.rank_programs import Rank, program
from conformance.properties.multi_rank._multi_rank_checks import Bench, together
from conformance.properties.multi_rank._single_process_reference import (
    FLOATS,
    alone,
    held_against_one,
    near_float32,
)
from conformance.properties.multi_rank._training_model import (
    Feed,
    Losses,
    backward,
    model,
    parameters,
    take_steps,
    train,
    without_losses,
)

_NEEDS = ("autograd",)


def sharded_once(rank: Rank, net: nn.Module, strategy: str, **options: Any) -> nn.Module:
    """Return the model under FSDP1, each linear module wrapped by itself and the rest around them."""
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    if "HYBRID" in strategy:
        from torch.distributed.device_mesh import init_device_mesh

        # A group of one would not be sharded; four ranks are enough for replicas.
        even = rank.size >= 4 and rank.size % 2 == 0
        shape = (2, rank.size // 2) if even else (1, rank.size)
        options["device_mesh"] = init_device_mesh(
            rank.device.type, shape, mesh_dim_names=("replicas", "shards")
        )
    return FullyShardedDataParallel(
        net,
        sharding_strategy=ShardingStrategy[strategy],
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        device_id=None if rank.device.type == "cpu" else rank.device,
        use_orig_params=True,
        **options,
    )


@program
def fsdp1(rank: Rank, dtype: str, strategy: str, offload: bool = False) -> Losses:
    """Train a model under FSDP1; ``offload`` keeps its parameters on the host."""
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel

    options = {"cpu_offload": CPUOffload(offload_params=True)} if offload else {}
    net = sharded_once(rank, model(dtype), strategy, **options)
    losses = take_steps(net, Feed(rank.device, dtype, rank.rank, rank.size))
    with FullyShardedDataParallel.summon_full_params(net):
        return {**losses, **parameters(net)}


def _strategy(bench: Bench, strategy: str) -> None:
    answers = bench.values(fsdp1, dtype=bench.dtype, strategy=strategy)
    held_against_one(bench, answers, alone(bench.dtype), what=strategy)


@together("fsdp1", level="training", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def full_shard(bench: Bench) -> None:
    """With parameters, gradients and optimizer states sharded training is that of a single process."""
    _strategy(bench, "FULL_SHARD")


@together("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def shard_grad_op(bench: Bench) -> None:
    """With gradients and optimizer states sharded training is that of a single process."""
    _strategy(bench, "SHARD_GRAD_OP")


@together("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def no_shard(bench: Bench) -> None:
    """With nothing sharded training is that of a single process."""
    _strategy(bench, "NO_SHARD")


@together("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def hybrid_shard(bench: Bench) -> None:
    """With shards in a group and replicas across groups training is that of a single process."""
    _strategy(bench, "HYBRID_SHARD")


@together("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def full_shard_on_the_host(bench: Bench) -> None:
    """With parameters that rest on the host training is that of a single process."""
    answers = bench.values(fsdp1, dtype=bench.dtype, strategy="FULL_SHARD", offload=True)
    held_against_one(bench, answers, alone(bench.dtype))


def dtypes_of_results(net: nn.Module) -> list[str]:
    """Return a list that grows by the dtype of each result of a linear module as the model runs."""
    seen: list[str] = []
    for part in net.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_hook(lambda module, given, output: seen.append(str(output.dtype)))
    return seen


@program
def fsdp1_mixed(rank: Rank) -> dict[str, Any]:
    """Take one step under FSDP1 in mixed precision; return the dtypes of results and the parameters."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

    low = torch.bfloat16
    precision = MixedPrecision(param_dtype=low, reduce_dtype=torch.float32, buffer_dtype=low)
    net = sharded_once(rank, model("float32"), "FULL_SHARD", mixed_precision=precision)
    seen = dtypes_of_results(net)
    take_steps(net, Feed(rank.device, "float32", rank.rank, rank.size), steps=1)
    with FullyShardedDataParallel.summon_full_params(net):
        return {"computed": sorted(set(seen)), "parameters": parameters(net)}


def _near(bench: Bench, answers: list[dict[str, Any]] | None) -> None:
    for number, answer in enumerate(answers or ()):
        assert answers is not None
        bench.same(f"the dtype of results on rank {number}", answer["computed"], ["torch.bfloat16"])
        bench.close(
            f"rank {number}, against rank 0", answer["parameters"], answers[0]["parameters"], roundings=1.0
        )
        near_float32(bench, f"rank {number}", answer["parameters"])


@together("fsdp1", capabilities=_NEEDS, accelerators=True)
def full_shard_mixed_precision(bench: Bench) -> None:
    """With computation in bfloat16 and sums in float32 parameters stay float32, near those of float32."""
    _near(bench, bench.values(fsdp1_mixed))


@program
def fsdp1_states(rank: Rank, dtype: str, sharded: bool) -> dict[str, Any]:
    """Train a model under FSDP1, and load its state dict into another one; return the parameters of both."""
    from torch.distributed.fsdp import FullyShardedDataParallel as Sharded
    from torch.distributed.fsdp import StateDictType

    kind = StateDictType.SHARDED_STATE_DICT if sharded else StateDictType.FULL_STATE_DICT
    net = sharded_once(rank, model(dtype), "FULL_SHARD")
    take_steps(net, Feed(rank.device, dtype, rank.rank, rank.size))
    fresh = sharded_once(rank, model(dtype), "FULL_SHARD")
    with Sharded.state_dict_type(net, kind):
        state = net.state_dict()
    with Sharded.state_dict_type(fresh, kind):
        fresh.load_state_dict(state)
    with Sharded.summon_full_params(net), Sharded.summon_full_params(fresh):
        return {"saved": parameters(net), "loaded": parameters(fresh)}


def _states(bench: Bench, sharded: bool) -> None:
    due = without_losses(alone(bench.dtype))
    for number, answer in enumerate(bench.values(fsdp1_states, dtype=bench.dtype, sharded=sharded) or ()):
        bench.close(f"what rank {number} saved", answer["saved"], due)
        bench.close(f"what rank {number} loaded", answer["loaded"], answer["saved"], roundings=1.0)


@together("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def full_state_dicts(bench: Bench) -> None:
    """A full state dict of a sharded model loads into another one."""
    _states(bench, False)


@together("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def sharded_state_dicts(bench: Bench) -> None:
    """A sharded state dict loads into another sharded model."""
    _states(bench, True)


def sharded_twice(rank: Rank, net: nn.Sequential, **options: Any) -> nn.Module:
    """Return the model under fully_shard, linear modules first and the whole last."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(rank.device.type, (rank.size,))
    net = net.to(rank.device)
    for part in net:
        if isinstance(part, nn.Linear):
            fully_shard(part, mesh=mesh, **options)
    fully_shard(net, mesh=mesh, **options)
    return net


@program
def fsdp2(
    rank: Rank, dtype: str, options: dict[str, Any], accumulate: int = 1, offload: bool = False
) -> Losses:
    """Train a model under fully_shard; ``offload`` keeps its parameters on the host."""
    if offload:
        from torch.distributed.fsdp import CPUOffloadPolicy

        options = {**options, "offload_policy": CPUOffloadPolicy(pin_memory=False)}
    net = sharded_twice(rank, model(dtype), **options)
    feed = Feed(rank.device, dtype, rank.rank, rank.size)
    if accumulate == 1:
        return train(net, feed)

    def pause(last: bool) -> Any:
        import contextlib

        net.set_requires_gradient_sync(last)  # type: ignore[operator]
        return contextlib.nullcontext()

    return train(net, feed, accumulate=accumulate, pause=pause)


def _fully(bench: Bench, accumulate: int = 1, offload: bool = False, **options: Any) -> None:
    answers = bench.values(fsdp2, dtype=bench.dtype, options=options, accumulate=accumulate, offload=offload)
    held_against_one(bench, answers, alone(bench.dtype, accumulate=accumulate))


@together("fsdp2", level="training", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded(bench: Bench) -> None:
    """With fully_shard training is that of a single process."""
    _fully(bench)


@together("fsdp2", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded_kept_after_forward(bench: Bench) -> None:
    """With parameters that stay whole between forward and backward training is that of a single process."""
    _fully(bench, reshard_after_forward=False)


@together("fsdp2", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded_accumulation(bench: Bench) -> None:
    """Gradients of batches without synchronisation are reduced with the next ones."""
    _fully(bench, accumulate=2)


@together("fsdp2", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def fully_sharded_on_the_host(bench: Bench) -> None:
    """With parameters and gradients that rest on the host training is that of a single process."""
    _fully(bench, offload=True)


@program
def fsdp2_mixed(rank: Rank) -> dict[str, Any]:
    """Take one step under fully_shard in mixed precision; return the dtypes of results and the parameters."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    net = sharded_twice(rank, model("float32"), mp_policy=policy)
    seen = dtypes_of_results(net)
    take_steps(net, Feed(rank.device, "float32", rank.rank, rank.size), steps=1)
    return {"computed": sorted(set(seen)), "parameters": parameters(net)}


@together("fsdp2", capabilities=_NEEDS)
def fully_sharded_mixed_precision(bench: Bench) -> None:
    """With computation in bfloat16 and sums in float32 parameters stay float32, near those of float32."""
    _near(bench, bench.values(fsdp2_mixed))


@program
def clipped(rank: Rank, dtype: str) -> Losses:
    """Clip the gradients of a model under fully_shard; return their norm and the gradients."""
    net = sharded_twice(rank, model(dtype))
    inputs, targets = Feed(rank.device, dtype, rank.rank, rank.size).batch(0)
    backward(10 * nn.functional.mse_loss(net(inputs), targets))
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    full = getattr(norm, "full_tensor", None)
    results = {"norm": (norm if full is None else full()).detach().cpu()}
    for name, value in net.named_parameters():
        gradient: Any = value.grad
        results[name] = gradient.full_tensor().cpu()
    return results


@together("fsdp2", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded_clipping(bench: Bench) -> None:
    """Clipping takes the norm of all gradients together, wherever they are."""
    net = model(bench.dtype)
    inputs, targets = Feed(torch.device("cpu"), bench.dtype).batch(0)
    backward(10 * nn.functional.mse_loss(net(inputs), targets))
    due = {"norm": nn.utils.clip_grad_norm_(net.parameters(), 0.5).detach()}
    for name, value in net.named_parameters():
        assert value.grad is not None
        due[name] = value.grad
    for number, answer in enumerate(bench.values(clipped, dtype=bench.dtype) or ()):
        bench.close(f"rank {number}", answer, due)
