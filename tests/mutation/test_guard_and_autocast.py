"""Mutants of the device guard and of autocast: their effect while they are active, and no effect
afterwards.
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

# The device guard belongs to a device with streams, which torch looks up only once.
core = pytest.importorskip("habana_frameworks.torch")._C

#: Seconds of work on a stream.
LONG = 0.2


@pytest.fixture(scope="module")
def casts() -> Iterator[AutocastInjector]:
    extension = interposer.load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    yield AutocastInjector("cpu", "CPU", extension, {"float32": ("mse_loss",)})


@pytest.fixture(scope="module")
def streams() -> Iterator[DeviceGuardInjector]:
    extension = interposer.load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    yield DeviceGuardInjector("hpu", extension)


def names(injector: Injector) -> set[str]:
    return {
        f"{fault.point} {fault.operator}"
        for fault in (injector.mutants[n] for n, _ in injector.take_observed().triggered)
    }


def cast(weight: torch.Tensor, value: float = 2.0) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.mm(torch.full((2, 2), value), weight)


def test_autocast_without_a_cast(casts: AutocastInjector) -> None:
    weight = torch.ones(2, 2)
    casts.enable(Mutant("autocast::aten::mm", "cast-missing"))
    assert cast(weight).dtype == torch.float32
    torch.mm(weight, weight)
    counts = casts.disable()
    assert (counts.triggered, counts.altered) == (1, 1)
    assert cast(weight).dtype == torch.bfloat16


def test_autocast_to_the_other_dtype(casts: AutocastInjector) -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    casts.enable(Mutant("autocast::aten::mm", "cast-to-other-dtype"))
    result = cast(weight)
    assert casts.disable().altered == 1
    assert result.dtype == torch.float16
    result.sum().backward()
    assert weight.grad is not None
    assert cast(weight).dtype == torch.bfloat16


def test_autocast_of_a_weight_as_it_was(casts: AutocastInjector) -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    casts.enable(Mutant("autocast::aten::mm", "cast-stale"))
    first = cast(weight)
    with torch.no_grad():
        weight.mul_(2)
    assert torch.equal(cast(weight), first)
    assert casts.disable().altered == 1
    assert torch.equal(weight.detach(), torch.full((2, 2), 2.0))
    assert torch.equal(cast(weight), first * 2)


def test_what_is_declared_for_float32_has_no_other_dtype_to_be_cast_to(casts: AutocastInjector) -> None:
    kinds = {fault.operator for fault in casts.mutants if fault.point == "autocast::aten::mse_loss"}
    assert kinds == {"cast-missing", "cast-stale"}


def test_learning_sees_what_autocast_could_do_wrong(casts: AutocastInjector) -> None:
    casts.take_observed()
    casts.observe(True)
    cast(torch.ones(2, 2))
    casts.observe(False)
    assert names(casts) == {
        "autocast::aten::mm cast-missing",
        "autocast::aten::mm cast-to-other-dtype",
    }
    cast(torch.ones(2, 2))
    assert names(casts) == set()


def busy() -> torch.Stream:
    stream = torch.Stream(device="hpu")
    with stream:
        core.enqueue_delay(LONG)
    return stream


def recorded_and_asked() -> bool:
    event = torch.Event(device="hpu")
    event.record(busy())
    return event.query()


def stream_asked() -> bool:
    return busy().query()


def stream_waited_for() -> bool:
    stream = busy()
    stream.synchronize()
    return stream.query()


def event_waited_for() -> bool:
    stream, event = busy(), torch.Event(device="hpu")
    event.record(stream)
    event.synchronize()
    return event.query()


def waits_in_vain() -> bool:
    """Return whether a stream is idle although it waits for an event that was not recorded yet."""
    event, stream = torch.Event(device="hpu"), torch.Stream(device="hpu")
    event.record(busy())
    stream.wait_event(event)
    done = torch.Event(device="hpu")
    done.record(stream)
    return done.query()


def set_for_a_while() -> bool:
    stream = torch.Stream(device="hpu")
    with stream:
        return torch.accelerator.current_stream() == stream


def left() -> bool:
    outer, stream = torch.accelerator.current_stream(), torch.Stream(device="hpu")
    with stream:
        pass
    after = torch.accelerator.current_stream()
    torch.accelerator.set_stream(outer)
    return after == outer


@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
def test_a_context_of_streams_that_sets_nothing(method: str) -> None:
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


def are_two() -> bool:
    return torch.Stream(device="hpu") != torch.Stream(device="hpu")


def elapsed() -> float:
    begin, end = (torch.Event(device="hpu", enable_timing=True) for _ in range(2))
    stream = busy()
    begin.record(stream)
    end.record(stream)
    with stream:
        core.enqueue_delay(0.01)
    end.record(stream)
    stream.synchronize()
    milliseconds = begin.elapsed_time(end)
    return math.copysign(10.0, milliseconds) if abs(milliseconds) > 5 else 0.0  # a busy machine takes longer


@pytest.mark.parametrize(
    ("point", "kind", "ask", "right", "wrong"),
    [
        ("record", "on-an-idle-stream", recorded_and_asked, False, True),
        ("queryEvent", "ready-too-early", recorded_and_asked, False, True),
        ("queryEvent", "query-waits", recorded_and_asked, False, True),
        ("queryStream", "ready-too-early", stream_asked, False, True),
        ("queryStream", "query-waits", stream_asked, False, True),
        ("queryStream", "never-ready", stream_waited_for, True, False),
        ("synchronizeStream", "wait-dropped", stream_waited_for, True, False),
        ("synchronizeEvent", "wait-dropped", event_waited_for, True, False),
        ("block", "wait-dropped", waits_in_vain, False, True),
        ("block", "host-waits", waits_in_vain, False, True),
        ("exchangeStream", "stream-not-set", set_for_a_while, True, False),
        ("getStream", "default-returned", set_for_a_while, True, False),
        ("getNewStream", "one-stream", are_two, True, False),
        ("elapsedTime", "time-zero", elapsed, 10.0, 0.0),
        ("elapsedTime", "time-negative", elapsed, 10.0, -10.0),
    ],
)
def test_a_fault_of_the_guard(
    streams: DeviceGuardInjector, point: str, kind: str, ask: Callable[[], Any], right: Any, wrong: Any
) -> None:
    streams.take_observed()
    streams.observe(True)
    assert ask() == right
    streams.observe(False)
    torch.accelerator.synchronize()
    assert f"guard::{point} {kind}" in names(streams)
    streams.enable(Mutant(f"guard::{point}", kind))
    result = ask()
    assert streams.disable().altered > 0
    torch.accelerator.synchronize()
    assert result == wrong
    assert ask() == right
    torch.accelerator.synchronize()
    assert names(streams) == set()


def copied_at_once() -> float:
    """Return the values that a copy to the host reads while the stream is busy."""
    x, host = torch.ones(4, device="hpu"), torch.zeros(4)
    torch.accelerator.synchronize()
    with busy():
        host.copy_(x)
    return host[0].item()


def test_a_copy_that_does_not_wait_for_work_in_progress() -> None:
    extension = interposer.load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    fault_index = 0
    while True:  # mutation points of other tests come first
        try:
            extension.set_observed(fault_index, [])
        except IndexError:
            break
        fault_index += 1
    extension.install("HPU", ["aten::copy_"])
    assert copied_at_once() == 1.0
    extension.activate(fault_index, ("host-not-awaited", 0, 0, -1))
    assert copied_at_once() == 0.0
    assert extension.deactivate() == (1, 1)
    assert copied_at_once() == 1.0
