"""Results that need an undeclared capability still run: a clean refusal is ``unsupported``, and a pass has a
note. A refusal of a declared capability is a failure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from conformance.framework.calls import report_error
from conformance.framework.property import REGISTRY, register
from conformance.framework.recorder import Recorder
from conformance.model import vocabulary
from conformance.model.verdicts import Kind, Result, Verdict
from conformance.plan import capability_requirements, plan
from conformance.plan.plan import Case
from conformance.properties import registry
from conformance.subjects import catalogue
from conformance.target import file as target_file
from conformance.target.target import Target
from conformance.worker.executor import Executor


@dataclasses.dataclass(frozen=True)
class CapableSubject:
    name: str
    kind: str = "capable"


def _report_error(recorder: Recorder, target: Target, error: Exception) -> None:
    recorder.compared(1)
    report_error(target, recorder, error, label="the call")


def _error_of(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


#: Ways in which a device reacts to a check that needs the capability ``streams``. Name of the reaction -> a
#: check that imitates the reaction, the verdict if the capability is not declared, and the verdict if the
#: capability is declared.
BEHAVIOURS: dict[str, tuple[Callable[[Recorder, Target], None], Verdict, Verdict]] = {
    "works": (lambda r, t: r.compared(1), Verdict.PASS, Verdict.PASS),
    "refuses": (
        lambda r, t: _report_error(r, t, NotImplementedError("no streams")),
        Verdict.UNSUPPORTED,
        Verdict.FAIL,
    ),
    "refuses_otherwise": (
        lambda r, t: r.fail(Kind.REFUSED, "the call was refused"),
        Verdict.UNSUPPORTED,
        Verdict.FAIL,
    ),
    "lacks_the_function": (
        lambda r, t: _report_error(r, t, _error_of(lambda: torch.no_such_function)),
        Verdict.UNSUPPORTED,
        Verdict.FAIL,
    ),
    "lacks_an_attribute": (
        lambda r, t: _report_error(r, t, _error_of(lambda: object().stream)),  # type: ignore[attr-defined]
        Verdict.FAIL,
        Verdict.FAIL,
    ),
    "wrong_value": (lambda r, t: r.fail(Kind.VALUE, "1 of 1 differs"), Verdict.FAIL, Verdict.FAIL),
    "wrong_error": (lambda r, t: _report_error(r, t, KeyError("stream")), Verdict.FAIL, Verdict.FAIL),
    "breaks": (
        lambda r, t: _report_error(r, t, RuntimeError("INTERNAL ASSERT FAILED at stream.cpp")),
        Verdict.FAIL,
        Verdict.FAIL,
    ),
    "runs_out": (lambda r, t: _report_error(r, t, torch.OutOfMemoryError("out")), Verdict.FAIL, Verdict.FAIL),
    "refuses_then_errs": (
        lambda r, t: (_report_error(r, t, NotImplementedError("no")), r.fail(Kind.VALUE, "differs"))[0],
        Verdict.FAIL,
        Verdict.FAIL,
    ),
    "has_nothing_due": (
        lambda r, t: r.allow_nothing_compared("the target lists none"),
        Verdict.UNSUPPORTED,
        Verdict.PASS,
    ),
    "does_nothing": (lambda r, t: None, Verdict.VACUOUS, Verdict.VACUOUS),
}


@pytest.fixture(scope="module", autouse=True)
def register_capable_properties() -> Iterator[None]:
    catalogue.add_subjects("capable", [CapableSubject(name) for name in BEHAVIOURS])
    for name, capabilities in (("streamed", ("streams",)), ("waits", ("asynchronous",))):
        register(
            name,
            subject_kind="capable",
            statement="It behaves.",
            level="core",
            applies=lambda target, subject: ["any"],
            capabilities=capabilities,
        )(lambda target, subject, recorder: BEHAVIOURS[subject.name][0](recorder, target))
    yield
    catalogue._extra.pop("capable")
    for name in ("streamed", "waits"):
        REGISTRY.pop(("capable", name))


def _cpu_target(**declared: bool) -> Target:
    return Target("cpu", None, "cpu", frozenset({"float32"}), declared)


def _result_of(name: str, **declared: bool) -> Result:
    return Executor(_cpu_target(**declared)).run(Case("capable", "streamed", name, ("any",)))[0]


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_verdict_if_the_capability_is_not_declared(name: str) -> None:
    result = _result_of(name, streams=False)
    assert result.verdict is BEHAVIOURS[name][1], result
    if result.verdict is Verdict.PASS:
        assert result.notes == ["works although capability streams is not declared"]
    if result.verdict is Verdict.UNSUPPORTED:
        assert not result.failures
        assert result.notes[-1].startswith("capability streams is not declared")


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_verdict_if_the_capability_is_declared(name: str) -> None:
    result = _result_of(name)
    assert result.verdict is BEHAVIOURS[name][2], result
    assert not any("not declared" in note for note in result.notes)


def test_a_pass_despite_declared_unsupported_has_a_note() -> None:
    target = dataclasses.replace(_cpu_target(), unsupported={"streamed/*@any": "it is slow"})
    (result,) = Executor(target).run(Case("capable", "streamed", "works", ("any",)))
    assert result.verdict is Verdict.PASS
    assert result.notes == ["works although declared unsupported: it is slow"]


def test_an_undeclared_capability_that_no_device_refuses_removes_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(catalogue.KINDS_VARIABLE, "capable")
    names = [
        {case.property for case in plan.build_plan(_cpu_target(**declared), "core").cases}
        for declared in ({}, {"streams": False}, {"asynchronous": False})
    ]
    assert names == [{"streamed", "waits"}, {"streamed", "waits"}, {"streamed"}]


def test_subjects_add_capability_requirements() -> None:
    entry = registry.find_property("operator", "out")
    assert capability_requirements.required_capabilities(entry, "operator", "add") == ("out_variants",)
    assert capability_requirements.required_capabilities(entry, "operator", "bernoulli") == (
        "out_variants",
        "random",
    )
    target = _cpu_target(random=False)
    assert capability_requirements.undeclared_capabilities(target, entry, "operator", "bernoulli") == (
        "random",
    )
    assert capability_requirements.undeclared_capabilities(target, entry, "operator", "add") == ()


def test_undeclared_capabilities_keep_their_results_in_the_plan() -> None:
    """An undeclared capability removes no results from the plan, so that a run shows whether the device has
    the capability. Exceptions are capabilities whose absence no device refuses
    (``vocabulary.WITHOUT_REFUSAL``).
    """
    target = target_file.load("hpu-reference").target("eager")
    modest = dataclasses.replace(target, capabilities=dict.fromkeys(vocabulary.CAPABILITIES, False))
    full, rest = (set(plan.build_plan(each_target, "full").result_ids()) for each_target in (target, modest))
    lost = {text.partition("/")[0] for text in full - rest}
    silent = {
        entry.name
        for kind in catalogue.kinds()
        for entry in registry.properties(kind)
        if vocabulary.WITHOUT_REFUSAL & set(entry.capabilities)
    }
    assert rest <= full and lost == silent, lost ^ silent
