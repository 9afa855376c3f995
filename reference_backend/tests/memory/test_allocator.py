"""Test the caching allocator: exact statistics, the limit, reuse, threads."""

import gc
import threading

import pytest
import torch
from habana_frameworks.torch import _C

MIB = 1 << 20


@pytest.fixture
def set_memory_limit():
    """Return a function that sets the memory limit to the used memory plus ``extra``, for this test only."""
    before = _C.memory_stats()["Limit"]

    def set_limit(extra: int) -> int:
        gc.collect()
        value = _C.memory_stats()["InUse"] + extra
        _C.set_memory_limit(value)
        return value

    yield set_limit
    _C.set_memory_limit(before)


def in_use() -> int:
    return _C.memory_stats()["InUse"]


def test_statistics_are_exact():
    gc.collect()
    start = _C.memory_stats()
    tensors = [torch.empty(n, dtype=torch.uint8, device="hpu") for n in (1, 64, 65, 5000)]
    now = _C.memory_stats()
    assert now["InUse"] - start["InUse"] == 64 + 64 + 128 + 5056  # rounded up to multiples of 64 bytes
    assert now["NumAllocs"] - start["NumAllocs"] == 4
    assert now["ActiveAllocs"] - start["ActiveAllocs"] == 4
    del tensors
    end = _C.memory_stats()
    assert end["InUse"] == start["InUse"]
    assert end["NumFrees"] - start["NumFrees"] == 4


def test_an_operator_allocates_its_result_and_nothing_else():
    a, b = torch.ones(MIB, device="hpu"), torch.ones(MIB, device="hpu")
    torch.hpu.reset_peak_memory_stats()
    before = _C.memory_stats()
    result = a + b
    after = _C.memory_stats()
    assert after["NumAllocs"] - before["NumAllocs"] == 1
    assert after["InUse"] - before["InUse"] == 4 * MIB == after["MaxInUse"] - before["InUse"]
    assert _C.extended_memory_stats()["scratch"] == 0 and result[0].item() == 2


def test_scratch_memory_of_a_kernel_is_freed():
    torch.linalg.svd(torch.rand(50, 50, device="hpu"))
    torch.nn.functional.conv2d(torch.rand(2, 3, 32, 32, device="hpu"), torch.rand(4, 3, 5, 5, device="hpu"))
    assert _C.extended_memory_stats()["scratch"] == 0


def test_torch_accelerator_agrees():
    assert torch.accelerator.memory_allocated() == in_use()
    free, total = torch.accelerator.get_memory_info()
    assert (free, total) == (total - in_use(), _C.memory_stats()["Limit"])
    before = torch.accelerator.memory_stats()["allocated_bytes.all.allocated"]
    allocated = torch.empty(1000, dtype=torch.uint8, device="hpu")
    assert torch.accelerator.memory_stats()["allocated_bytes.all.allocated"] - before == 1024
    assert allocated.numel() == 1000


def test_peak_resets_to_the_memory_in_use():
    allocated = torch.empty(MIB, device="hpu")
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == in_use()
    torch.empty(MIB, device="hpu")
    _C.reset_peak_memory_stats()
    assert _C.memory_stats()["MaxInUse"] == in_use()
    del allocated


def test_out_of_memory_names_the_numbers_and_recovers(set_memory_limit):
    set_memory_limit(8 * MIB)
    allocated = torch.empty(6 * MIB, dtype=torch.uint8, device="hpu")
    before = in_use()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(4 * MIB, dtype=torch.uint8, device="hpu")
    text = str(caught.value)
    assert "tried to allocate 4.00 MiB" in text
    assert "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed" in text  # some programs search for this text
    assert in_use() == before
    del allocated
    assert torch.empty(4 * MIB, dtype=torch.uint8, device="hpu").numel() == 4 * MIB


def test_out_of_memory_inside_a_kernel_leaves_nothing_behind(set_memory_limit):
    a = torch.ones(MIB, device="hpu")
    set_memory_limit(2 * MIB)
    before = _C.extended_memory_stats()
    with pytest.raises(torch.OutOfMemoryError):
        a + a
    after = _C.extended_memory_stats()
    assert (after["in_use"], after["scratch"]) == (before["in_use"], 0)


