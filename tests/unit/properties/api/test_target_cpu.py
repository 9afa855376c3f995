"""On the target ``cpu`` the CPU is the device under test, and no CPU control excuses a failure. Wrong graphs
and wrong predictions of torch are therefore reported as failures.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conformance.framework.trees import tree_map
from conformance.model.verdicts import Kind, Result, Verdict
from conformance.plan.plan import Case
from conformance.properties.api.aot import traced_operators as graphs
from conformance.properties.api.fake import operators as predictions
from conformance.target import file as target_file
from conformance.worker.executor import Executor


def _behaviour_result(name: str, area: str) -> Result:
    return Executor(target_file.load("cpu").target("eager")).run(Case("api", name, area, ("float32",)))[0]


def _with_one_added(leaf: Any) -> Any:
    return leaf + 1 if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


def test_a_wrong_graph_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = graphs.trace_graph

    def wrong(*args: Any, **options: Any) -> Any:
        graph = trace(*args, **options)
        return lambda *inputs: tree_map(_with_one_added, graph(*inputs))

    monkeypatch.setattr(graphs, "trace_graph", wrong)
    monkeypatch.setattr(graphs.torch_testing_internals, "draws_random_numbers", lambda graph: False)
    result = _behaviour_result("graphs-of-entries-1-of-8", "aot")
    assert result.verdict is Verdict.FAIL
    assert result.failures[0].kind is Kind.STATE


def test_a_wrong_prediction_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    predict = predictions.run_on_fake_tensors

    def wrong(call: Any, mode: Any, run: Any) -> Any:
        predicted = predict(call, mode, run)
        with mode:
            return tree_map(
                lambda leaf: leaf.to(torch.complex128) if hasattr(leaf, "to") else leaf, predicted
            )

    monkeypatch.setattr(predictions, "run_on_fake_tensors", wrong)
    result = _behaviour_result("open-sizes-of-operators-1-of-8", "fake")
    assert result.verdict is Verdict.FAIL
    assert result.failures[0].kind is Kind.STATE
