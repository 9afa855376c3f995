"""Test collectives together with lazy graphs, captured graphs and other jobs, and at process exit."""

from __future__ import annotations

import contextlib
import copy
import datetime
import os
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch import _C


def check_collective_in_lazy_graph(rank, size):
    """Check that a collective runs after all recorded calls, and that later calls use its result."""
    _C.lazy_start(1, 5)
    x = torch.full((4,), rank + 1.0, device="hpu")
    y = x * 2
    dist.all_reduce(y)
    z = y + 1
    gathered = torch.empty(4 * size, device="hpu")
    work = dist.all_gather_into_tensor(gathered, z * (rank + 1), async_op=True)
    x.fill_(-1)
    work.wait()
    _C.lazy_flush(True)
    total = size * (size + 1)
    assert z.cpu().tolist() == [total + 1.0] * 4
    assert gathered.reshape(size, 4)[:, 0].cpu().tolist() == [(total + 1.0) * (r + 1) for r in range(size)]
    net = torch.nn.Linear(3, 2, bias=False).to("hpu")
    torch.nn.init.ones_(net.weight)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    for step in range(3):
        net.weight.grad = None
        ddp(torch.full((1, 3), rank + step + 1.0, device="hpu")).sum().backward()
        _C.lazy_flush(True)
        assert net.weight.grad.cpu()[0, 0].item() == pytest.approx(step + 1 + (size - 1) / 2)


def test_lazy_graphs(on_ranks):
    on_ranks(check_collective_in_lazy_graph)


LAZY_WRAPPERS = {
    "plain": {},
    "static-graph": {"static_graph": True},
    "small-buckets": {"bucket_cap_mb": 0.0001},
    "gradient-views": {"gradient_as_bucket_view": True},
}