def test_failed_out_resize_keeps_the_tensor(set_memory_limit):
    a, out = torch.ones(MIB, device="hpu"), torch.full((10,), 3.0, device="hpu")
    set_memory_limit(2 * MIB)
    with pytest.raises(torch.OutOfMemoryError), pytest.warns(UserWarning):
        torch.add(a, a, out=out)
    _C.set_memory_limit(_C.extended_memory_stats()["in_use"] + 64 * MIB)
    assert out.untyped_storage().nbytes() in (40, 4 * MIB)
    assert torch.add(a, a, out=torch.empty(0, device="hpu")).sum().item() == 2 * MIB


def test_small_blocks_coalesce_when_memory_runs_short(set_memory_limit):
    set_memory_limit(4 * MIB)
    for size in (64, 1000, 4000):
        tensors = [torch.empty(size, dtype=torch.uint8, device="hpu") for _ in range(3 * MIB // (size + 63))]
        del tensors
    assert torch.empty(4 * MIB - 64, dtype=torch.uint8, device="hpu").numel()


def test_limit_above_the_arena_raises():
    with pytest.raises(ValueError, match="above the device's"):
        _C.set_memory_limit(1 << 60)


@pytest.mark.parametrize("size", [1 << 62, (1 << 63) - 1])
def test_absurd_sizes_raise(size):
    with pytest.raises((RuntimeError, torch.OutOfMemoryError)):
        torch.empty(size, dtype=torch.uint8, device="hpu")


def test_threads_near_the_limit(set_memory_limit):
    set_memory_limit(3 * MIB)
    errors, out_of_memory = [], []

    def allocate_and_check(seed: int) -> None:
        try:
            for i in range(400):
                size = (seed * 7919 + i * 104729) % (MIB // 2) + 1
                try:
                    tensor = torch.full((size,), seed % 120, dtype=torch.uint8, device="hpu")
                except torch.OutOfMemoryError:
                    out_of_memory.append(size)
                    continue
                if not tensor.eq(seed % 120).all().item():
                    errors.append((seed, i))
        except torch.OutOfMemoryError:
            out_of_memory.append(0)
        except Exception as error:  # the main thread reports the error
            errors.append(error)

    before = in_use()
    threads = [threading.Thread(target=allocate_and_check, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    gc.collect()
    assert in_use() == before
    assert _C.extended_memory_stats()["scratch"] == 0


def test_invalid_limit_variable_is_named(python):
    done = python("torch.empty(1, device='hpu')", HPU_REFERENCE_MEMORY_LIMIT="12GB")
    assert (
        done.returncode != 0 and "HPU_REFERENCE_MEMORY_LIMIT='12GB' is not a number of bytes" in done.stderr
    )


def test_limit_variable(python):
    done = python("print(torch.hpu.memory_stats()['Limit'])", HPU_REFERENCE_MEMORY_LIMIT="1048576")
    assert done.stdout.strip() == "1048576", done.stderr


def test_empty_cache_returns_pages(python):
    script = """
import os
def resident():
    return int(open('/proc/self/statm').read().split()[2]) * os.sysconf('SC_PAGESIZE')
base = resident(); t = torch.ones(64 << 20, dtype=torch.uint8, device='hpu'); full = resident(); del t
cached = resident(); torch.accelerator.empty_cache(); empty = resident()
assert min(full, cached) - base > 60 << 20 and empty - base < 8 << 20, (base, full, cached, empty)
"""
    done = python(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("percent, share", [("50", 0.5), ("100", 1.0)])
def test_share_of_memory(python, percent, share):
    script = "print(torch.hpu.memory_stats()['Limit'])"
    whole = int(python(script).stdout)
    assert int(python(script, PT_HPU_POOL_MEM_ACQUIRE_PERC=percent).stdout) == pytest.approx(
        whole * share, rel=1e-6
    )


def test_invalid_share_variable_is_named(python):
    done = python("torch.empty(1, device='hpu')", PT_HPU_POOL_MEM_ACQUIRE_PERC="150")
    assert "PT_HPU_POOL_MEM_ACQUIRE_PERC='150' is not a percentage" in done.stderr
