"""Test that work on different streams is ordered by the memory that it accesses, without explicit waits."""

from __future__ import annotations

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu
SIZE = 2000


@pytest.fixture
def side(cache_output_metadata):
    """Return a stream. The engine has cached the output metadata of the operators of these tests."""
    value = torch.ones(SIZE, device="hpu")
    second_tensor = torch.ones(SIZE, device="hpu")
    whole = torch.zeros(2 * SIZE, device="hpu")
    cache_output_metadata(
        lambda: (value * 2, value + 1, value.sum(), second_tensor.copy_(value), whole[:SIZE].copy_(value))
    )
    cache_output_metadata(
        lambda: (whole.view(2, SIZE)[0] + 1, [value.fill_(number) for number in (-1, 4, 8)])
    )
    return hpu.Stream()


def _filled_tensor(value):
    return torch.full((SIZE,), float(value), device="hpu")


def _start_behind_gate(stream, enqueue_gate, work):
    """Issue `work` on the stream behind a closed gate, and return the gate and the result."""
    with hpu.stream(stream):
        closed = enqueue_gate()
        return closed, work()


def test_read_after_write(side, enqueue_gate):
    source = _filled_tensor(3)
    closed, doubled = _start_behind_gate(side, enqueue_gate, lambda: source * 2)
    read = doubled + 1
    closed.open()
    assert read.eq(7).all()


def test_write_after_read(side, enqueue_gate):
    source = _filled_tensor(3)
    closed, doubled = _start_behind_gate(side, enqueue_gate, lambda: source * 2)
    source.fill_(-1)
    closed.open()
    side.synchronize()
    assert doubled.eq(6).all() and source.eq(-1).all()


def test_write_after_write(side, enqueue_gate):
    target, source = _filled_tensor(0), _filled_tensor(5)
    closed, _ = _start_behind_gate(side, enqueue_gate, lambda: target.copy_(source))
    target.fill_(8)
    closed.open()
    side.synchronize()
    assert target.eq(8).all()


def test_readers_do_not_wait_for_each_other(side, enqueue_gate):
    source = _filled_tensor(3)
    closed, doubled = _start_behind_gate(side, enqueue_gate, lambda: source * 2)
    assert (source + 1).eq(4).all()  # the value reaches the host while the gate is closed
    closed.open()
    side.synchronize()
    assert doubled.eq(6).all()


def test_views_are_ordered_by_their_storage(side, enqueue_gate):
    whole = torch.zeros(2 * SIZE, device="hpu")
    source = _filled_tensor(5)
    closed, _ = _start_behind_gate(side, enqueue_gate, lambda: whole[:SIZE].copy_(source))
    read = whole.view(2, SIZE)[0] + 1
    closed.open()
    assert read.eq(6).all()


@pytest.mark.parametrize("read", ["item", "cpu", "nonzero", "new operator", "pinned", "resize"])
def test_the_host_waits_for_the_memory_that_it_reads(side, read):
    with hpu.stream(side):
        C.enqueue_delay(0.05)
        doubled = _filled_tensor(1) * 2
    if read == "item":
        assert doubled.sum().item() == 2 * SIZE
    elif read == "cpu":
        assert doubled.cpu().eq(2).all()
    elif read == "nonzero":
        assert len(doubled.nonzero()) == SIZE
    elif read == "new operator":
        assert torch.logit(doubled / 4, 0.125).eq(0).all()
    elif read == "pinned":
        host = torch.empty(SIZE).pin_memory()
        host.copy_(doubled, non_blocking=True)
        hpu.current_stream().synchronize()
        assert host.eq(2).all()
    else:
        doubled.untyped_storage().resize_(8 * SIZE)
        assert doubled.cpu().eq(2).all()


def test_a_copy_from_the_host_waits_for_readers(side, enqueue_gate):
    source = _filled_tensor(3)
    host = torch.full((SIZE,), 9.0).pin_memory()
    closed, doubled = _start_behind_gate(side, enqueue_gate, lambda: source * 2)
    source.copy_(host, non_blocking=True)
    closed.open()
    hpu.synchronize()
    assert doubled.eq(6).all() and source.eq(9).all()


def test_freed_memory_stays_until_its_readers_have_run(side, enqueue_gate):
    source = [_filled_tensor(3)]
    closed, doubled = _start_behind_gate(side, enqueue_gate, lambda: source[0] * 2)
    source.clear()
    with hpu.stream(hpu.Stream()):
        new_tensors = [_filled_tensor(-1) for _ in range(8)]
    new_tensors += [_filled_tensor(-1) for _ in range(8)]
    closed.open()
    side.synchronize()
    assert doubled.eq(6).all() and all(tensor.eq(-1).all() for tensor in new_tensors)


