"""Check DistributedDataParallel: training on the ranks' parts of a batch equals training on whole batches in
a single process.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

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
    make_adamw,
    make_model,
    parameters_on_cpu,
    run_backward,
    take_steps,
    train,
)

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

_NEEDS = ("autograd",)


def wrap_in_ddp(rank: Rank, net: nn.Module, **options: Any) -> DistributedDataParallel:
    """Return the model under DDP on the rank's device."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(net.to(rank.device), **options)


@program
def train_ddp(rank: Rank, dtype: str, options: dict[str, Any], use_adamw: bool = False) -> TensorsByName:
    """Train a model under DDP, which is constructed with ``options``. The optimizer is AdamW if ``use_adamw``
    is true, else SGD.
    """
    net = wrap_in_ddp(rank, make_model(dtype), **options)
    batch_source = BatchSource(rank.device, dtype, rank.rank, rank.size)
    return train(net, batch_source, **({"optimizer": make_adamw} if use_adamw else {}))


def _check_ddp_options(checker: MultiRankChecker, **options: Any) -> None:
    compare_with_single_process(
        checker,
        checker.run(train_ddp, dtype=checker.dtype, options=options),
        train_single_process(checker.dtype),
    )


@multi_rank_property("ddp", level="training", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel(checker: MultiRankChecker) -> None:
    """With DistributedDataParallel, losses and parameters equal the results of a single process with whole
    batches.
    """
    _check_ddp_options(checker)


@multi_rank_property("ddp", level="training", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_adamw(checker: MultiRankChecker) -> None:
    """With AdamW, losses and parameters equal the results of a single process."""
    replies = checker.run(train_ddp, dtype=checker.dtype, options={}, use_adamw=True)
    compare_with_single_process(
        checker, replies, train_single_process(checker.dtype, optimizer=make_adamw), roundings=4096.0
    )


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_static_graph(checker: MultiRankChecker) -> None:
    """With static_graph=True, training equals the training of a single process."""
    _check_ddp_options(checker, static_graph=True)


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_gradient_views(checker: MultiRankChecker) -> None:
    """With gradient_as_bucket_view=True, training equals the training of a single process."""
    _check_ddp_options(checker, gradient_as_bucket_view=True)


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_small_buckets(checker: MultiRankChecker) -> None:
    """With one bucket for almost every parameter, training equals the training of a single process."""
    _check_ddp_options(checker, bucket_cap_mb=0.0001)


@program
def train_ddp_accumulating(rank: Rank, dtype: str) -> TensorsByName:
    """Train with two batches per step. The first batch of a step runs under no_sync()."""
    net = wrap_in_ddp(rank, make_model(dtype))

    def no_sync_except_last(last: bool) -> Any:
        return contextlib.nullcontext() if last else net.no_sync()

    return train(
        net,
        BatchSource(rank.device, dtype, rank.rank, rank.size),
        accumulate=2,
        synchronization_context=no_sync_except_last,
    )


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_accumulation(checker: MultiRankChecker) -> None:
    """Gradients that no_sync() did not reduce are averaged together with the next gradients."""
    compare_with_single_process(
        checker,
        checker.run(train_ddp_accumulating, dtype=checker.dtype),
        train_single_process(checker.dtype, accumulate=2),
    )


def make_model_of_rank(rank: int) -> nn.Module:
    """Return a model whose parameters and buffers all depend on the rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(rank)
        net = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
    for buffer in net.buffers():
        buffer.fill_(rank + 1)
    return net


@program
def initial_ddp_state(rank: Rank) -> TensorsByName:
    """Wrap a model with different values on each rank in DDP, and return its state dict."""
    net = wrap_in_ddp(rank, make_model_of_rank(rank.rank))
    return {name.removeprefix("module."): value.detach().cpu() for name, value in net.state_dict().items()}


@multi_rank_property("ddp", level="training", capabilities=_NEEDS)
def data_parallel_starts_from_the_first_rank(checker: MultiRankChecker) -> None:
    """Parameters and buffers of all ranks start with the values of rank 0."""
    expected = {name: value.detach() for name, value in make_model_of_rank(0).state_dict().items()}
    for number, state in enumerate(checker.run(initial_ddp_state) or ()):
        checker.check_close(f"the start of rank {number}", state, expected, roundings=1.0)


def batch_count_of_rank(rank: int) -> int:
    """Return the number of batches of a rank, which rises by one from rank to rank."""
    return 2 + rank


@program
def train_uneven(rank: Rank, dtype: str) -> tuple[int, TensorsByName]:
    """Train under Join with a different number of batches on each rank. Return the number of steps of this
    rank and the parameters.
    """
    from torch.distributed.algorithms.join import Join

    net = wrap_in_ddp(rank, make_model(dtype))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    steps = 0
    batch_source = BatchSource(rank.device, dtype, rank.rank, rank.size)
    with Join([net]):
        for step in range(batch_count_of_rank(rank.rank)):
            inputs, targets = batch_source.batch(step)
            optimizer.zero_grad()
            run_backward(nn.functional.mse_loss(net(inputs), targets))
            optimizer.step()
            steps += 1
    return steps, parameters_on_cpu(net)


def train_uneven_single_process(dtype: str, size: int) -> TensorsByName:
    """Return the parameters that :func:`train_uneven` must have, computed in a single process.

    Each step uses the sum of the gradients of the ranks that still have a batch, divided by ``size``.
    """
    net = make_model(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(batch_count_of_rank(size - 1)):
        optimizer.zero_grad()
        for rank in range(size):
            if step < batch_count_of_rank(rank):
                inputs, targets = BatchSource(torch.device("cpu"), dtype, rank, size).batch(step)
                run_backward(nn.functional.mse_loss(net(inputs), targets) / size)
        optimizer.step()
    return parameters_on_cpu(net)


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_uneven_inputs(checker: MultiRankChecker) -> None:
    """Under ``Join``, a rank that has more batches than other ranks trains on all its batches. The result
    equals the training of a single process.
    """
    expected = train_uneven_single_process(checker.dtype, checker.size)
    for number, (steps, final_parameters) in enumerate(checker.run(train_uneven, dtype=checker.dtype) or ()):
        checker.check_equal(f"the number of steps on rank {number}", steps, batch_count_of_rank(number))
        checker.check_close(f"rank {number}", final_parameters, expected)


@program
def train_with_unused_parameters(rank: Rank) -> dict[str, Any]:
    """Take three steps that use the left, the right and the left half of a model. Return, for each step, the
    parameters that get gradients.
    """

    class TwoBranchModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, use_left: bool) -> torch.Tensor:
            result: torch.Tensor = self.left(x) if use_left else self.right(x)
            return result

    torch.manual_seed(0)
    net = wrap_in_ddp(rank, TwoBranchModel(), find_unused_parameters=True)
    touched = []
    for step in range(3):
        net.zero_grad()
        net(torch.ones(2, 3, device=rank.device), step % 2 == 0).sum().backward()
        touched.append([p.grad is not None and bool((p.grad != 0).any()) for p in net.parameters()])
    return {"touched": touched}


@multi_rank_property("ddp", capabilities=_NEEDS)
def data_parallel_unused_parameters(checker: MultiRankChecker) -> None:
    """With find_unused_parameters=True, each step may use different parameters."""
    left_only, right_only = [True, True, False, False], [False, False, True, True]
    for number, reply in enumerate(checker.run(train_with_unused_parameters) or ()):
        checker.check_equal(
            f"the gradients on rank {number}", reply["touched"], [left_only, right_only, left_only]
        )


@program
def train_with_comm_hook(rank: Rank, dtype: str) -> TensorsByName:
    """Train under DDP with a communication hook that averages the buckets itself."""
    import torch.distributed as dist

    net = wrap_in_ddp(rank, make_model(dtype))

    def average_bucket(state: Any, bucket: Any) -> Any:
        divided = bucket.buffer().div_(rank.size)
        work = dist.all_reduce(divided, async_op=True)
        assert work is not None
        return work.get_future().then(lambda future: future.value()[0])

    average_bucket.__annotations__.clear()  # DDP rejects a hook with annotations other than its own types
    net.register_comm_hook(None, average_bucket)
    return train(net, BatchSource(rank.device, dtype, rank.rank, rank.size))


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_hooks(checker: MultiRankChecker) -> None:
    """Training with a communication hook that reduces buckets itself and returns futures equals training with
    the built-in reduction.
    """
    compare_with_single_process(
        checker, checker.run(train_with_comm_hook, dtype=checker.dtype), train_single_process(checker.dtype)
    )


@program
def train_recomputing(rank: Rank, dtype: str) -> TensorsByName:
    """Train a model whose activations are recomputed in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    class CheckpointedModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in make_model(dtype).named_children():
                self.add_module(name, part)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part in self.children():
                x = checkpoint(part, x, use_reentrant=False)
            return x

    return train(
        wrap_in_ddp(rank, CheckpointedModel()), BatchSource(rank.device, dtype, rank.rank, rank.size)
    )


@multi_rank_property("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_checkpointing(checker: MultiRankChecker) -> None:
    """With activations that are recomputed, training equals the training of a single process."""
    compare_with_single_process(
        checker, checker.run(train_recomputing, dtype=checker.dtype), train_single_process(checker.dtype)
    )


@program
def step_under_autocast(rank: Rank) -> TensorsByName:
    """Take one step under autocast and return the parameters."""
    net = wrap_in_ddp(rank, make_model("float32"))
    batch_source = BatchSource(rank.device, "float32", rank.rank, rank.size)
    with torch.autocast(rank.device.type, torch.bfloat16):
        take_steps(net, batch_source, steps=1)
    return parameters_on_cpu(net)


@multi_rank_property("ddp", capabilities=(*_NEEDS, "autocast"))
def data_parallel_autocast(checker: MultiRankChecker) -> None:
    """Under autocast, parameters stay in float32, are equal on all ranks and change as without autocast."""
    replies = checker.run(step_under_autocast)
    for number, reply in enumerate(replies or ()):
        assert replies is not None
        checker.check_close(f"rank {number} versus rank 0", reply, replies[0], roundings=1.0)
        compare_with_float32_step(checker, f"rank {number}", reply)


@program
def train_sync_batch_norm(rank: Rank, dtype: str) -> TensorsByName:
    """Train with SyncBatchNorm. Return losses, parameters and buffers."""
    convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
    net = wrap_in_ddp(rank, convert(make_model(dtype, normalise=False)))
    trained = train(net, BatchSource(rank.device, dtype, rank.rank, rank.size))
    buffers = {n.removeprefix("module."): b.detach().cpu() for n, b in net.named_buffers()}
    return {**trained, **buffers}


@multi_rank_property("batch-norm", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def synchronised_batch_norm(checker: MultiRankChecker) -> None:
    """SyncBatchNorm on parts of a batch equals BatchNorm on the whole batch, including running statistics."""
    net = make_model(checker.dtype, normalise=False)
    expected = train(net, BatchSource(torch.device("cpu"), checker.dtype))
    expected.update({name: value.detach().clone() for name, value in net.named_buffers()})
    replies = checker.run(train_sync_batch_norm, dtype=checker.dtype)
    compare_with_single_process(checker, replies, expected, roundings=1024.0)
