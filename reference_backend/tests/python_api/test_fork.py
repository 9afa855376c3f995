"""Test forks of a process that uses the device: a fork cannot use the device, and otherwise works."""

from __future__ import annotations

FORK = """
import os, sys, torch, habana_frameworks.torch
hpu = torch.hpu
def child(function):
    pid = os.fork()
    if pid == 0:
        try:
            print(function(), flush=True)
        except RuntimeError as error:
            print('RuntimeError', error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


USES = (
    "hpu.init()",
    "hpu.synchronize()",
    "hpu.manual_seed(1)",
    "hpu.get_rng_state()",
    "hpu.Stream()",
    "hpu.Event()",
    "hpu.current_stream()",
    "torch.ones(1, device='hpu')",
    "tensor + 1",
)


def test_use_after_fork_raises(output_of):
    code = FORK + "tensor = torch.ones(1, device='hpu')\n"
    lines = output_of(code + "".join(f"child(lambda: {use})\n" for use in USES)).splitlines()
    assert len(lines) == len(USES)
    for use, line in zip(USES, lines, strict=True):
        assert line.startswith("RuntimeError"), (use, line)
        assert "'spawn'" in line, (use, line)


def test_forked_child_of_a_process_without_the_device_may_use_it(output_of):
    code = FORK + "torch.manual_seed(1)\nchild(lambda: (torch.ones(2, device='hpu') + 1).tolist())"
    assert output_of(code) == "[2.0, 2.0]"


def test_cpu_functions_work_in_a_fork(output_of):
    code = FORK + (
        "tensor = torch.ones(1, device='hpu')\n"
        "def work():\n"
        "    torch.manual_seed(3)\n"
        "    with torch.random.fork_rng():\n"
        "        torch.rand(2)\n"
        "    return hpu._is_in_bad_fork(), hpu.is_initialized(), hpu.is_available(), torch.rand(2).shape\n"
        "child(work)\n"
        "print(hpu._is_in_bad_fork(), tensor.item())"
    )
    lines = output_of(code).splitlines()
    assert lines == ["(True, False, True, torch.Size([2]))", "False 1.0"]


def test_data_loader_workers(output_of):
    code = (
        "import torch, habana_frameworks.torch\n"
        "total = torch.zeros((), device='hpu')\n"
        "data = torch.utils.data.TensorDataset(torch.arange(12.0))\n"
        "for (batch,) in torch.utils.data.DataLoader(data, 4, num_workers=2, pin_memory=True):\n"
        "    total += batch.to('hpu', non_blocking=True).sum()\n"
        "print(total.item())"
    )
    assert output_of(code) == "66.0"
