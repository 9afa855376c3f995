"""Test emulated peers: one rank of four runs alone, and every collective finishes."""

from __future__ import annotations

PROGRAM = """
import torch, habana_frameworks.torch, torch.distributed as dist
import habana_frameworks.torch.distributed.hccl
dist.init_process_group(backend="hccl")
rank, size = dist.get_rank(), dist.get_world_size()
print(rank, size, dist.get_backend())
x = torch.full((2,), 3.0, device="hpu")
dist.all_reduce(x)
print(x.tolist())
parts = [torch.zeros(2, device="hpu") for _ in range(size)]
dist.all_gather(parts, x)
print([one.tolist() for one in parts])
whole = torch.zeros(2 * size, device="hpu")
dist.all_gather_into_tensor(whole, x)
print(whole.tolist())
part = torch.zeros(2, device="hpu")
dist.reduce_scatter_tensor(part, torch.arange(2.0 * size, device="hpu"))
print(part.tolist())
dist.all_to_all_single(whole, torch.arange(2.0 * size, device="hpu"))
dist.broadcast(x, 0)
dist.send(x, (rank + 1) % size)
dist.recv(x, (rank + 1) % size)
dist.barrier()
group = dist.new_group(sorted({0, rank}))
work = dist.all_reduce(x, group=group, async_op=True)
work.wait()
torch.hpu.synchronize()
print(work.is_completed(), x.tolist())
try:
    dist.all_gather_into_tensor(torch.zeros(3, device="hpu"), x)
except Exception as error:
    print("output tensor size must be equal to world_size times input tensor size" in str(error))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to("hpu"))
model(torch.ones(1, 2, device="hpu")).sum().backward()
print(model.module.weight.grad is not None)
dist.destroy_process_group()
"""


def test_a_rank_of_four_runs_alone(output_of) -> None:
    output_text = output_of(
        PROGRAM, PT_HPU_EMULATE_DISTRIBUTED="1", WORLD_SIZE="4", RANK="1", LOCAL_RANK="1", timeout=120
    ).splitlines()
    assert output_text == [
        "1 4 hccl",
        "[3.0, 3.0]",
        str([[3.0, 3.0]] * 4),
        str([3.0] * 8),
        "[2.0, 3.0]",
        "True [3.0, 3.0]",
        "True",
        "True",
    ]


def test_a_process_without_a_launcher_is_the_first_rank(output_of) -> None:
    variables = {"PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK": "1", "WORLD_SIZE": "4", "RANK": "3"}
    output_lines = output_of(PROGRAM, **variables, timeout=120).splitlines()
    assert output_lines[:3] == ["0 4 hccl", "[3.0, 3.0]", str([[3.0, 3.0]] * 4)]


PART = """
import torch, habana_frameworks.torch, torch.distributed as dist
from habana_frameworks.torch.utils.experimental import distributed_emulation
for rank in (0, 2):
    with distributed_emulation.emulate_distributed(3, rank):
        dist.init_process_group("hccl")
        print(dist.get_rank(), dist.get_world_size())
        x = torch.ones(2, device="hpu")
        dist.all_reduce(x)
        print(x.tolist())
        dist.destroy_process_group()
try:
    dist.init_process_group("hccl", init_method="tcp://localhost:1", world_size=2)
except Exception as error:
    print(type(error).__name__, "rank" in str(error))
try:
    with distributed_emulation.emulate_distributed(3, 3):
        pass
except ValueError as error:
    print(error)
"""


def test_emulation_of_a_part_of_a_program(output_of) -> None:
    assert output_of(PART, timeout=120).splitlines() == [
        "0 3", "[1.0, 1.0]", "2 3", "[1.0, 1.0]", "ValueError True",
        "a job of 3 ranks has no rank 3. Use 0 to 2.",
    ]  # fmt: skip


def test_arguments_may_be_positional(output_of) -> None:
    code = PROGRAM.split("rank, size")[0].replace('backend="hccl"', '"hccl", "env://", None, 8, 5')
    code += "print(dist.get_rank(), dist.get_world_size())"
    assert output_of(code, PT_HPU_EMULATE_DISTRIBUTED="1", timeout=120) == "5 8"


def test_group_with_gloo_raises_under_emulation(run_python) -> None:
    code = PROGRAM.split("rank, size")[0].replace('"hccl"', '"cpu:gloo,hpu:hccl"')
    done = run_python(code, PT_HPU_EMULATE_DISTRIBUTED="1", timeout=120)
    assert "ValueError: PT_HPU_EMULATE_DISTRIBUTED emulates the peers of hccl" in done.stderr
