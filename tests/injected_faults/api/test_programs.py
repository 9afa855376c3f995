"""Every property of random programs fails on a device that violates the property, and passes on a correct
device.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from conformance.behaviours.behaviour import BEHAVIOURS
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, Result, ResultId, Verdict
from conformance.properties.api.programs import _program_checks, compiled_exchange, values
from conformance.properties.api.programs.compiled_blocks import BLOCKS
from conformance.properties.api.programs.compiled_state import PROGRAMS
from conformance.properties.registry import find_property, properties
from conformance.samples.random_programs.generator import DTYPES
from conformance.samples.random_programs.program import Program
from conformance.subjects.torch_databases import find as find_subject
from conformance.target.target import Target
from tests.injected_faults import broken_compile_backends  # noqa: F401  (registers the backends)
from tests.injected_faults.api import faults_programs
from tests.injected_faults.api.faults_programs import CorrectDeviceTensor

GRAPHS = "tests.support.fake_graph"
#: (property, mode, fault). The fault is a tensor class, the name of a compile backend, or the import path of
#: a graph class.
FAULTS: list[tuple[str, str, Any]] = [
    ("programs", "eager", faults_programs.WritesToCopiesOfViews),
    ("programs", "eager", faults_programs.DoesNotWriteStridedOut),
    ("programs", "eager", faults_programs.FillIgnoresViewOffset),
    ("programs", "lazy", faults_programs.WritesToCopiesOfViews),
    ("programs-in-steps", "lazy", faults_programs.ViewsLoseBaseAfterMarkStep),
    ("programs-compiled", "compile", "faulty_drops_last_write"),
    ("programs-compiled", "compile", "faulty_writes_to_copies"),
    ("programs-replayed", "graph", f"{GRAPHS}:UsesInputsOfCapture"),
    ("programs-replayed", "graph", f"{GRAPHS}:ReplayDoesNothing"),
    ("programs-replayed", "graph", f"{GRAPHS}:ReplaysOnlyOnce"),
    ("programs-replayed", "graph", "tests.injected_faults.api.faults_programs:GraphOmitsLastWrite"),
]
CORRECT = {"compile": "aot_eager", "graph": f"{GRAPHS}:Graph"}


def check_property(
    monkeypatch: pytest.MonkeyPatch, name: str, mode: str, fault: Any, dtype: str = "float32"
) -> Result:
    """Return the result of a property on the CPU, which acts as a device with the fault."""
    hooks = {"mark_step": "tests.injected_faults.api.faults_programs:mark_step"} if mode == "lazy" else {}
    hooks |= {"graph": fault} if mode == "graph" else {}
    backend = fault if mode == "compile" else "aot_eager"
    target = Target(
        "fake", None, "cpu", frozenset(DTYPES), {}, hooks=hooks, mode=mode, compile_backend=backend
    )
    if isinstance(fault, type):

        def run_on_faulty_device(target: Target, program: Program, turn: int = 0) -> Sequence[torch.Tensor]:
            CorrectDeviceTensor.marks = 0
            return [x.as_subclass(fault) for x in _program_checks.inputs_on_device(target, program, turn)]

        monkeypatch.setattr(values, "inputs_on_device", run_on_faulty_device)
    entry, subject = find_property("api", name), find_subject("api", "programs")
    assert mode in entry.modes
    assert dtype in entry.applies(target, subject)
    recorder = Recorder(ResultId(CaseId(name, subject.name), dtype), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry.check(target, subject, recorder)
    return recorder.result()


@pytest.mark.nightly("the regression sample of mutants also breaks random programs", every=2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "mode", "fault"),
    FAULTS,
    ids=[f"{row[0]}-{row[1]}-{getattr(row[2], '__name__', row[2])}" for row in FAULTS],
)
def test_fails_with_the_fault(
    monkeypatch: pytest.MonkeyPatch, name: str, mode: str, fault: Any, dtype: str
) -> None:
    result = check_property(monkeypatch, name, mode, fault, dtype)
    assert result.verdict is Verdict.FAIL
    assert {failure.kind for failure in result.failures} == {Kind.VALUE}
    first, *rest = result.failures[0].message.splitlines()
    assert ": register x" in first
    assert all(line.startswith("x") or line == "mark_step()" for line in rest)
    compile("\n".join(rest), "program", "exec")


@pytest.mark.parametrize(("name", "mode"), sorted({row[:2] for row in FAULTS}))
def test_passes_without_the_fault(monkeypatch: pytest.MonkeyPatch, name: str, mode: str) -> None:
    result = check_property(monkeypatch, name, mode, CORRECT.get(mode, CorrectDeviceTensor))
    assert result.verdict is Verdict.PASS, result.failures
    refused = [note for note in result.notes if "is not captured on the CPU" in note]
    assert list(result.notes) == refused
    assert len(refused) <= (3 if mode == "compile" else 0)


def test_lost_aliases_are_hidden_if_no_step_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (
        check_property(monkeypatch, "programs", "lazy", faults_programs.ViewsLoseBaseAfterMarkStep).verdict
        is Verdict.PASS
    )


def test_every_property_has_a_fault() -> None:
    names = {entry.name for entry in properties("api")} - set(BEHAVIOURS)
    tested_below = {"compiled-state", "compiled-exchange", "compiled-blocks"}
    assert names == {row[0] for row in FAULTS} | tested_below


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("backend", "blocks"),
    [
        ("aot_eager", set()),
        ("faulty_zeros_in_last_row", set(BLOCKS)),
        ("faulty_skips_first_inplace_mul", {"writes through a view"}),
        ("faulty_results_slightly_too_large", set(BLOCKS)),
        ("faulty_ignores_gradient_of_last_row", {f"gradients of {name}" for name in BLOCKS}),
    ],
)
def test_compiled_blocks(backend: str, blocks: set[str], dtype: str) -> None:
    target = Target("fake", None, "cpu", frozenset(DTYPES), {}, mode="compile", compile_backend=backend)
    entry, subject = find_property("api", "compiled-blocks"), find_subject("api", "programs")
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), dtype), seed=0)
    entry.check(target, subject, recorder)
    result = recorder.result()
    assert {failure.kind for failure in result.failures} <= {Kind.VALUE}
    # The recorder keeps the messages of the first failures only.
    failing = {re.split(r" of \d+ tokens", failure.message)[0] for failure in result.failures}
    assert failing <= blocks and bool(failing) == bool(blocks)
    assert result.verdict is (Verdict.FAIL if blocks else Verdict.PASS)


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [
        ("eager", set()),
        ("faulty_drops_last_write", {Kind.VALUE}),
        ("faulty_writes_to_copies", {Kind.VALUE}),
        ("faulty_backward_reads_written_inputs", {Kind.VALUE}),
        ("faulty_raises_on_compilation", {Kind.EXCEPTION}),
    ],
)
def test_compiled_programs_that_write_state(backend: str, kinds: set[Kind]) -> None:
    target = Target("fake", None, "cpu", frozenset(DTYPES), {}, mode="compile", compile_backend=backend)
    entry, subject = find_property("api", "compiled-state"), find_subject("api", "programs")
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), "float32"), seed=0)
    entry.check(target, subject, recorder)
    assert {failure.kind for failure in recorder.result().failures} == kinds


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [
        ("eager", set()),
        ("aot_eager", set()),
        ("faulty_drops_last_write", {Kind.VALUE}),
        ("faulty_writes_to_copies", {Kind.VALUE}),
        ("faulty_raises_on_compilation", {Kind.EXCEPTION}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_compiled_programs_that_exchange_values(backend: str, kinds: set[Kind], dtype: str) -> None:
    target = Target("fake", None, "cpu", frozenset(DTYPES), {}, mode="compile", compile_backend=backend)
    entry, subject = find_property("api", "compiled-exchange"), find_subject("api", "programs")
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), dtype), seed=0)
    entry.check(target, subject, recorder)
    assert {failure.kind for failure in recorder.result().failures} == kinds


def test_a_compiled_program_that_loses_its_result_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_with_log = compiled_exchange.compile_with_log

    def compile_without_result(target: Target, program: Any) -> tuple[Any, Any]:
        call, log = compile_with_log(target, program)

        def call_without_result(*arguments: torch.Tensor) -> None:
            call(*arguments)

        return call_without_result, log

    monkeypatch.setattr(compiled_exchange, "compile_with_log", compile_without_result)
    target = Target("fake", None, "cpu", frozenset(DTYPES), {}, mode="compile", compile_backend="aot_eager")
    entry, subject = find_property("api", "compiled-exchange"), find_subject("api", "programs")
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), "float32"), seed=0)
    entry.check(target, subject, recorder)
    (failure,) = recorder.result().failures
    assert failure.kind is Kind.VALUE and "returns a previous value" in failure.message


def test_each_program_that_writes_state_shows_the_fault_of_torch() -> None:
    """Each program that writes state reveals a bug of torch 2.13: the partitioner lets backward graphs read
    memory that forward graphs have overwritten.
    """
    target = Target("fake", None, "cpu", frozenset(DTYPES), {}, mode="compile", compile_backend="aot_eager")
    entry, subject = find_property("api", "compiled-state"), find_subject("api", "programs")
    recorder = Recorder(ResultId(CaseId(entry.name, subject.name), "float32"), seed=0)
    entry.check(target, subject, recorder)
    messages = [failure.message for failure in recorder.result().failures]
    assert all("the gradient in step 0" in message for message in messages)
    assert {name for name in PROGRAMS if any(f"of {name} is" in message for message in messages)} == set(
        PROGRAMS
    )
