"""Test storages: resizing, slices, bytes, and pinned memory after a fork."""

import gc

import pytest
import torch
from habana_frameworks.torch import _C


@pytest.fixture
def no_memory():
    gc.collect()
    before = _C.memory_stats()["Limit"]
    yield lambda: _C.set_memory_limit(_C.memory_stats()["InUse"] + 1024)
    _C.set_memory_limit(before)


@pytest.mark.parametrize(
    "grow",
    [
        lambda out: torch.add(torch.ones(1, device="hpu").expand(1 << 16), 1, out=out),
        lambda out: out.resize_(1 << 30),
        lambda out: out.set_(out.untyped_storage(), 0, (1 << 30,), (1,)),
        lambda out: out.untyped_storage().resize_(1 << 30),
    ],
)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_a_failed_resize_keeps_the_tensor(no_memory, grow):
    out = torch.full((4,), 3.0, device="hpu")
    neighbours = [torch.zeros(16, device="hpu") for _ in range(20)]
    no_memory()
    with pytest.raises(torch.OutOfMemoryError):
        grow(out)
    assert out.shape == (4,) and out.untyped_storage().nbytes() == 16
    out.fill_(7.0)
    assert out.tolist() == [7.0] * 4 and all(not n.any().item() for n in neighbours)


@pytest.mark.parametrize("bytes_left", [0, 64])
def test_a_tensor_beyond_its_storage_raises(bytes_left):
    tensor = torch.ones(1000, device="hpu")
    neighbours = [torch.zeros(16, device="hpu") for _ in range(40)]
    tensor.untyped_storage().resize_(bytes_left)
    for use in (lambda: tensor.fill_(7.0), lambda: tensor + 1, lambda: tensor.cpu(), lambda: tensor.sum()):
        with pytest.raises(RuntimeError, match=f"spans 4000 bytes of a storage that has {bytes_left}"):
            use()
    assert all(not n.any().item() for n in neighbours)
    tensor.untyped_storage().resize_(4000)  # libraries that shard parameters resize storages in this way
    assert tensor.fill_(2.0).sum().item() == 2000


def test_a_slice_of_a_storage_does_not_grow():
    storage = torch.arange(8, dtype=torch.uint8, device="hpu").untyped_storage()
    part = storage[0:4]
    with pytest.raises(RuntimeError, match="not resizable"):
        part.resize_(100)
    assert list(part.cpu()) == [0, 1, 2, 3]


def test_bytes_swap_on_the_host():
    storage = torch.tensor([1.0], device="hpu").untyped_storage()
    storage.byteswap(torch.float32)
    assert list(storage.cpu()) == [0x3F, 0x80, 0, 0]


PINNED_FORK = """
import os, threading
kept = torch.ones(10).pin_memory(); x = torch.ones(3, device='hpu'); stop = False
def work():
    while not stop:
        torch.ones(1000).pin_memory()
threads = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in threads]
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        kept.is_pinned(); os._exit(0)
    os.waitpid(pid, 0)
stop = True
[t.join() for t in threads]
"""


def test_a_fork_while_another_thread_pins_memory_does_not_hang(python):
    assert python(PINNED_FORK).returncode == 0


def test_threads_that_read_one_tensor_do_not_leak_memory(output_of):
    code = """
import torch, threading
import habana_frameworks.torch as ht
def used():
    return ht._C.extended_memory_stats()["in_use"]
def reads(weight, go):
    go.wait()
    for _ in range(200):
        torch.neg(weight)
before, leaked = used(), []
for _ in range(40):
    weight, go = torch.ones(256, device="hpu"), threading.Barrier(4)
    threads = [threading.Thread(target=reads, args=(weight, go)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del weight, go, threads, thread
    leaked.append(used() - before)
print(leaked[-1])
"""
    assert output_of(code) == "0"


def test_a_fork_inside_a_call_on_host_allocates_from_the_heap(output_of):
    code = """
import torch, os
import habana_frameworks.torch as ht
x = torch.ones(1000, device="hpu")
def forks(tensors):
    child = os.fork()
    if child == 0:
        y = torch.zeros(100_000)
        y += 3
        os._exit(0 if y.sum().item() == 300_000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return [tensors[0] + 1]
(result,) = ht._C.call_on_host(forks, [x])
print(result.device, result.sum().item())
"""
    assert output_of(code, options=("-W", "ignore")) == "hpu:0 2000.0"


def test_resize_output_resizes_an_output():
    output = torch.empty(0, device="hpu")
    assert torch.ops.aten._resize_output_(output, (2, 3), output.device) is output
    assert output.shape == (2, 3)
    with pytest.raises(RuntimeError, match="but device is cpu"):
        torch.ops.aten._resize_output_(output, (2,), "cpu")
