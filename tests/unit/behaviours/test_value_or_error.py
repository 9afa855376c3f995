"""``Lab.value_or_error`` returns the value or the error of a call. If only the device raises an error, this
error is the failure.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.behaviours.behaviour import Behaviour, check_behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Failure, Kind, ResultId
from conformance.target import file as target_file

TARGET = target_file.load("cpu").target("eager")


def failures_of(program: Callable[[Lab], None]) -> list[Failure]:
    recorder = Recorder(ResultId.parse("a-behaviour/foreach@any"), seed=0)
    check_behaviour(Behaviour("a-behaviour", "foreach", program, ()), TARGET, recorder)
    return list(recorder.result().failures)


def program_of(cpu_raises: bool, device_raises: bool) -> Callable[[Lab], None]:
    def call(lab: Lab) -> int:
        if device_raises if lab.on_target else cpu_raises:
            raise RuntimeError("no kernel for mixed numbers")
        return 3

    def program(lab: Lab) -> None:
        value, error = lab.value_or_error("the sum", lambda: call(lab), RuntimeError)
        if error is not None:
            lab.raises("the sum at once", lambda: None if lab.on_target and not cpu_raises else call(lab))
            return
        lab.same("the value", value)
        lab.same("twice the value", 2 * (value or 0))

    return program


def test_both_runs_may_return_or_raise() -> None:
    assert failures_of(program_of(False, False)) == failures_of(program_of(True, True)) == []


def test_an_error_on_the_device_alone_is_the_only_failure() -> None:
    [failure] = failures_of(program_of(False, True))
    assert failure.kind is Kind.EXCEPTION
    assert failure.message == "the sum raised RuntimeError: no kernel for mixed numbers"


def test_the_error_has_the_basis_of_its_statement() -> None:
    def program(lab: Lab) -> None:
        with lab.parity("no page says more"):
            program_of(False, True)(lab)

    assert [failure.basis for failure in failures_of(program)] == [Basis.PARITY]


def test_a_missing_error_on_the_device_is_a_failure() -> None:
    messages = [failure.message for failure in failures_of(program_of(True, False))]
    assert any("whether the sum raises" in message for message in messages)
