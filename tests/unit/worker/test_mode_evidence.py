"""``worker.mode_evidence`` in lazy mode: every check runs twice, and only operators that run from a lazy
graph are evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId, Verdict
from conformance.plan.plan import Case
from conformance.properties import registry
from conformance.subjects.torch_databases import find
from conformance.target.target import Target
from conformance.worker import mode_evidence
from conformance.worker.executor import Executor

#: Operator -> how often a lazy graph ran the operator, as the fake device reports it.
counts: dict[str, int] = {}
steps = 0


def executed_ops() -> dict[str, int]:
    return dict(counts)


def mark_step() -> None:
    global steps
    steps += 1


HOOKS = {"executed_ops": f"{__name__}:executed_ops", "mark_step": f"{__name__}:mark_step"}


def lazy_target(hooks: dict[str, str] | None = None) -> Target:
    return Target(
        "fake",
        None,
        "cpu",
        frozenset({"float32"}),
        {},
        hooks=HOOKS if hooks is None else hooks,
        mode="lazy",
        rehearses=True,
    )


@pytest.fixture()
def numbers_drawn_by_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Reset the counters of the fake device. Return an empty list, to which a check appends one number per
    call.
    """
    counts.clear()
    recorded_calls: list[int] = []
    return recorded_calls


def _check_that_counts_operator(numbers_drawn_by_calls: list[int], name: str | None) -> Callable[..., None]:
    def check(target: Target, subject: Any, recorder: Recorder) -> None:
        numbers_drawn_by_calls.append(int(torch.randint(0, 1 << 30, ())))
        recorder.compared(1)
        recorder.samples(1, 1)
        if name is not None and len(numbers_drawn_by_calls) == 2:
            counts[name] = counts.get(name, 0) + 1

    return check


def _run_with_check(
    monkeypatch: pytest.MonkeyPatch, check: Callable[..., None], target: Target, **property_fields: Any
) -> Any:
    import dataclasses

    entry = dataclasses.replace(registry.find_property("operator", "value"), check=check, **property_fields)
    executor = Executor(target)
    executor._properties[("operator", "value")] = entry
    return executor.run(Case("operator", "value", "add", ("float32",)))[0]


def test_a_check_runs_twice_from_the_same_seed_and_the_second_run_is_used(
    monkeypatch: pytest.MonkeyPatch, numbers_drawn_by_calls: list[int]
) -> None:
    before = steps
    result = _run_with_check(
        monkeypatch, _check_that_counts_operator(numbers_drawn_by_calls, "aten::add.Tensor"), lazy_target()
    )
    assert len(numbers_drawn_by_calls) == 2
    assert numbers_drawn_by_calls[0] == numbers_drawn_by_calls[1]
    assert (result.verdict, result.comparisons) == (Verdict.PASS, 1)
    assert steps > before


@pytest.mark.parametrize("name", [None, "aten::copy_"])
def test_a_result_without_a_graph_run_is_vacuous(
    monkeypatch: pytest.MonkeyPatch, numbers_drawn_by_calls: list[int], name: str | None
) -> None:
    result = _run_with_check(
        monkeypatch, _check_that_counts_operator(numbers_drawn_by_calls, name), lazy_target()
    )
    assert result.verdict is Verdict.VACUOUS
    assert "no operator of the subject ran in a lazy graph; expected add" in result.failures[0].message


def test_a_target_without_counters_gets_a_note(
    monkeypatch: pytest.MonkeyPatch, numbers_drawn_by_calls: list[int]
) -> None:
    result = _run_with_check(
        monkeypatch, _check_that_counts_operator(numbers_drawn_by_calls, None), lazy_target({})
    )
    assert result.verdict is Verdict.PASS
    assert "declares no hook executed_ops" in result.notes[0]


def test_properties_about_errors_need_no_kernel(
    monkeypatch: pytest.MonkeyPatch, numbers_drawn_by_calls: list[int]
) -> None:
    result = _run_with_check(
        monkeypatch, _check_that_counts_operator(numbers_drawn_by_calls, None), lazy_target(), runs=False
    )
    assert (result.verdict, result.notes) == (Verdict.PASS, [])


def test_a_failure_stays_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(ResultId(CaseId("value", "add"), "float32"), seed=0)
    recorder.compared(1)
    recorder.vacuous("did not run")
    assert recorder.result().verdict is Verdict.VACUOUS
    recorder.fail(property_kind(), "wrong")
    assert recorder.result().verdict is Verdict.FAIL


def property_kind() -> Any:
    from conformance.model.verdicts import Kind

    return Kind.VALUE


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("add", {"add"}), ("transpose", None), ("nonzero", None), ("to_sparse", None), ("full", {"full"})],
)
def test_expected_kernels_in_a_graph(operator: str, expected: set[str] | None) -> None:
    kernels = mode_evidence.possible_kernels_in_lazy_graph(find("operator", operator), "float32")
    assert kernels == (None if expected is None else frozenset(expected))


def test_a_fill_kernel_is_evidence_for_an_operator_that_fills() -> None:
    assert mode_evidence.expected_kernel_ran({}, {"aten::fill_.Scalar": 1}, {"full"})
    assert not mode_evidence.expected_kernel_ran({}, {}, {"full"})
    assert not mode_evidence.expected_kernel_ran(
        {"aten::add.Tensor": 3}, {"aten::add.Tensor": 3, "aten::copy_": 9}, {"add"}
    )
    assert mode_evidence.expected_kernel_ran({}, {"hpu::fused_sdpa": 1}, {"bmm", "softmax"})
