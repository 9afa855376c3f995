"""Mutants of compiled and captured graphs change the result of a program while they are enabled, and have no
effect after they are disabled.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.device.compilation import compile_with_log
from conformance.target.target import Target
from tools.mutation.injectors import compiled_graphs
from tools.mutation.injectors.injector import Counts
from tools.mutation.mutant import Mutant


class Graph:
    """A device graph that only counts its replays."""

    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1


TARGET = Target(
    "host",
    None,
    "cpu",
    frozenset({"float32"}),
    {},
    mode="compile",
    compile_backend="eager",
    hooks={"graph": f"{__name__}:Graph"},
)


def compiled_result(function: Callable[..., Any], *inputs: Any) -> Any:
    return compile_with_log(TARGET, function)[0](*inputs)


def add_one_to_zeros() -> Any:
    return compiled_result(_add, torch.zeros(2)).tolist()


def _add(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 0 + 1


def write_into_input() -> Any:
    x = torch.zeros(2)
    compiled_result(lambda x: x.add_(1), x)
    return x.tolist()


def read_before_write() -> Any:
    x = torch.zeros(1)

    def program(x: torch.Tensor) -> torch.Tensor:
        before = x.cos()
        x.add_(3)
        return before

    return compiled_result(program, x).item()


def results_for_two_numbers() -> Any:
    return [compiled_result(lambda x, n=n: x + n, torch.zeros(1)).item() for n in (1, 2)]


def results_of_two_calls() -> Any:
    call = compile_with_log(TARGET, lambda x: x * 2)[0]
    return [call(torch.full((1,), value)).item() for value in (1.0, 2.0)]


def write_through_returned_view() -> Any:
    x = torch.zeros(2)
    compiled_result(lambda x: x.view(2, 1), x).add_(1)
    return x.tolist()


@pytest.mark.parametrize(
    ("kind", "call", "right", "wrong"),
    [
        ("operator-dropped", add_one_to_zeros, [1.0, 1.0], [0.0, 0.0]),
        ("mutation-dropped", write_into_input, [1.0, 1.0], [0.0, 0.0]),
        ("write-too-early", read_before_write, 1.0, math.cos(3.0)),
        ("key-without-numbers", results_for_two_numbers, [1.0, 2.0], [1.0, 1.0]),
        ("key-without-sizes", results_for_two_numbers, [1.0, 2.0], [1.0, 1.0]),
        ("graph-stale", results_of_two_calls, [2.0, 4.0], [2.0, 2.0]),
        ("graph-aliasing-lost", write_through_returned_view, [1.0, 1.0], [0.0, 0.0]),
    ],
)
def test_a_mutant_of_a_compiled_graph(kind: str, call: Callable[[], Any], right: Any, wrong: Any) -> None:
    injector = compiled_graphs.compiled_graph_injector(TARGET)
    assert call() == right
    injector.enable(Mutant("compile::backend", kind))
    output = call()
    assert injector.disable().altered > 0
    assert output == pytest.approx(wrong)
    assert call() == right


@pytest.mark.parametrize(("kind", "replays"), [("replay-dropped", 0), ("replay-once", 1)])
def test_a_mutant_of_replays(kind: str, replays: int) -> None:
    target = dataclasses.replace(TARGET, mode="graph")
    injector = compiled_graphs.compiled_graph_injector(target)
    injector.enable(Mutant("graph::replay", kind))
    graph = target.graph()
    graph.replay()
    graph.replay()
    assert injector.disable().altered > 0
    assert graph.replays == replays
    graph.replay()
    assert graph.replays == replays + 1


def test_a_coverage_run_records_compilations() -> None:
    injector = compiled_graphs.compiled_graph_injector(TARGET)
    injector.observe(True)
    add_one_to_zeros()
    injector.observe(False)
    assert {injector.mutants[number].point for number, _ in injector.take_observed().triggered} == {
        "compile::backend"
    }
    add_one_to_zeros()
    assert not injector.take_observed().triggered


def test_graphs_that_the_suite_compiles_for_the_cpu_are_not_mutated() -> None:
    injector = compiled_graphs.compiled_graph_injector(TARGET)
    injector.enable(Mutant("compile::backend", "operator-dropped"))
    on_the_cpu, _ = compile_with_log(None, _add)
    assert on_the_cpu(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert injector.disable() == Counts(0, 0)
