"""Every property of a device API fails on a device that violates the property, and passes on a correct
device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from conformance.device import api as device_api
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, Result, ResultId, Verdict
from conformance.properties.registry import find_property, properties
from conformance.subjects.torch_databases import DEVICE, Subject
from conformance.target.target import Target
from tests.support import fake_device, fake_profile

Api = type[fake_device.FakeDeviceApi]
GOOD, GRAPH = fake_profile.ProfilingDeviceApi, fake_device.StreamGraph


#: Faults of a device API or of a device graph: (property that must fail, subject, expected kind of failure,
#: device API, graph class).
FAULTS: list[tuple[str, str, Kind, Api, type[Any]]] = [
    ("stream_order", "Stream", Kind.VALUE, fake_device.RunsNewestWorkFirst, GRAPH),
    ("event_order", "Event", Kind.VALUE, fake_device.IgnoresWaitsForEvents, GRAPH),
    ("event_timing", "Event", Kind.VALUE, fake_device.ElapsedTimeOfEndEvent, GRAPH),
    ("event_timing", "Event", Kind.VALUE, fake_device.ElapsedTimeIsZero, GRAPH),
    ("event_timing", "Event", Kind.VALUE, fake_device.ElapsedTimeInMicroseconds, GRAPH),
    ("synchronize_waits", "Stream", Kind.STATE, fake_device.SynchronizeDoesNotWait, GRAPH),
    ("synchronize_waits", "Stream", Kind.STATE, fake_device.WaitEventBlocksHost, GRAPH),
    ("synchronize_waits", "Stream", Kind.VALUE, fake_device.HostCopiesDoNotWait, GRAPH),
    ("event_timing", "Event", Kind.ERROR_TYPE, fake_device.AcceptsUnrecordedEvents, GRAPH),
    ("stream_query", "Stream", Kind.STATE, fake_device.EventsAlwaysDone, GRAPH),
    ("no_host_wait", "Stream", Kind.STATE, fake_device.StreamContextExitWaits, GRAPH),
    ("record_stream", "Memory", Kind.VALUE, fake_device.ReusesMemoryInUse, GRAPH),
    ("pinned_copy", "Copy", Kind.VALUE, fake_device.SynchronizeDoesNotWait, GRAPH),
    ("pinned_copy", "Copy", Kind.VALUE, fake_device.RunsCopiesLast, GRAPH),
    ("pinned_copy", "Copy", Kind.VALUE, fake_device.ReusesPinnedMemoryInUse, GRAPH),
    ("thread_stream", "Thread", Kind.STATE, fake_device.OneCurrentStreamForAllThreads, GRAPH),
    ("replay_stream", "Graph", Kind.VALUE, GOOD, fake_device.ReplaysBeforeQueuedWork),
    ("profiled_operators", "Profiler", Kind.STATE, fake_profile.NoDeviceRows, GRAPH),
    ("profiled_operators", "Profiler", Kind.STATE, fake_profile.RowsWithoutOperators, GRAPH),
    ("profiled_operators", "Profiler", Kind.STATE, fake_profile.RowsLinkedToNextOperator, GRAPH),
    ("profiled_counts", "Profiler", Kind.STATE, fake_profile.OnlyFirstCallOfOperator, GRAPH),
    ("profiled_streams", "Profiler", Kind.STATE, fake_profile.OverlappingRows, GRAPH),
    ("profiled_streams", "Profiler", Kind.STATE, fake_profile.AllRowsOnOneStream, GRAPH),
    ("profiled_streams", "Profiler", Kind.STATE, fake_profile.WaitingStreamRunsTooEarly, GRAPH),
    ("profiled_times", "Profiler", Kind.STATE, fake_profile.NoDeviceRows, GRAPH),
    ("profiled_times", "Profiler", Kind.STATE, fake_profile.StartAndEndExchanged, GRAPH),
    ("profiled_times", "Profiler", Kind.STATE, fake_profile.DifferentClockOrigin, GRAPH),
    ("profiled_times", "Profiler", Kind.STATE, fake_profile.DurationsTooLong, GRAPH),
    ("profiled_memory", "Profiler", Kind.VALUE, fake_profile.FreesNotCounted, GRAPH),
    ("profiled_trace", "Profiler", Kind.STATE, fake_profile.EmptyTraceFile, GRAPH),
    ("profiled_trace", "Profiler", Kind.STATE, fake_profile.NegativeDurations, GRAPH),
    ("profiled_trace", "Profiler", Kind.STATE, fake_profile.TraceWithoutDevice, GRAPH),
    ("profiled_end", "Profiler", Kind.STATE, fake_profile.KeepsRowsOfEarlierTraces, GRAPH),
    ("profiled_end", "Profiler", Kind.ERROR_TYPE, fake_profile.ReplacesErrors, GRAPH),
    ("profiled_fork", "Profiler", Kind.STATE, fake_profile.StopsAfterFork, GRAPH),
    ("memory_events", "Memory", Kind.STATE, fake_profile.EventsWithoutFrames, GRAPH),
    ("memory_events", "Memory", Kind.STATE, fake_profile.HistoryWithoutFrees, GRAPH),
    ("memory_events", "Memory", Kind.VALUE, fake_profile.SizesInElements, GRAPH),
    ("memory_segments", "Memory", Kind.VALUE, fake_profile.NoFreeBlocks, GRAPH),
    ("memory_segments", "Memory", Kind.VALUE, fake_profile.AllBlocksInUse, GRAPH),
]


@pytest.fixture()
def check_on_fake_device(request: pytest.FixtureRequest) -> Iterator[Callable[..., Result]]:
    def check(name: str, subject: Subject, api: Api, graph: type[Any], **settings: Any) -> Result:
        target = Target(
            "fake",
            None,
            "cpu",
            frozenset({"float32", "int64", "uint8"}),
            {},
            hooks={"graph": f"tests.support.fake_device:{graph.__name__}", "delay": "builtins:print"},
            compile_backend="aot_eager",
        )
        device_api_under_test = api(target)
        graph.api = device_api_under_test
        device_api.replace_device_api(lambda target: device_api_under_test)
        entry = find_property("device", name)
        assert entry.applies(dataclasses.replace(target, device="privateuseone"), subject) == ["any"]
        recorder = Recorder(ResultId(CaseId(name, subject.name), "any"), seed=0)
        entry.check(target, subject, recorder)
        return recorder.result()

    yield check
    device_api.replace_device_api(None)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]}-{fault[3].__name__}")
def test_fails_with_the_fault(check_on_fake_device: Callable[..., Result], fault: Any) -> None:
    name, subject, kind, api, graph = fault
    result = check_on_fake_device(name, Subject("device", subject, None), api, graph)
    assert result.verdict is Verdict.FAIL
    assert kind in {failure.kind for failure in result.failures}, result.failures


@pytest.mark.parametrize("case", sorted({(fault[0], fault[1]) for fault in FAULTS}), ids="-".join)
def test_passes_without_the_fault(check_on_fake_device: Callable[..., Result], case: tuple[str, str]) -> None:
    result = check_on_fake_device(case[0], Subject("device", case[1], None), GOOD, GRAPH)
    assert result.verdict is Verdict.PASS, result.failures
    assert not result.notes


def _function_recompiled_for_each_call() -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that Dynamo recompiles at each call, because the function reads a number that
    changes.
    """
    state = {"calls": 0}

    def call(x: torch.Tensor) -> torch.Tensor:
        state["calls"] += 1
        return x * 2 + state["calls"] ** 0

    return call