def train_in_lazy_mode(rank, size):
    """Compare data-parallel training by AdamW with training of whole batches on the CPU.

    Step 1 only accumulates gradients, except with the option ``static_graph``.
    """
    _C.lazy_start(1, 5)
    for options in LAZY_WRAPPERS.values():
        torch.manual_seed(3)
        layers = [torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.GELU(), torch.nn.Linear(7, 2)]
        reference_net = torch.nn.Sequential(*layers)
        ddp = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(reference_net).to("hpu"), **options)
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (reference_net, ddp)]
        for step in range(4):
            accumulates = step == 1 and "static_graph" not in options
            x = torch.randn(4 * size, 5, generator=torch.Generator().manual_seed(step))
            reference_net(x).square().mean().backward()
            with ddp.no_sync() if accumulates else contextlib.nullcontext():
                ddp(x[4 * rank : 4 * (rank + 1)].to("hpu")).square().mean().backward()
            _C.lazy_flush(False)
            if accumulates:
                continue
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            _C.lazy_flush(False)
        for mine, expected in zip(ddp.parameters(), reference_net.parameters(), strict=True):
            torch.testing.assert_close(mine.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_data_parallel_training_in_lazy_mode(on_ranks):
    on_ranks(train_in_lazy_mode)


def check_capture_rejects_collectives(rank, size):
    x = torch.ones(3, device="hpu")
    graph = torch.hpu.HPUGraph()
    with (
        pytest.raises(RuntimeError, match="collective nonSFG is not supported during hpu graph capturing"),
        torch.hpu.graph(graph),
    ):
        dist.all_reduce(x)
    y = torch.ones(3, device="hpu")
    dist.all_reduce(y)
    assert y.cpu().tolist() == [size] * 3


def test_capture_rejects_collectives_by_default(on_ranks):
    on_ranks(check_capture_rejects_collectives)


def replay_graphs_around_collectives(rank, size):
    """Run captured graphs before and after a collective."""
    x = torch.zeros(3, device="hpu")
    before, after = torch.hpu.HPUGraph(), torch.hpu.HPUGraph()
    with torch.hpu.graph(before):
        y = x * 2
    with torch.hpu.graph(after):
        z = y + 1
    for step in range(3):
        x.fill_(float(rank + step))
        before.replay()
        dist.all_reduce(y)
        after.replay()
        assert z.cpu().tolist() == [size * (size - 1) + 2.0 * size * step + 1] * 3


def test_collectives_between_captured_graphs(on_ranks):
    on_ranks(replay_graphs_around_collectives)


def capture_collectives(rank, size):
    """Capture a graph with three collectives. Some tensors live across a collective."""
    x = torch.full((4,), float(rank), device="hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        shared_value = x + 1
        y = shared_value * 2
        dist.all_reduce(y)
        gathered = torch.empty(4 * size, device="hpu")
        work = dist.all_gather_into_tensor(gathered, y * (rank + 1), async_op=True)
        work.wait()
        z = shared_value + y
        dist.broadcast(z, src=size - 1)
        out = z * 10
    del y, z, shared_value
    for step in range(4):
        x.fill_(float(rank + step))
        graph.replay(asynchronous=bool(step % 2))
        total = sum(2.0 * (r + step + 1) for r in range(size))
        assert out.cpu().tolist() == [10 * (size - 1 + step + 1 + total)] * 4
        expected = [total * (r + 1) for r in range(size) for _ in range(4)]
        assert gathered.cpu().tolist() == expected
    dry = torch.hpu.HPUGraph()
    with (
        pytest.raises(RuntimeError, match="a dry run cannot contain collectives"),
        torch.hpu.graph(dry, dry_run=True),
    ):
        dist.all_reduce(x)
    dist.all_reduce(x)  # the failed capture does not affect later collectives


def test_collectives_in_captured_graphs(on_ranks):
    on_ranks(capture_collectives, PT_HPU_ENABLE_LAZY_COLLECTIVES="1")


def capture_collectives_in_two_threads(rank, size):
    """Check that each collective belongs to the graph of its own thread while two threads capture."""
    turns = [threading.Event() for _ in range(3)]
    results, errors = {}, []

    def capture_in_thread(number, wait_for, then):
        try:
            x, graph = torch.full((4,), float(number), device="hpu"), torch.hpu.HPUGraph()
            with torch.hpu.stream(torch.hpu.Stream()):
                if wait_for is not None:
                    assert turns[wait_for].wait(60)
                graph.capture_begin()
                y = x * 2
                turns[then].set()
                assert turns[1].wait(60)
                if number == 2:  # the first thread has ended its capture by now
                    assert turns[2].wait(60)
                dist.all_reduce(y)
                z = y + number
                graph.capture_end()
                turns[2].set()
                x.fill_(10.0 * number)
                graph.replay()
                results[number] = (z.tolist(), len(graph._parts_after_collectives))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [
        threading.Thread(target=capture_in_thread, args=(1, None, 0)),
        threading.Thread(target=capture_in_thread, args=(2, 0, 1)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert results == {number: ([size * 20.0 * number + number] * 4, 1) for number in (1, 2)}


def test_collectives_in_graphs_of_two_threads(on_ranks):
    on_ranks(capture_collectives_in_two_threads, size=1, PT_HPU_ENABLE_LAZY_COLLECTIVES="1")


class SplitMatrixProducts(torch.nn.Module):
    """Two matrix products that are split over the ranks, with an all-reduce of the partial results."""

    def __init__(self, rank, size):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        up, down = torch.randn(8, 6, generator=generator), torch.randn(3, 8, generator=generator)
        rows = slice(rank * 8 // size, (rank + 1) * 8 // size)
        self.whole = (up, down)
        self.up, self.down = torch.nn.Parameter(up[rows].clone()), torch.nn.Parameter(down[:, rows].clone())

    def forward(self, x):
        partial = torch.relu(x @ self.up.t()) @ self.down.t()
        dist.all_reduce(partial)
        return partial + 1


def run_wrapped_module(rank, size):
    """Run a module with a collective under `wrap_in_hpu_graph`, with inputs of two shapes."""
    module = SplitMatrixProducts(rank, size).eval()
    up, down = module.whole
    module = torch.hpu.wrap_in_hpu_graph(module.to("hpu"))
    with torch.no_grad():
        for step in range(6):
            x = torch.randn(2 + step % 2, 6, generator=torch.Generator().manual_seed(step))
            result = module(x.to("hpu")).cpu()
            torch.testing.assert_close(result, torch.relu(x @ up.t()) @ down.t() + 1)


def test_modules_with_collectives_in_hpu_graphs(on_ranks):
    on_ranks(run_wrapped_module, PT_HPU_ENABLE_LAZY_COLLECTIVES="1")


def train_graphed_module_under_ddp(rank, size):
    """Compare training of a graphed module under DDP with training on the whole batch in one process."""
    torch.manual_seed(0)
    reference_net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    net.load_state_dict(reference_net.state_dict())
    net = net.to("hpu")
    net = torch.hpu.make_graphed_callables(net, (torch.randn(4, 5, device="hpu"),))
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (reference_net, ddp)]
    for step in range(4):
        x = torch.randn(4 * size, 5, generator=torch.Generator().manual_seed(step))
        for optimizer in optimizers:
            optimizer.zero_grad()
        reference_net(x).square().mean().backward()
        ddp(x[4 * rank : 4 * (rank + 1)].to("hpu")).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    for mine, expected in zip(ddp.parameters(), reference_net.parameters(), strict=True):
        torch.testing.assert_close(mine.detach().cpu(), expected.detach())


def test_graphed_modules_under_ddp(on_ranks):
    on_ranks(train_graphed_module_under_ddp)


TENANT = """
import sys, torch, torch.distributed as dist
import habana_frameworks.torch.hpu as hpu
from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
size, rank, local = initialize_distributed_hpu()
dist.init_process_group("hccl", init_method="env://")
x = torch.full((2,), float(sys.argv[1]) + rank, device="hpu")
for _ in range(20):
    y = x.clone()
    dist.all_reduce(y)
import os
print(os.environ["HLS_MODULE_ID"], y.cpu()[0].item(), hpu.device_count())
dist.destroy_process_group()
"""


def find_free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return str(probe.getsockname()[1])


def test_two_jobs_use_different_modules():
    jobs = []
    for number, modules in (("10", "0,1"), ("20", "5,6")):
        port = find_free_port()
        for rank in range(2):
            variables = {name: v for name, v in os.environ.items() if name not in ("HLS_MODULE_ID", "ID")}
            variables.update(HABANA_VISIBLE_MODULES=modules, MASTER_PORT=port, MASTER_ADDR="localhost")
            variables.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", OMP_NUM_THREADS="1")
            command = [sys.executable, "-c", TENANT, number]
            jobs.append(subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True))
    job_outputs = [job.communicate(timeout=120)[0].split() for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 4
    assert [fields[0] for fields in job_outputs] == ["0", "1", "5", "6"]
    assert [float(fields[1]) for fields in job_outputs] == [21.0, 21.0, 41.0, 41.0]


def exit_with_pending_collective(rank, size):
    """Exit rank 0 with a pending collective that the other ranks never join."""
    if rank == 0:
        dist.all_reduce(torch.ones(3, device="hpu"), async_op=True)
        print("leaving", flush=True)
        sys.exit(0)
    time.sleep(3)


def test_process_exits_with_a_pending_collective(on_ranks):
    start = time.monotonic()
    first, _ = on_ranks(exit_with_pending_collective, fails=(0, 1), kill_after=60)
    assert "leaving" in first.text and first.code == 0, first.text
    assert time.monotonic() - start < 40


def check_default_device(rank, size):
    from torch.distributed.distributed_c10d import _get_pg_default_device

    assert _get_pg_default_device() == torch.device("hpu")


def test_default_device_of_object_collectives(on_ranks):
    on_ranks(check_default_device)


def check_shared_communicators(rank, size):
    def all_reduced_value(group):
        tensor = torch.full((3,), float(rank + 1), device="hpu")
        dist.all_reduce(tensor, group=group)
        return tensor.cpu()[0].item()

    everybody = list(range(size))
    groups = [dist.new_group(everybody) for _ in range(3)]
    # A group with a different timeout has its own communicator. The other groups may share one communicator.
    groups.append(dist.new_group(everybody, timeout=datetime.timedelta(seconds=7)))
    assert [all_reduced_value(group) for group in groups] == [3.0] * 4
    backends = {group._get_backend(torch.device("hpu")) for group in groups}
    assert len(backends) == (2 if os.environ["PT_ENABLE_COMM_GROUP_CACHE"] == "1" else 4)
    dist.destroy_process_group(groups[0])
    assert [all_reduced_value(group) for group in groups[1:]] == [3.0] * 3


@pytest.mark.parametrize("cached", ["0", "1"])
def test_groups_of_the_same_ranks_share_a_communicator_if_enabled(on_ranks, cached):
    on_ranks(check_shared_communicators, PT_ENABLE_COMM_GROUP_CACHE=cached)
