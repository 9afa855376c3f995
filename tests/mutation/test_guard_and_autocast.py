"""Mutants of torch's device guard and of autocast have an effect while they are enabled, and no effect after
they are disabled.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance.target import file as target_file
from tools.mutation import interposer
from tools.mutation.injectors import python_module
from tools.mutation.injectors.autocast import AutocastInjector
from tools.mutation.injectors.device_guard import DeviceGuardInjector
from tools.mutation.injectors.injector import Injector
from tools.mutation.mutant import Mutant

pytestmark = pytest.mark.skipif(
    "CONFORMANCE_POWER_BUILD" not in os.environ,
    reason="needs CONFORMANCE_POWER_BUILD, a folder for the interposer",
)

# Mutants of the device guard need a device with streams. Torch looks up a device's guard only once, so the
# device must be imported before any test runs.
core = pytest.importorskip("habana_frameworks.torch")._C

#: Seconds of work that `busy` queues on a stream.
LONG = 0.2


@pytest.fixture(scope="module")
def autocast_injector() -> Iterator[AutocastInjector]:
    extension = interposer.build_and_load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    yield AutocastInjector("cpu", "CPU", extension, {"float32": ("mse_loss",)})


@pytest.fixture(scope="module")
def device_guard_injector() -> Iterator[DeviceGuardInjector]:
    extension = interposer.build_and_load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    yield DeviceGuardInjector("hpu", extension)


def take_triggered_mutants(injector: Injector) -> set[str]:
    return {
        f"{fault.point} {fault.operator}"
        for fault in (injector.mutants[n] for n, _ in injector.take_observed().triggered)
    }


def autocast_mm(weight: torch.Tensor, value: float = 2.0) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.mm(torch.full((2, 2), value), weight)


def test_autocast_without_a_cast(autocast_injector: AutocastInjector) -> None:
    weight = torch.ones(2, 2)
    autocast_injector.enable(Mutant("autocast::aten::mm", "cast-missing"))
    assert autocast_mm(weight).dtype == torch.float32
    torch.mm(weight, weight)
    counts = autocast_injector.disable()
    assert (counts.triggered, counts.altered) == (1, 1)
    assert autocast_mm(weight).dtype == torch.bfloat16


def test_autocast_to_the_other_dtype(autocast_injector: AutocastInjector) -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    autocast_injector.enable(Mutant("autocast::aten::mm", "cast-to-other-dtype"))
    result = autocast_mm(weight)
    assert autocast_injector.disable().altered == 1
    assert result.dtype == torch.float16
    result.sum().backward()
    assert weight.grad is not None
    assert autocast_mm(weight).dtype == torch.bfloat16


def test_autocast_of_a_stale_weight(autocast_injector: AutocastInjector) -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    autocast_injector.enable(Mutant("autocast::aten::mm", "cast-stale"))
    first = autocast_mm(weight)
    with torch.no_grad():
        weight.mul_(2)
    assert torch.equal(autocast_mm(weight), first)
    assert autocast_injector.disable().altered == 1
    assert torch.equal(weight.detach(), torch.full((2, 2), 2.0))
    assert torch.equal(autocast_mm(weight), first * 2)


def test_an_operator_that_autocast_runs_in_float32_has_no_other_dtype_mutant(
    autocast_injector: AutocastInjector,
) -> None:
    kinds = {
        fault.operator for fault in autocast_injector.mutants if fault.point == "autocast::aten::mse_loss"
    }
    assert kinds == {"cast-missing", "cast-stale"}


def test_a_coverage_run_records_triggered_autocast_mutants(autocast_injector: AutocastInjector) -> None:
    autocast_injector.take_observed()
    autocast_injector.observe(True)
    autocast_mm(torch.ones(2, 2))
    autocast_injector.observe(False)
    assert take_triggered_mutants(autocast_injector) == {
        "autocast::aten::mm cast-missing",
        "autocast::aten::mm cast-to-other-dtype",
    }
    autocast_mm(torch.ones(2, 2))
    assert take_triggered_mutants(autocast_injector) == set()


def busy_stream() -> torch.Stream:
    stream = torch.Stream(device="hpu")
    with stream:
        core.enqueue_delay(LONG)
    return stream


def event_of_busy_stream_is_done() -> bool:
    event = torch.Event(device="hpu")
    event.record(busy_stream())
    return event.query()


def busy_stream_is_idle() -> bool:
    return busy_stream().query()


def stream_is_idle_after_wait() -> bool:
    stream = busy_stream()
    stream.synchronize()
    return stream.query()


def event_is_done_after_wait() -> bool:
    stream, event = busy_stream(), torch.Event(device="hpu")
    event.record(stream)
    event.synchronize()
    return event.query()


def waiting_stream_is_idle() -> bool:
    """Return whether a stream is idle although it waits for an event of a busy stream."""
    event, stream = torch.Event(device="hpu"), torch.Stream(device="hpu")
    event.record(busy_stream())
    stream.wait_event(event)
    done = torch.Event(device="hpu")
    done.record(stream)
    return done.query()


def stream_context_sets_current_stream() -> bool:
    stream = torch.Stream(device="hpu")
    with stream:
        return torch.accelerator.current_stream() == stream


@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
def test_a_stream_context_that_does_not_set_the_stream(method: str) -> None:
    injector = python_module.python_module_injector(target_file.load("hpu-reference").target("eager"))
    kind = "context-not-entered" if method == "__enter__" else "context-not-left"
    outer, stream = torch.accelerator.current_stream(), torch.Stream(device="hpu")
    injector.enable(Mutant(f"module::StreamContext.{method}", kind))
    with torch.get_device_module("hpu").stream(stream):
        assert (torch.accelerator.current_stream() == stream) == (method == "__exit__")
    assert (torch.accelerator.current_stream() == outer) == (method == "__enter__")
    torch.accelerator.set_stream(outer)
    counts = injector.disable()
    assert (counts.triggered, counts.altered) == (1, 1)


def new_streams_differ() -> bool:
    return torch.Stream(device="hpu") != torch.Stream(device="hpu")


def sign_of_elapsed_time() -> float:
    begin, end = (torch.Event(device="hpu", enable_timing=True) for _ in range(2))
    stream = busy_stream()
    begin.record(stream)
    end.record(stream)
    with stream:
        core.enqueue_delay(0.01)
    end.record(stream)
    stream.synchronize()
    milliseconds = begin.elapsed_time(end)
    # About 10 ms pass between the events, or more on a busy machine.
    return math.copysign(10.0, milliseconds) if abs(milliseconds) > 5 else 0.0


@pytest.mark.parametrize(
    ("point", "kind", "ask", "right", "wrong"),
    [
        ("record", "on-an-idle-stream", event_of_busy_stream_is_done, False, True),
        ("queryEvent", "ready-too-early", event_of_busy_stream_is_done, False, True),
        ("queryEvent", "query-waits", event_of_busy_stream_is_done, False, True),
        ("queryStream", "ready-too-early", busy_stream_is_idle, False, True),
        ("queryStream", "query-waits", busy_stream_is_idle, False, True),
        ("queryStream", "never-ready", stream_is_idle_after_wait, True, False),
        ("synchronizeStream", "wait-dropped", stream_is_idle_after_wait, True, False),
        ("synchronizeEvent", "wait-dropped", event_is_done_after_wait, True, False),
        ("block", "wait-dropped", waiting_stream_is_idle, False, True),
        ("block", "host-waits", waiting_stream_is_idle, False, True),
        ("exchangeStream", "stream-not-set", stream_context_sets_current_stream, True, False),
        ("getStream", "default-returned", stream_context_sets_current_stream, True, False),
        ("getNewStream", "one-stream", new_streams_differ, True, False),
        ("elapsedTime", "time-zero", sign_of_elapsed_time, 10.0, 0.0),
        ("elapsedTime", "time-negative", sign_of_elapsed_time, 10.0, -10.0),
    ],
)
def test_a_mutant_of_the_guard(
    device_guard_injector: DeviceGuardInjector,
    point: str,
    kind: str,
    ask: Callable[[], Any],
    right: Any,
    wrong: Any,
) -> None:
    device_guard_injector.take_observed()
    device_guard_injector.observe(True)
    assert ask() == right
    device_guard_injector.observe(False)
    torch.accelerator.synchronize()
    assert f"guard::{point} {kind}" in take_triggered_mutants(device_guard_injector)
    device_guard_injector.enable(Mutant(f"guard::{point}", kind))
    result = ask()
    assert device_guard_injector.disable().altered > 0
    torch.accelerator.synchronize()
    assert result == wrong
    assert ask() == right
    torch.accelerator.synchronize()
    assert take_triggered_mutants(device_guard_injector) == set()


def value_copied_from_busy_stream() -> float:
    """Return the first element of a copy to the host that starts while the stream is busy."""
    x, host = torch.ones(4, device="hpu"), torch.zeros(4)
    torch.accelerator.synchronize()
    with busy_stream():
        host.copy_(x)
    return host[0].item()


def test_a_copy_that_does_not_wait_for_work_in_progress() -> None:
    extension = interposer.build_and_load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    fault_index = 0
    while True:  # find an index that is no mutation point of another test
        try:
            extension.set_observed(fault_index, [])
        except IndexError:
            break
        fault_index += 1
    extension.install("HPU", ["aten::copy_"])
    assert value_copied_from_busy_stream() == 1.0
    extension.activate(fault_index, ("host-not-awaited", 0, 0, -1))
    assert value_copied_from_busy_stream() == 0.0
    assert extension.deactivate() == (1, 1)
    assert value_copied_from_busy_stream() == 1.0