def test_recompilations(check_on_fake_device: Callable[..., Result]) -> None:
    conforming = check_on_fake_device("recompilations", Subject("device", "Compile", None), GOOD, GRAPH)
    assert conforming.verdict is Verdict.PASS, conforming.failures
    result = check_on_fake_device(
        "recompilations", Subject("device", "Compile", _function_recompiled_for_each_call()), GOOD, GRAPH
    )
    assert result.verdict is Verdict.FAIL
    assert {failure.kind for failure in result.failures} == {Kind.STATE}


def test_every_property_has_a_fault() -> None:
    faulted_properties = {fault[0] for fault in FAULTS} | {
        "recompilations",
        "huge_tensors",
    }  # test_recompilations and test_huge_tensors.py inject their faults
    assert {entry.name for entry in properties("device")} == faulted_properties


def test_only_recompilations_applies_to_the_cpu() -> None:
    target = Target("cpu", None, "cpu", frozenset({"int64"}), {}, hooks={"delay": "builtins:print"})
    host_properties = {
        entry.name
        for entry in properties("device")
        for subject in DEVICE
        if entry.applies(target, Subject("device", subject, None))
    }
    assert host_properties == {"recompilations"}


def test_a_property_about_waiting_has_no_case_without_the_hook_delay() -> None:
    target = Target("fake", None, "privateuseone", frozenset({"int64"}), {})
    assert not find_property("device", "no_host_wait").applies(target, Subject("device", "Stream", None))
    assert find_property("device", "stream_order").applies(target, Subject("device", "Stream", None))
