"""Test replays after a storage was resized: a replay uses the storage's new memory, or raises an error."""

from __future__ import annotations

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu


@pytest.fixture
def x():
    return torch.ones(8, device="hpu")


def _capture_graph(function, **options):
    """Capture a function. Return the graph and the result of the function."""
    graph = hpu.HPUGraph()
    with hpu.graph(graph, **options):
        result = function()
    return graph, result


def _tensor_at(address, like):
    """Return a new tensor that reuses the memory at the address."""
    block = torch.full_like(like, 7)
    assert block.data_ptr() == address
    return block


@pytest.mark.parametrize("run_before", [False, True])
@pytest.mark.parametrize("which", ["input", "result"])
def test_replay_raises_for_a_storage_that_is_too_small(x, which, run_before):
    copied = x.clone()
    graph, y = _capture_graph(lambda: x * 2)
    if run_before:
        graph.replay()
    tensor = x if which == "input" else y
    address, size = tensor.data_ptr(), tensor.untyped_storage().nbytes()
    tensor.untyped_storage().resize_(0)
    block = _tensor_at(address, copied)
    message = "a storage that the graph uses was resized to 0 bytes, but the graph needs 32; resize it back"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            graph.replay()
    assert block.tolist() == [7.0] * 8
    tensor.untyped_storage().resize_(size)
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [10.0] * 8 and block.tolist() == [7.0] * 8


@pytest.mark.parametrize("run_before", [False, True])
@pytest.mark.parametrize("which", ["input", "result"])
def test_a_replay_follows_a_storage_to_larger_memory(x, which, run_before):
    copied = x.clone()
    graph, y = _capture_graph(lambda: x * 2)
    if run_before:
        graph.replay()
    tensor = x if which == "input" else y
    address = tensor.data_ptr()
    tensor.untyped_storage().resize_(4096)
    block = _tensor_at(address, copied)
    assert tensor.tolist() == [1.0 if which == "input" else 2.0] * 8
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay(asynchronous=True)
        assert y.tolist() == [2 * value] * 8
    assert block.tolist() == [7.0] * 8
    assert graph._graph.accesses(x) and not graph._graph.accesses(block)


def test_memory_freed_in_the_capture_belongs_to_the_graph(x):
    def free_a_temporary():
        first = x * 2
        result = first + 1
        address = first.data_ptr()
        first.untyped_storage().resize_(0)
        return first, result, address

    graph, (first, result, address) = _capture_graph(free_a_temporary)
    block = _tensor_at(address, x)
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        assert result.tolist() == [2 * value + 1] * 8
    assert block.tolist() == [7.0] * 8 and first.untyped_storage().nbytes() == 0


def test_memory_may_be_freed_and_allocated_in_the_capture(x):
    """The captured function resizes a storage to 0 bytes and back, as libraries that shard parameters do."""

    def free_and_allocate_again():
        weight = x * 2
        first = weight + 1
        size = weight.untyped_storage().nbytes()
        weight.untyped_storage().resize_(0)
        between = x * 10
        weight.untyped_storage().resize_(size)
        torch.mul(x, 3, out=weight)
        return first, between, weight, weight + 1

    graph, results = _capture_graph(free_and_allocate_again)
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        values = [result[0].item() for result in results]
        assert values == [2 * value + 1, 10 * value, 3 * value, 3 * value + 1]


RESIZED = "a storage with values was resized during hpu graph capturing, which a replay cannot repeat; move"
GROWN = "aten::resize_ cannot be part of an HPU graph: the operator moves a tensor to larger memory"


@pytest.mark.parametrize(("size", "message"), [(0, RESIZED), (16, RESIZED), (64, GROWN)])
def test_resize_of_earlier_values_raises_in_a_capture(x, device_works, size, message):
    y = x + 1
    with pytest.raises(RuntimeError, match=message):
        _capture_graph(lambda: (y * 2, y.untyped_storage().resize_(size)))


@pytest.mark.parametrize(("size", "message"), [(16, RESIZED), (64, GROWN)])
def test_resize_of_captured_values_raises_in_a_capture(x, device_works, size, message):
    with pytest.raises(RuntimeError, match=message):
        _capture_graph(lambda: (x * 2).untyped_storage().resize_(size))


def test_dry_run_does_not_restore_freed_memory(x, device_works):
    copied, blocks = x.clone(), []

    def free_the_input():
        address = x.data_ptr()
        x.add_(1)
        x.untyped_storage().resize_(0)
        with hpu.stream(hpu.default_stream()):
            blocks.append(_tensor_at(address, copied))

    with pytest.raises(RuntimeError, match="resized during hpu graph capturing"):
        _capture_graph(free_the_input, dry_run=True)
    assert blocks[0].tolist() == [7.0] * 8


@pytest.mark.parametrize("to_host", [False, True])
def test_host_memory_that_is_too_small(x, to_host):
    pinned = torch.ones(8, pin_memory=True)

    def copy_pinned():
        (pinned if to_host else x).copy_(x if to_host else pinned, non_blocking=True)

    graph, _ = _capture_graph(copy_pinned)
    size = pinned.untyped_storage().nbytes()
    pinned.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="resized to 0 bytes, but the graph needs 32"):
        graph.replay()
    pinned.untyped_storage().resize_(size)
    pinned.fill_(6)
    x.fill_(6)
    graph.replay()
    hpu.synchronize()
    assert x.tolist() == pinned.tolist() == [6.0] * 8


def test_results_of_a_function_need_no_memory_of_the_capture(x):
    graph = C.Graph()
    graph.begin()
    y = x * 2
    graph.end()
    y.untyped_storage().resize_(0)
    graph.set_io_binding([x], [y])
    (result,) = graph.call([torch.full((8,), 4.0, device="hpu")])
    assert result.tolist() == [8.0] * 8 and result.untyped_storage().nbytes() == 32
