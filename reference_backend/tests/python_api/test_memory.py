"""Test the statistics of device memory."""

from __future__ import annotations

import habana_frameworks.torch as ht
import pytest
import torch

hpu = ht.hpu
MIB = 2**20


def test_stats_have_the_ten_entries():
    assert list(hpu.memory_stats()) == [
        "Limit",
        "InUse",
        "MaxInUse",
        "NumAllocs",
        "NumFrees",
        "ActiveAllocs",
        "MaxAllocSize",
        "TotalSystemAllocs",
        "TotalSystemFrees",
        "TotalActiveAllocs",
    ]
    assert hpu.hpu.memory_stats(0).keys() == hpu.memory.memory_stats("hpu").keys()


def test_an_allocation_and_its_release_are_counted():
    before = hpu.memory_stats()
    hpu.reset_peak_memory_stats()
    block = torch.empty(3 * MIB, dtype=torch.uint8, device="hpu")
    during = hpu.memory_stats()
    assert during["InUse"] - before["InUse"] == 3 * MIB
    assert during["ActiveAllocs"] - before["ActiveAllocs"] == 1
    assert during["NumAllocs"] - before["NumAllocs"] == 1
    assert hpu.memory_allocated() == during["InUse"]
    del block
    after = hpu.memory_stats()
    assert after["InUse"] == before["InUse"]
    assert after["NumFrees"] - during["NumFrees"] == 1
    assert hpu.max_memory_allocated() == during["InUse"]


def test_resets():
    keep = torch.empty(MIB, device="hpu")
    torch.empty(MIB, device="hpu")
    hpu.reset_peak_memory_stats()
    assert hpu.max_memory_allocated() == hpu.memory_allocated() >= keep.nbytes
    every = torch.accelerator.memory_stats()
    assert every["allocated_bytes.all.peak"] == every["allocated_bytes.all.current"]
    assert every["active.all.peak"] == every["active.all.current"]
    hpu.reset_accumulated_memory_stats()
    stats = hpu.memory_stats()
    assert [stats["NumAllocs"], stats["NumFrees"], stats["MaxAllocSize"]] == [0, 0, 0]
    assert stats["MaxInUse"] == stats["InUse"] >= keep.nbytes
    del keep
    hpu.reset_max_memory_allocated()
    assert hpu.max_memory_allocated() == hpu.memory_allocated()


def test_reserved_is_the_limit():
    limit = hpu.memory_stats()["Limit"]
    assert hpu.memory_reserved() == hpu.max_memory_reserved() == limit
    with pytest.warns(FutureWarning, match="use memory_reserved"):
        assert hpu.memory_cached() == limit
    with pytest.warns(FutureWarning, match="use max_memory_reserved"):
        assert hpu.max_memory_cached() == limit
    keep = torch.empty(MIB, dtype=torch.uint8, device="hpu")
    free, total = hpu.mem_get_info()
    assert total == limit
    assert free == limit - hpu.memory_allocated() <= limit - keep.nbytes


def test_summary_shows_all_statistics():
    keep = torch.empty(MIB, dtype=torch.uint8, device="hpu")
    figures = hpu._extended_memory_summary_dict()
    assert list(figures) == [
        "limit",
        "in_use",
        "persistent",
        "workspace",
        "last_workspace",
        "future",
        "max_cntgs_chunk",
        "max_in_use",
        "num_allocs",
        "num_free",
        "max_alloc_size",
        "active_allocs",
    ]
    assert figures["in_use"] == hpu.memory_allocated() >= keep.nbytes
    summary = hpu.memory_summary()
    assert f"{figures['in_use']:,}" in summary
    for name in ("Workspace", "Persistent", *hpu.memory_stats()):
        assert f"\n{name} " in summary


@pytest.mark.parametrize(
    "name",
    [
        "memory_stats",
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "mem_get_info",
        "memory_summary",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "_extended_memory_summary_dict",
    ],
)
@pytest.mark.parametrize("device", [1, "hpu:3"])
def test_other_devices_raise(name, device):
    with pytest.raises(AssertionError, match="Invalid device id"):
        getattr(hpu, name)(device)


def test_empty_cache_keeps_tensors():
    tensor = torch.arange(1000, device="hpu")
    hpu.empty_cache()
    assert tensor.sum().item() == 499500


def test_shared_object_name():
    assert hpu._get_hlml_shared_object_name().startswith("/")
