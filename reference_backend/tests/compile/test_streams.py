"""Streams and events in compiled functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import hpu

Function = Callable[[torch.Tensor], torch.Tensor]

STREAM = hpu.Stream()
EVENT = hpu.Event()


def _on_a_stream(x: torch.Tensor) -> torch.Tensor:
    STREAM.wait_stream(hpu.current_stream())
    with hpu.stream(STREAM):
        y = x * 2
    hpu.current_stream().wait_stream(STREAM)
    return y + 1


def _on_a_new_stream(x: torch.Tensor) -> torch.Tensor:
    stream = hpu.Stream(priority=0)
    stream.wait_stream(hpu.default_stream())
    with hpu.stream(stream):
        y = x * 2
    hpu.default_stream().wait_stream(stream)
    return y + 1


def _on_no_stream(x: torch.Tensor) -> torch.Tensor:
    with hpu.stream(None):
        return x * 2


def _with_an_event(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    EVENT.record()
    STREAM.wait_event(EVENT)
    with hpu.stream(STREAM):
        z = y * 2
        hpu.current_stream().synchronize()
    hpu.current_stream().wait_stream(STREAM)
    return z


def _with_a_new_event(x: torch.Tensor) -> torch.Tensor:
    event = hpu.Event(enable_timing=True)
    with hpu.stream(STREAM):
        y = x + 1
        event.record()
        completed_event = STREAM.record_event()
    event.wait()
    hpu.current_stream().wait_event(completed_event)
    event.synchronize()
    return y * 2


FUNCTIONS = [_on_a_stream, _on_a_new_stream, _on_no_stream, _with_an_event, _with_a_new_event]


@pytest.mark.parametrize("executable", ["interpreted", "fused"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_streams_and_events_are_part_of_one_graph(function: Function, executable: str) -> None:
    options = {"executable": executable}
    program = torch.compile(function, backend="hpu_backend", fullgraph=True, options=options)
    for number in range(3):
        x = torch.full((4,), float(number), device="hpu")
        torch.testing.assert_close(program(x), function(x))
        assert hpu.current_stream() == hpu.default_stream()


def test_the_current_stream_is_that_of_the_call(interpreted) -> None:
    program = interpreted(lambda x: (x + 1, hpu.current_stream()))
    x = torch.ones(2, device="hpu")
    assert program(x)[1] == hpu.default_stream()
    with hpu.stream(STREAM):
        assert program(x)[1] == STREAM
    assert program(x)[1] == hpu.default_stream()


def test_a_break_inside_a_block_stays_on_its_stream(interpreted) -> None:
    stream_ids = []

    def function(x: torch.Tensor) -> torch.Tensor:
        with hpu.stream(STREAM):
            y = x * 2
            torch._dynamo.graph_break()
            stream_ids.append(hpu.current_stream().stream_id)
            torch._dynamo.graph_break()
            y = y + 1
        return y

    program = interpreted(function)
    for _ in range(2):
        assert program(torch.ones(2, device="hpu")).tolist() == [3, 3]
    assert stream_ids == [STREAM.stream_id] * 2
    assert hpu.current_stream() == hpu.default_stream()


def _with_a_context_object(x: torch.Tensor) -> torch.Tensor:
    with hpu.StreamContext(STREAM):
        return x * 2


def _with_a_stream_set(x: torch.Tensor) -> torch.Tensor:
    hpu.set_stream(STREAM)
    y = x * 2
    hpu.set_stream(hpu.default_stream())
    return y


@pytest.mark.parametrize("function", [_with_a_context_object, _with_a_stream_set])
def test_what_torch_cannot_trace_breaks_the_graph(function: Function, interpreted) -> None:
    program = interpreted(function)
    for _ in range(2):
        assert program(torch.ones(2, device="hpu")).tolist() == [2, 2]
        assert hpu.current_stream() == hpu.default_stream()
