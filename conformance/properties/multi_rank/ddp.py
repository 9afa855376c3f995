"""DistributedDataParallel: training on shares of a batch is training on all of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

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
    adam,
    backward,
    model,
    parameters,
    take_steps,
    train,
)

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

_NEEDS = ("autograd",)


def wrapped(rank: Rank, net: nn.Module, **options: Any) -> DistributedDataParallel:
    """Return the model on the rank's device under DDP."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(net.to(rank.device), **options)


@program
def ddp(rank: Rank, dtype: str, options: dict[str, Any], adaptive: bool = False) -> Losses:
    """Train a model under DDP with some options; ``adaptive`` takes AdamW."""
    net = wrapped(rank, model(dtype), **options)
    feed = Feed(rank.device, dtype, rank.rank, rank.size)
    return train(net, feed, **({"optimizer": adam} if adaptive else {}))


def _variant(bench: Bench, **options: Any) -> None:
    held_against_one(bench, bench.values(ddp, dtype=bench.dtype, options=options), alone(bench.dtype))


@together("ddp", level="training", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel(bench: Bench) -> None:
    """Losses and parameters are those of a single process with whole batches."""
    _variant(bench)


@together("ddp", level="training", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_adamw(bench: Bench) -> None:
    """With AdamW losses and parameters are those of a single process."""
    answers = bench.values(ddp, dtype=bench.dtype, options={}, adaptive=True)
    held_against_one(bench, answers, alone(bench.dtype, optimizer=adam), roundings=4096.0)


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_static_graph(bench: Bench) -> None:
    """With static_graph=True training is that of a single process."""
    _variant(bench, static_graph=True)


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_gradient_views(bench: Bench) -> None:
    """With gradients that are views of buckets training is that of a single process."""
    _variant(bench, gradient_as_bucket_view=True)


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_small_buckets(bench: Bench) -> None:
    """With a bucket for almost each parameter training is that of a single process."""
    _variant(bench, bucket_cap_mb=0.0001)


@program
def accumulated(rank: Rank, dtype: str) -> Losses:
    """Train with two batches for each step, gradients held back by no_sync() for the first."""
    net = wrapped(rank, model(dtype))

    def pause(last: bool) -> Any:
        return contextlib.nullcontext() if last else net.no_sync()

    return train(net, Feed(rank.device, dtype, rank.rank, rank.size), accumulate=2, pause=pause)


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_accumulation(bench: Bench) -> None:
    """Gradients that no_sync() has held back are averaged with the next ones."""
    held_against_one(bench, bench.values(accumulated, dtype=bench.dtype), alone(bench.dtype, accumulate=2))


def of_rank(rank: int) -> nn.Module:
    """Return a model whose parameters and buffers all depend on the rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(rank)
        net = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
    for buffer in net.buffers():
        buffer.fill_(rank + 1)
    return net


@program
def starts_equal(rank: Rank) -> Losses:
    """Return parameters and buffers of a model under DDP that each rank made with its own numbers."""
    net = wrapped(rank, of_rank(rank.rank))
    return {name.removeprefix("module."): value.detach().cpu() for name, value in net.state_dict().items()}


@together("ddp", level="training", capabilities=_NEEDS)
def data_parallel_starts_from_the_first_rank(bench: Bench) -> None:
    """Parameters and buffers of all ranks begin with those of rank 0."""
    due = {name: value.detach() for name, value in of_rank(0).state_dict().items()}
    for number, answer in enumerate(bench.values(starts_equal) or ()):
        bench.close(f"the start of rank {number}", answer, due, roundings=1.0)


def batches_of(rank: int) -> int:
    """Return the number of batches of a rank: each has one more than the one before."""
    return 2 + rank


@program
def uneven(rank: Rank, dtype: str) -> tuple[int, Losses]:
    """Train under Join with another number of batches on each rank; return the steps and the parameters."""
    from torch.distributed.algorithms.join import Join

    net = wrapped(rank, model(dtype))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    steps = 0
    feed = Feed(rank.device, dtype, rank.rank, rank.size)
    with Join([net]):
        for step in range(batches_of(rank.rank)):
            inputs, targets = feed.batch(step)
            optimizer.zero_grad()
            backward(nn.functional.mse_loss(net(inputs), targets))
            optimizer.step()
            steps += 1
    return steps, parameters(net)


def uneven_alone(dtype: str, size: int) -> Losses:
    """Return the parameters of the same training by a single process.

    Each step takes the gradients of those ranks that have a batch left, divided by the number of all ranks.
    """
    net = model(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(batches_of(size - 1)):
        optimizer.zero_grad()
        for rank in range(size):
            if step < batches_of(rank):
                inputs, targets = Feed(torch.device("cpu"), dtype, rank, size).batch(step)
                backward(nn.functional.mse_loss(net(inputs), targets) / size)
        optimizer.step()
    return parameters(net)


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_uneven_inputs(bench: Bench) -> None:
    """Under Join ranks with more batches go on to their end, as one process would."""
    due = uneven_alone(bench.dtype, bench.size)
    for number, (steps, answer) in enumerate(bench.values(uneven, dtype=bench.dtype) or ()):
        bench.same(f"the number of steps on rank {number}", steps, batches_of(number))
        bench.close(f"rank {number}", answer, due)


@program
def unused(rank: Rank) -> dict[str, Any]:
    """Take three steps that use one half of a model, the other and the first again; return the parameters
    touched.
    """

    class Forked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, left: bool) -> torch.Tensor:
            result: torch.Tensor = self.left(x) if left else self.right(x)
            return result

    torch.manual_seed(0)
    net = wrapped(rank, Forked(), find_unused_parameters=True)
    touched = []
    for step in range(3):
        net.zero_grad()
        net(torch.ones(2, 3, device=rank.device), step % 2 == 0).sum().backward()
        touched.append([p.grad is not None and bool((p.grad != 0).any()) for p in net.parameters()])
    return {"touched": touched}


@together("ddp", capabilities=_NEEDS)
def data_parallel_unused_parameters(bench: Bench) -> None:
    """With find_unused_parameters=True each step may use other parameters."""
    left, right = [True, True, False, False], [False, False, True, True]
    for number, answer in enumerate(bench.values(unused) or ()):
        bench.same(f"the gradients on rank {number}", answer["touched"], [left, right, left])


@program
def hooked(rank: Rank, dtype: str) -> Losses:
    """Train with a communication hook that sums buckets by itself."""
    import torch.distributed as dist

    net = wrapped(rank, model(dtype))

    def halves(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer().div_(rank.size)
        work = dist.all_reduce(buffer, async_op=True)
        assert work is not None
        return work.get_future().then(lambda future: future.value()[0])

    halves.__annotations__.clear()  # DDP reads them, and wants its own types there
    net.register_comm_hook(None, halves)
    return train(net, Feed(rank.device, dtype, rank.rank, rank.size))


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_hooks(bench: Bench) -> None:
    """A hook that sums buckets by itself, with futures, trains like the built-in way."""
    held_against_one(bench, bench.values(hooked, dtype=bench.dtype), alone(bench.dtype))


@program
def recomputed(rank: Rank, dtype: str) -> Losses:
    """Train a model whose activations are computed again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    class Recomputed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in model(dtype).named_children():
                self.add_module(name, part)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part in self.children():
                x = checkpoint(part, x, use_reentrant=False)
            return x

    return train(wrapped(rank, Recomputed()), Feed(rank.device, dtype, rank.rank, rank.size))


@together("ddp", dtypes=FLOATS, capabilities=_NEEDS)
def data_parallel_checkpointing(bench: Bench) -> None:
    """With activations that are computed again training is that of a single process."""
    held_against_one(bench, bench.values(recomputed, dtype=bench.dtype), alone(bench.dtype))


@program
def mixed(rank: Rank) -> Losses:
    """Take one step under autocast; return the parameters."""
    net = wrapped(rank, model("float32"))
    feed = Feed(rank.device, "float32", rank.rank, rank.size)
    with torch.autocast(rank.device.type, torch.bfloat16):
        take_steps(net, feed, steps=1)
    return parameters(net)


@together("ddp", capabilities=(*_NEEDS, "autocast"))
def data_parallel_autocast(bench: Bench) -> None:
    """Under autocast parameters stay in float32, are equal on all ranks and move as without autocast."""
    answers = bench.values(mixed)
    for number, answer in enumerate(answers or ()):
        assert answers is not None
        bench.close(f"rank {number}, against rank 0", answer, answers[0], roundings=1.0)
        near_float32(bench, f"rank {number}", answer)


@program
def synchronised_norm(rank: Rank, dtype: str) -> Losses:
    """Train with SyncBatchNorm; return losses, parameters and buffers."""
    convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
    net = wrapped(rank, convert(model(dtype, normalise=False)))
    trained = train(net, Feed(rank.device, dtype, rank.rank, rank.size))
    buffers = {n.removeprefix("module."): b.detach().cpu() for n, b in net.named_buffers()}
    return {**trained, **buffers}


@together("batch-norm", dtypes=FLOATS, capabilities=_NEEDS, accelerators=True)
def synchronised_batch_norm(bench: Bench) -> None:
    """SyncBatchNorm on shares of a batch is BatchNorm on all of it, with its running statistics."""
    net = model(bench.dtype, normalise=False)
    due = train(net, Feed(torch.device("cpu"), bench.dtype))
    due.update({name: value.detach().clone() for name, value in net.named_buffers()})
    answers = bench.values(synchronised_norm, dtype=bench.dtype)
    held_against_one(bench, answers, due, roundings=1024.0)
