"""Check FullyShardedDataParallel and fully_shard: sharded weights train like unsharded weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from conformance.distributed.rank_programs import Rank, program
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker, multi_rank_property
from conformance.properties.multi_rank._single_process_reference import (
    FLOATS,
    compare_with_float32_step,
    compare_with_single_process,
    train_single_process,
)
from conformance.properties.multi_rank._training_model import (
    BatchSource,
    TensorsByName,
    make_model,
    parameters_on_cpu,
    run_backward,
    take_steps,
    train,
    without_losses,
)

_NEEDS = ("autograd",)


def wrap_in_fsdp1(rank: Rank, net: nn.Module, strategy: str, **options: Any) -> nn.Module:
    """Wrap each linear module of a model, then the whole model, in FullyShardedDataParallel."""
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    if "HYBRID" in strategy:
        from torch.distributed.device_mesh import init_device_mesh

        # Two replicas need at least four ranks, because a group of one rank has no shards.
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
def train_fsdp1(rank: Rank, dtype: str, strategy: str, offload: bool = False) -> TensorsByName:
    """Train a model under FSDP1. If ``offload`` is true, its parameters are offloaded to the host."""
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel

    options = {"cpu_offload": CPUOffload(offload_params=True)} if offload else {}
    net = wrap_in_fsdp1(rank, make_model(dtype), strategy, **options)
    losses = take_steps(net, BatchSource(rank.device, dtype, rank.rank, rank.size))
    with FullyShardedDataParallel.summon_full_params(net):
        return {**losses, **parameters_on_cpu(net)}


def _check_strategy(checker: MultiRankChecker, strategy: str) -> None:
    replies = checker.run(train_fsdp1, dtype=checker.dtype, strategy=strategy)
    compare_with_single_process(checker, replies, train_single_process(checker.dtype), label=strategy)


@multi_rank_property("fsdp1", level="training", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def full_shard(checker: MultiRankChecker) -> None:
    """With sharded parameters, gradients and optimizer states, training equals the training of a single
    process.
    """
    _check_strategy(checker, "FULL_SHARD")


@multi_rank_property("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def shard_grad_op(checker: MultiRankChecker) -> None:
    """With sharded gradients and optimizer states, training equals the training of a single process."""
    _check_strategy(checker, "SHARD_GRAD_OP")


@multi_rank_property("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def no_shard(checker: MultiRankChecker) -> None:
    """With NO_SHARD, training equals the training of a single process."""
    _check_strategy(checker, "NO_SHARD")


@multi_rank_property("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def hybrid_shard(checker: MultiRankChecker) -> None:
    """With shards within a group and replicas across groups, training equals the training of a single
    process.
    """
    _check_strategy(checker, "HYBRID_SHARD")


@multi_rank_property("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def full_shard_on_the_host(checker: MultiRankChecker) -> None:
    """With parameters offloaded to the host, training equals the training of a single process."""
    replies = checker.run(train_fsdp1, dtype=checker.dtype, strategy="FULL_SHARD", offload=True)
    compare_with_single_process(checker, replies, train_single_process(checker.dtype))


def record_linear_dtypes(net: nn.Module) -> list[str]:
    """Return a list to which hooks append the output dtype of each linear module when the model runs."""
    dtypes: list[str] = []
    for submodule in net.modules():
        if isinstance(submodule, nn.Linear):
            submodule.register_forward_hook(lambda module, inputs, output: dtypes.append(str(output.dtype)))
    return dtypes


@program
def step_fsdp1_mixed_precision(rank: Rank) -> dict[str, Any]:
    """Take one FSDP1 step in mixed precision. Return the output dtypes and the parameters."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

    low = torch.bfloat16
    precision = MixedPrecision(param_dtype=low, reduce_dtype=torch.float32, buffer_dtype=low)
    net = wrap_in_fsdp1(rank, make_model("float32"), "FULL_SHARD", mixed_precision=precision)
    dtypes = record_linear_dtypes(net)
    take_steps(net, BatchSource(rank.device, "float32", rank.rank, rank.size), steps=1)
    with FullyShardedDataParallel.summon_full_params(net):
        return {"computed": sorted(set(dtypes)), "parameters": parameters_on_cpu(net)}


