"""Test streams and events in compiled functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import hpu

Function = Callable[[torch.Tensor], torch.Tensor]

STREAM = hpu.Stream()
EVENT = hpu.Event()


def _compute_on_stream(x: torch.Tensor) -> torch.Tensor:
    STREAM.wait_stream(hpu.current_stream())
    with hpu.stream(STREAM):
        y = x * 2
    hpu.current_stream().wait_stream(STREAM)
    return y + 1


def _compute_on_new_stream(x: torch.Tensor) -> torch.Tensor:
    stream = hpu.Stream(priority=0)
    stream.wait_stream(hpu.default_stream())
    with hpu.stream(stream):
        y = x * 2
    hpu.default_stream().wait_stream(stream)
    return y + 1


def _compute_in_empty_stream_block(x: torch.Tensor) -> torch.Tensor:
    with hpu.stream(None):
        return x * 2


def _compute_with_event(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    EVENT.record()
    STREAM.wait_event(EVENT)
    with hpu.stream(STREAM):
        z = y * 2
        hpu.current_stream().synchronize()
    hpu.current_stream().wait_stream(STREAM)
    return z


def _compute_with_new_event(x: torch.Tensor) -> torch.Tensor:
    event = hpu.Event(enable_timing=True)
    with hpu.stream(STREAM):
        y = x + 1
        event.record()
        completed_event = STREAM.record_event()
    event.wait()
    hpu.current_stream().wait_event(completed_event)
    event.synchronize()
    return y * 2


FUNCTIONS = [
    _compute_on_stream,
    _compute_on_new_stream,
    _compute_in_empty_stream_block,
    _compute_with_event,
    _compute_with_new_event,
]


@pytest.mark.parametrize("executable", ["interpreted", "fused"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_streams_and_events_are_part_of_one_graph(function: Function, executable: str) -> None:
    options = {"executable": executable}
    program = torch.compile(function, backend="hpu_backend", fullgraph=True, options=options)
    for number in range(3):
        x = torch.full((4,), float(number), device="hpu")
        torch.testing.assert_close(program(x), function(x))
        assert hpu.current_stream() == hpu.default_stream()


def test_current_stream_in_a_graph_is_the_stream_of_the_caller(interpreted) -> None:
    program = interpreted(lambda x: (x + 1, hpu.current_stream()))
    x = torch.ones(2, device="hpu")
    assert program(x)[1] == hpu.default_stream()
    with hpu.stream(STREAM):
        assert program(x)[1] == STREAM
    assert program(x)[1] == hpu.default_stream()


def test_graph_break_in_a_stream_block_keeps_the_stream(interpreted) -> None:
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


def _compute_in_stream_context(x: torch.Tensor) -> torch.Tensor:
    with hpu.StreamContext(STREAM):
        return x * 2


def _compute_after_set_stream(x: torch.Tensor) -> torch.Tensor:
    hpu.set_stream(STREAM)
    y = x * 2
    hpu.set_stream(hpu.default_stream())
    return y


@pytest.mark.parametrize("function", [_compute_in_stream_context, _compute_after_set_stream])
def test_untraceable_stream_calls_break_the_graph(function: Function, interpreted) -> None:
    program = interpreted(function)
    for _ in range(2):
        assert program(torch.ones(2, device="hpu")).tolist() == [2, 2]
        assert hpu.current_stream() == hpu.default_stream()
