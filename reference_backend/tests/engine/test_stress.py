"""Test many threads, streams and operators: values match the CPU, and all memory is freed."""

from __future__ import annotations

import os
import random
import threading

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu

# Factor of the amount of work: HPU_REFERENCE_STRESS=20 runs twenty times as many seeds and allocations.
FACTOR = int(os.environ.get("HPU_REFERENCE_STRESS", "1"))


class _ValueWithCpuCopy:
    """A device tensor, the expected values on the CPU, and an event recorded after the last use."""

    def __init__(self, device, cpu):
        self.device = device
        self.cpu = cpu
        self.event = hpu.current_stream().record_event()


class _StressThread:
    """A random program of one thread on several streams. Each step also runs on the CPU."""

    def __init__(self, seed, streams, steps):
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.streams = streams
        self.steps = steps
        self.error = None
        self.values = []
        self.used = []
        self.checked = 0

    def run_steps(self):
        try:
            for _ in range(self.steps):
                while len(self.values) < 4:
                    host = torch.rand(8, self.rng.choice((8, 8, 8, 300)), generator=self.generator)
                    self.values.append(_ValueWithCpuCopy(host.to("hpu"), host.clone()))
                hpu.set_stream(self.rng.choice(self.streams))
                self.run_random_step()
                for value in self.used:
                    value.event = hpu.current_stream().record_event()
                self.used.clear()
                if len(self.values) > 24:
                    del self.values[0]
            for value in self.values:
                self.compare_with_cpu(value)
        except BaseException as error:
            self.error = error

    def wait_and_use(self, value):
        """Make the current stream wait for the last use of `value`. Return its device and CPU tensors."""
        hpu.current_stream().wait_event(value.event)
        value.device.record_stream(hpu.current_stream())
        self.used.append(value)
        return value.device, value.cpu

    def compare_with_cpu(self, value):
        device, cpu = self.wait_and_use(value)
        actual = device.cpu()
        assert torch.equal(actual, cpu), (actual - cpu).abs().max()
        self.checked += 1

    def add_value(self, device, cpu):
        self.values.append(_ValueWithCpuCopy(device, cpu))

    def run_random_step(self):
        rng = self.rng
        value = rng.choice(self.values)
        choice = rng.random()
        if choice > 0.82:
            self.values.remove(value)
            return
        if choice > 0.78:
            value.event.synchronize()
            assert value.event.query()
            return
        device, cpu = self.wait_and_use(value)
        if choice < 0.15:
            self.add_value(device * 1.5, cpu * 1.5)
        elif choice < 0.25:
            self.add_value(device.sin() + 1, cpu.sin() + 1)
        elif choice < 0.4:
            more_device, more_cpu = self.wait_and_use(rng.choice(self.values))
            if more_cpu.shape == cpu.shape:
                self.add_value(device - more_device, cpu - more_cpu)
            else:
                self.add_value(device[:, :8] @ more_device, cpu[:, :8] @ more_cpu)
        elif choice < 0.5:
            self.add_value(device.t()[:8].flip(0), cpu.t()[:8].flip(0))
        elif choice < 0.65:
            number = rng.random()
            device[2:4].mul_(number)
            cpu[2:4].mul_(number)
        elif choice < 0.72:
            host = torch.rand(cpu.shape, generator=self.generator)
            device.copy_(host.pin_memory(), non_blocking=True)
            cpu.copy_(host)
        else:
            self.compare_with_cpu(value)