def _check_mixed_precision(checker: MultiRankChecker, replies: list[dict[str, Any]] | None) -> None:
    for number, reply in enumerate(replies or ()):
        assert replies is not None
        checker.check_equal(f"the dtype of results on rank {number}", reply["computed"], ["torch.bfloat16"])
        checker.check_close(
            f"rank {number} versus rank 0", reply["parameters"], replies[0]["parameters"], roundings=1.0
        )
        compare_with_float32_step(checker, f"rank {number}", reply["parameters"])


@multi_rank_property("fsdp1", capabilities=_NEEDS, accelerators=True)
def full_shard_mixed_precision(checker: MultiRankChecker) -> None:
    """With bfloat16 computation and float32 reduction, parameters stay in float32. After one step, they are
    close to the parameters of a step that is computed in float32.
    """
    _check_mixed_precision(checker, checker.run(step_fsdp1_mixed_precision))


@program
def reload_fsdp1_state_dict(rank: Rank, dtype: str, sharded: bool) -> dict[str, Any]:
    """Train under FSDP1 and load the state dict into a second model. Return the parameters of both models."""
    from torch.distributed.fsdp import FullyShardedDataParallel as Sharded
    from torch.distributed.fsdp import StateDictType

    kind = StateDictType.SHARDED_STATE_DICT if sharded else StateDictType.FULL_STATE_DICT
    net = wrap_in_fsdp1(rank, make_model(dtype), "FULL_SHARD")
    take_steps(net, BatchSource(rank.device, dtype, rank.rank, rank.size))
    loaded_net = wrap_in_fsdp1(rank, make_model(dtype), "FULL_SHARD")
    with Sharded.state_dict_type(net, kind):
        state = net.state_dict()
    with Sharded.state_dict_type(loaded_net, kind):
        loaded_net.load_state_dict(state)
    with Sharded.summon_full_params(net), Sharded.summon_full_params(loaded_net):
        return {"saved": parameters_on_cpu(net), "loaded": parameters_on_cpu(loaded_net)}


def _check_state_dicts(checker: MultiRankChecker, sharded: bool) -> None:
    expected = without_losses(train_single_process(checker.dtype))
    for number, reply in enumerate(
        checker.run(reload_fsdp1_state_dict, dtype=checker.dtype, sharded=sharded) or ()
    ):
        checker.check_close(f"the parameters that rank {number} saved", reply["saved"], expected)
        checker.check_close(
            f"the parameters that rank {number} loaded", reply["loaded"], reply["saved"], roundings=1.0
        )