def test_freed_memory_is_returned(side, enqueue_gate):
    hpu.synchronize()
    before = hpu.memory_allocated()
    source = [_filled_tensor(3)]
    closed, doubled = _start_behind_gate(side, enqueue_gate, lambda: source[0] * 2)
    source.clear()
    closed.open()
    side.synchronize()
    del doubled
    assert hpu.memory_allocated() == before


def test_a_chain_over_three_streams(side, enqueue_gate):
    streams = [side, hpu.Stream(), hpu.Stream()]
    value = _filled_tensor(1)
    closed, value = _start_behind_gate(side, enqueue_gate, lambda: value + 1)
    for turn in range(9):
        with hpu.stream(streams[turn % 3]):
            value = value * 2
    closed.open()
    assert value.eq(2 * 2**9).all()


def test_a_replay_reads_what_another_stream_writes(side, enqueue_gate):
    x = _filled_tensor(0)
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        y = x * 2
    closed, _ = _start_behind_gate(side, enqueue_gate, lambda: x.fill_(4))
    graph.replay()
    closed.open()
    assert y.eq(8).all()


def test_a_replay_on_another_stream_writes_what_is_read_here(side, enqueue_gate):
    x = _filled_tensor(0)
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        y = x * 2
    x.fill_(4)
    closed, _ = _start_behind_gate(side, enqueue_gate, graph.replay)
    read = y + 1
    closed.open()
    assert read.eq(9).all()


@pytest.mark.parametrize("executable", ["fused", "interpreted"])
def test_a_compiled_function_reads_what_another_stream_writes(side, executable):
    function = torch.compile(
        lambda a: a * 2.0 + 1.0, backend="hpu_backend", options={"executable": executable}
    )
    x = _filled_tensor(1)
    for _ in range(2):
        function(x)
    with hpu.stream(side):
        C.enqueue_delay(0.05)
        x.fill_(4)
    assert function(x).eq(9).all()


def test_a_gradient_that_a_side_stream_reduces(side):
    weight = torch.ones(SIZE, device="hpu", requires_grad=True)
    for step in range(1, 4):
        (weight * float(step)).sum().backward()
        with hpu.stream(side):
            C.enqueue_delay(0.02)
            reduced = weight.grad * 2
        weight.grad = None
        assert reduced.eq(2 * step).all()


@pytest.mark.parametrize("late", [False, True])
def test_an_error_is_thrown_by_the_reader_of_its_values(side, cache_output_metadata, late):
    """The error is raised once, whether or not the failed work has run before the values are read."""
    index, bad = torch.tensor([3], device="hpu"), torch.tensor([SIZE], device="hpu")
    source, target = _filled_tensor(1), torch.zeros(1, device="hpu")
    cache_output_metadata(lambda: torch.index_select(source, 0, index, out=target))
    with hpu.stream(side):
        C.enqueue_delay(0.05)
        torch.index_select(source, 0, bad, out=target)
    if late:
        while not side.query():
            pass
    assert source.cpu().eq(1).all()  # the failed work did not write this tensor
    with pytest.raises(IndexError, match="out of range"):
        target.cpu()
    target.cpu()
    hpu.synchronize()


PROGRAM = """
side = torch.hpu.Stream()
ones = torch.ones(1000, device='hpu')
def produced(i):
    with torch.hpu.stream(side):
        ht._C.enqueue_delay(0.05)
        a = ones * float(i)
    b = a * 2.0
    torch.hpu.synchronize()
    return bool((b == 2 * i).all())
def freed(i):
    a = ones * float(i)
    torch.hpu.synchronize()
    with torch.hpu.stream(side):
        ht._C.enqueue_delay(0.05)
        o = a * 1.0
    del a
    kept = [torch.full((1000,), -1.0, device='hpu') for _ in range(4)]
    torch.hpu.synchronize()
    return bool((o == i).all())
for function in (produced, freed):
    for i in (1, 2, 3):
        function(i)
    print(function.__name__, all(function(i) for i in range(1, 6)))
"""


@pytest.mark.parametrize("order", [None, "memory", "events"])
def test_a_variable_selects_the_order(output_of, order):
    """With ``events`` (the rule of CUDA), a program without waits computes wrong values."""
    environment = {} if order is None else {"HPU_REFERENCE_STREAM_ORDER": order}
    lines = output_of("import torch, habana_frameworks.torch as ht\n" + PROGRAM, **environment).splitlines()
    right = order != "events"
    assert lines == [f"produced {right}", f"freed {right}"]


def test_an_unknown_order_raises(run_python):
    done = run_python(
        "import torch, habana_frameworks.torch as ht\n" + PROGRAM, HPU_REFERENCE_STREAM_ORDER="time"
    )
    assert done.returncode != 0 and "HPU_REFERENCE_STREAM_ORDER='time' is not a stream order" in done.stderr


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_lazy_graphs_are_ordered_too(output_of, mode):
    code = f"import torch, habana_frameworks.torch as ht\nht._C.lazy_start({mode}, 5)\n{PROGRAM}"
    assert output_of(code).splitlines() == ["produced True", "freed True"]