def _run_workers_in_threads(workers):
    threads = [threading.Thread(target=worker.run_steps, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), C.engine_counters()
    for worker in workers:
        if worker.error is not None:
            raise worker.error
        assert worker.checked > 0


@pytest.mark.parametrize("seed", range(3 * FACTOR))
@pytest.mark.parametrize("delay", [-1, 0, 50])
def test_threads_with_streams_of_their_own(seed, delay):
    C.set_queue_all(delay, seed)
    before = C.engine_counters()
    _run_workers_in_threads(
        [_StressThread(100 * seed + i, [hpu.Stream() for _ in range(3)], 300) for i in range(4)]
    )
    hpu.synchronize()
    after = C.engine_counters()
    assert after["pending"] == 0
    assert (after["queued"] - before["queued"] > 500) == (delay >= 0)


@pytest.mark.parametrize("seed", range(3 * FACTOR))
def test_threads_that_share_streams(seed):
    C.set_queue_all(30, seed)
    streams = [hpu.default_stream(), *(hpu.Stream() for _ in range(2))]
    _run_workers_in_threads([_StressThread(100 * seed + i, streams, 200) for i in range(6)])


def test_more_streams_than_queues():
    C.set_queue_all(20, 5)
    _run_workers_in_threads([_StressThread(i, [hpu.Stream() for _ in range(20)], 300) for i in range(3)])


def test_storm_of_allocations():
    """Allocate many sizes on several streams. No two live tensors share memory. All memory is freed."""
    hpu.synchronize()
    before = torch.hpu.memory_allocated()
    C.set_queue_all(5, 1)
    errors = []

    def allocate_and_check(seed):
        rng = random.Random(seed)
        hpu.set_stream(hpu.Stream())
        live_tensors = []
        try:
            for turn in range(1500 * FACTOR):
                size = rng.choice((1, 17, 100, 1000, 1024, 5000, 70000))
                number = float(seed * 100000 + turn)
                live_tensors.append((torch.full((size,), number, device="hpu"), number))
                if len(live_tensors) > 30:
                    tensor, number = live_tensors.pop(rng.randrange(len(live_tensors)))
                    if rng.random() < 0.1:
                        assert tensor.eq(number).all().item(), (size, number)
            for tensor, number in live_tensors:
                assert tensor.eq(number).all().item()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=allocate_and_check, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    C.set_queue_all(-1)
    hpu.synchronize()
    assert not errors, errors[0]
    assert torch.hpu.memory_allocated() == before


def test_events_between_many_threads():
    """Let eight threads, each with its own stream, update one tensor in turns."""
    C.set_queue_all(20, 3)
    count = 8
    streams = [hpu.Stream() for _ in range(count)]
    value = torch.zeros(10, device="hpu")
    hpu.synchronize()
    events = [None] * (count * 60)
    ready = [threading.Event() for _ in events]

    def add_in_turn(index):
        hpu.set_stream(streams[index])
        for turn in range(index, len(events), count):
            if turn:
                ready[turn - 1].wait(60)
                streams[index].wait_event(events[turn - 1])
            value.add_(1).mul_(2).sub_(value * 0.5)
            events[turn] = streams[index].record_event()
            ready[turn].set()

    threads = [threading.Thread(target=add_in_turn, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events[-1].synchronize()
    expected = torch.zeros(10)
    for _ in events:
        expected.add_(1).mul_(2).sub_(expected * 0.5)
    assert torch.equal(value.cpu(), expected)


@pytest.mark.parametrize("threads", [1, 4])
def test_switching_the_pipeline_while_work_is_queued(threads):
    stop = threading.Event()

    def switch_settings():
        turn = 0
        while not stop.is_set():
            C.set_pipeline(turn % 2 == 0)
            C.set_queue_all(turn % 3 * 10 - 1, turn)
            turn += 1

    switching = threading.Thread(target=switch_settings)
    switching.start()
    try:
        _run_workers_in_threads(
            [_StressThread(i, [hpu.Stream() for _ in range(2)], 150) for i in range(threads)]
        )
    finally:
        stop.set()
        switching.join()


def test_deferred_matmuls_have_the_bits_of_inline_matmuls():
    """Deferred work uses the same number of threads, and therefore the same rounding, as the host."""
    x = torch.rand(700, 700, device="hpu")
    small = torch.full((1000,), 1e-39, device="hpu")
    inline = [(x @ x).cpu(), x.sum().cpu(), torch.softmax(x, 0).cpu()]
    C.set_queue_all(10, 1)
    for _ in range(3):
        queued = [x @ x, x.sum(), torch.softmax(x, 0)]
        assert all(torch.equal(a.cpu(), b) for a, b in zip(queued, inline, strict=True))
    assert (small * 1.0).cpu().ne(0).all()
    if torch.set_flush_denormal(True):
        try:
            assert (small * 1.0).cpu().eq(0).all()
        finally:
            torch.set_flush_denormal(False)
    assert (small * 1.0).cpu().ne(0).all()