@multi_rank_property("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def full_state_dicts(checker: MultiRankChecker) -> None:
    """The full state dict of a sharded model loads into a second sharded model."""
    _check_state_dicts(checker, False)


@multi_rank_property("fsdp1", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def sharded_state_dicts(checker: MultiRankChecker) -> None:
    """The sharded state dict of a sharded model loads into a second sharded model."""
    _check_state_dicts(checker, True)


def shard_with_fsdp2(rank: Rank, net: nn.Sequential, **options: Any) -> nn.Module:
    """Apply fully_shard to each linear module of a model, then to the whole model, and return the model."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(rank.device.type, (rank.size,))
    net = net.to(rank.device)
    for submodule in net:
        if isinstance(submodule, nn.Linear):
            fully_shard(submodule, mesh=mesh, **options)
    fully_shard(net, mesh=mesh, **options)
    return net


@program
def train_fsdp2(
    rank: Rank, dtype: str, options: dict[str, Any], accumulate: int = 1, offload: bool = False
) -> TensorsByName:
    """Train a model under fully_shard. If ``offload`` is true, its parameters are offloaded to the host."""
    if offload:
        from torch.distributed.fsdp import CPUOffloadPolicy

        options = {**options, "offload_policy": CPUOffloadPolicy(pin_memory=False)}
    net = shard_with_fsdp2(rank, make_model(dtype), **options)
    batch_source = BatchSource(rank.device, dtype, rank.rank, rank.size)
    if accumulate == 1:
        return train(net, batch_source)

    def sync_only_last_batch(last: bool) -> Any:
        import contextlib

        net.set_requires_gradient_sync(last)  # type: ignore[operator]
        return contextlib.nullcontext()

    return train(net, batch_source, accumulate=accumulate, synchronization_context=sync_only_last_batch)


def _check_fully_shard(
    checker: MultiRankChecker, accumulate: int = 1, offload: bool = False, **options: Any
) -> None:
    replies = checker.run(
        train_fsdp2, dtype=checker.dtype, options=options, accumulate=accumulate, offload=offload
    )
    compare_with_single_process(checker, replies, train_single_process(checker.dtype, accumulate=accumulate))


@multi_rank_property("fsdp2", level="training", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded(checker: MultiRankChecker) -> None:
    """With fully_shard, training equals the training of a single process."""
    _check_fully_shard(checker)


@multi_rank_property("fsdp2", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded_kept_after_forward(checker: MultiRankChecker) -> None:
    """With parameters that stay unsharded between forward and backward, training equals the training of a
    single process.
    """
    _check_fully_shard(checker, reshard_after_forward=False)


@multi_rank_property("fsdp2", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded_accumulation(checker: MultiRankChecker) -> None:
    """Gradients of batches without synchronization are reduced together with the next gradients."""
    _check_fully_shard(checker, accumulate=2)


@multi_rank_property("fsdp2", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def fully_sharded_on_the_host(checker: MultiRankChecker) -> None:
    """With parameters and gradients offloaded to the host, training equals the training of a
    single process.
    """
    _check_fully_shard(checker, offload=True)


@program
def step_fsdp2_mixed_precision(rank: Rank) -> dict[str, Any]:
    """Take one fully_shard step in mixed precision. Return the output dtypes and the parameters."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    net = shard_with_fsdp2(rank, make_model("float32"), mp_policy=policy)
    dtypes = record_linear_dtypes(net)
    take_steps(net, BatchSource(rank.device, "float32", rank.rank, rank.size), steps=1)
    return {"computed": sorted(set(dtypes)), "parameters": parameters_on_cpu(net)}


@multi_rank_property("fsdp2", capabilities=_NEEDS)
def fully_sharded_mixed_precision(checker: MultiRankChecker) -> None:
    """With bfloat16 computation and float32 reduction, parameters stay in float32. After one step, they are
    close to the parameters of a step that is computed in float32.
    """
    _check_mixed_precision(checker, checker.run(step_fsdp2_mixed_precision))


@program
def clip_gradients_under_fsdp2(rank: Rank, dtype: str) -> TensorsByName:
    """Clip the gradients of a model under fully_shard. Return their norm and the gradients."""
    net = shard_with_fsdp2(rank, make_model(dtype))
    inputs, targets = BatchSource(rank.device, dtype, rank.rank, rank.size).batch(0)
    run_backward(10 * nn.functional.mse_loss(net(inputs), targets))
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    full = getattr(norm, "full_tensor", None)
    results = {"norm": (norm if full is None else full()).detach().cpu()}
    for name, value in net.named_parameters():
        gradient: Any = value.grad
        results[name] = gradient.full_tensor().cpu()
    return results


@multi_rank_property("fsdp2", dtypes=FLOATS, capabilities=_NEEDS)
def fully_sharded_clipping(checker: MultiRankChecker) -> None:
    """Clipping uses the norm of all gradients together, although their shards are on different ranks."""
    net = make_model(checker.dtype)
    inputs, targets = BatchSource(torch.device("cpu"), checker.dtype).batch(0)
    run_backward(10 * nn.functional.mse_loss(net(inputs), targets))
    expected = {"norm": nn.utils.clip_grad_norm_(net.parameters(), 0.5).detach()}
    for name, value in net.named_parameters():
        assert value.grad is not None
        expected[name] = value.grad
    for number, reply in enumerate(checker.run(clip_gradients_under_fsdp2, dtype=checker.dtype) or ()):
        checker.check_close(f"rank {number}", reply, expected)
