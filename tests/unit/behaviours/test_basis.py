"""Each deviation of a behaviour has a basis: the basis of the statement that found the deviation, or else the
basis of the behaviour.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

from conformance.behaviours import behaviour as behaviours
from conformance.behaviours.behaviour import Behaviour, check_behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind, ResultId
from conformance.target import file as target_file

TARGET = target_file.load("cpu").target("eager")


def deviations_of(program: Callable[[Lab], None]) -> list[tuple[Kind, Basis]]:
    """Run a program that behaves differently in its second run, the run on the device. Return the kind and
    the basis of each deviation.
    """
    recorder = Recorder(ResultId.parse("a-behaviour/views@any"), seed=0)
    recorder.basis = Basis.CONSISTENCY
    check_behaviour(Behaviour("a-behaviour", "views", program, ()), TARGET, recorder)
    return [(failure.kind, failure.basis) for failure in recorder.result().failures]


def fail(error: Exception) -> None:
    raise error


#: Raises an error in the run on the device. The error comes from code that is not part of the program, as an
#: error of torch does.
refuse_on_device: Callable[[Lab], int] = eval(
    compile("lambda lab: 1 // (not lab.on_target)", "<a kernel>", "eval")
)


def warn(text: str) -> None:
    warnings.warn(text, stacklevel=1)


def values_in_contexts(lab: Lab) -> None:
    lab.same("one", int(lab.on_target))
    with lab.documented():
        lab.same("two", int(lab.on_target))
    with lab.parity("no page says more"):
        lab.same("three", int(lab.on_target))
    with lab.consistent("two answers agree"):
        lab.holds("it is the CPU", not lab.on_target)


def wrong_type(lab: Lab) -> None:
    lab.raises("a call", lambda: fail(IndexError("x") if lab.on_target else ValueError("x")), ValueError)


def wrong_type_that_a_page_states(lab: Lab) -> None:
    lab.raises(
        "a call",
        lambda: fail(IndexError("x") if lab.on_target else ValueError("x")),
        ValueError,
        type_is_documented=True,
    )


def wrong_text(lab: Lab) -> None:
    lab.raises("a call", lambda: fail(RuntimeError("no" if lab.on_target else "yes")), match="yes")


def wrong_text_that_a_page_states(lab: Lab) -> None:
    lab.raises(
        "a call",
        lambda: fail(RuntimeError("no" if lab.on_target else "yes")),
        match="yes",
        text_is_documented=True,
    )


def error_of_another_release(lab: Lab) -> None:
    lab.raises("a call", lambda: fail(TypeError("no real input")), match="complex numbers")


def error_of_neither_release(lab: Lab) -> None:
    lab.raises(
        "a call", lambda: fail(IndexError("y") if lab.on_target else TypeError("x")), RuntimeError, match="z"
    )


def nothing_raised(lab: Lab) -> None:
    lab.raises("a call", lambda: None if lab.on_target else fail(RuntimeError()))


def refusal_of_a_wrong_call(lab: Lab) -> None:
    lab.raises("a call", lambda: fail(NotImplementedError("x") if lab.on_target else RuntimeError("x")))


def refusal_of_a_wrong_call_with_another_type(lab: Lab) -> None:
    lab.raises(
        "a call", lambda: fail(NotImplementedError("x") if lab.on_target else ValueError("x")), ValueError
    )


def missing_warning(lab: Lab) -> None:
    lab.warns("a call", lambda: None if lab.on_target else warn("deprecated"), match="deprecated")


def missing_warning_that_a_page_states(lab: Lab) -> None:
    lab.warns("a call", lambda: None if lab.on_target else warn("deprecated"), is_documented=True)


def error_in_a_context(lab: Lab) -> None:
    with lab.parity("no page says more"):
        lab.same("a sum", refuse_on_device(lab))


def wrong_after_an_error_in_a_context(lab: Lab) -> None:
    lab.same("before", lab.integers(3))
    with lab.parity("no page says more"):
        lab.same("the first", 1)
        with lab.parity("an inner context"):
            pass
        written = lab.integers(3)
        written.fill_(refuse_on_device(lab))
        lab.same("another", written)
        with lab.parity("an inner context that only the CPU enters"):
            lab.same("the last", lab.integers(3))
    lab.same("after", lab.integers(3))  # drawn in the same order, although the device skipped a draw
    lab.same("wrong", int(lab.on_target))
    with lab.documented():
        lab.same("wrong too", int(lab.on_target))


def write_that_is_skipped(lab: Lab) -> None:
    tensor = lab.integers(3)
    with lab.parity("no page says more"):
        tensor.fill_(refuse_on_device(lab) + 6)
    lab.same("the tensor that was not written", tensor)


def loop_with_one_error(lab: Lab) -> None:
    for number in range(3):
        with lab.parity("no page says more"):
            lab.same("a number", refuse_on_device(lab) if number == 1 else number)
    lab.same("after", 1)


def name_that_a_skipped_statement_defines(lab: Lab) -> None:
    with lab.parity("no page says more"):
        total = refuse_on_device(lab)
    lab.same("a sum", total)


def statement_that_the_cpu_does_not_reach(lab: Lab) -> None:
    lab.same("before", int(lab.on_target))
    with lab.parity("no page says more"):
        if lab.on_target:
            refuse_on_device(lab)
    lab.same("after", int(lab.on_target))


def error_of_an_inner_context(lab: Lab) -> None:
    with lab.parity("no page says more"), lab.consistent("two answers agree"):
        lab.same("a sum", refuse_on_device(lab))
    with lab.parity("no page says more"):
        refuse_on_device(lab)


def error_after_a_context_that_caught_one(lab: Lab) -> None:
    try:
        with lab.parity("no page says more"):
            fail(ValueError())
    except ValueError:
        pass
    lab.same("a sum", fail(ValueError()) if lab.on_target else 1)


@pytest.mark.parametrize(
    ("program", "deviations"),
    [
        (
            values_in_contexts,
            [
                (Kind.VALUE, Basis.CONSISTENCY),
                (Kind.VALUE, Basis.DOCUMENTED),
                (Kind.STATE, Basis.CONSISTENCY),
                (Kind.VALUE, Basis.PARITY),  # last, because a reader sees the first failure first
            ],
        ),
        (wrong_type, [(Kind.ERROR_TYPE, Basis.PARITY)]),
        (wrong_type_that_a_page_states, [(Kind.ERROR_TYPE, Basis.CONSISTENCY)]),
        (wrong_text, [(Kind.MESSAGE, Basis.PARITY)]),
        (wrong_text_that_a_page_states, [(Kind.MESSAGE, Basis.CONSISTENCY)]),
        (error_of_another_release, []),
        (error_of_neither_release, [(Kind.ERROR_TYPE, Basis.PARITY)]),
        (nothing_raised, [(Kind.ERROR_TYPE, Basis.CONSISTENCY)]),
        (refusal_of_a_wrong_call, [(Kind.REFUSED, Basis.PARITY)]),
        (refusal_of_a_wrong_call_with_another_type, [(Kind.REFUSED, Basis.PARITY)]),
        (missing_warning, [(Kind.MESSAGE, Basis.PARITY)]),
        (missing_warning_that_a_page_states, [(Kind.MESSAGE, Basis.CONSISTENCY)]),
        (error_in_a_context, [(Kind.EXCEPTION, Basis.PARITY)]),
        (
            wrong_after_an_error_in_a_context,
            [(Kind.VALUE, Basis.CONSISTENCY), (Kind.VALUE, Basis.DOCUMENTED), (Kind.EXCEPTION, Basis.PARITY)],
        ),
        (
            name_that_a_skipped_statement_defines,
            [(Kind.EXCEPTION, Basis.PARITY)],
        ),
        (write_that_is_skipped, [(Kind.EXCEPTION, Basis.PARITY)]),
        (loop_with_one_error, [(Kind.EXCEPTION, Basis.PARITY)]),
        (
            statement_that_the_cpu_does_not_reach,
            [(Kind.VALUE, Basis.CONSISTENCY), (Kind.EXCEPTION, Basis.PARITY)],
        ),
        (
            error_of_an_inner_context,
            [(Kind.EXCEPTION, Basis.CONSISTENCY), (Kind.EXCEPTION, Basis.PARITY)],
        ),
        (error_after_a_context_that_caught_one, [(Kind.EXCEPTION, Basis.CONSISTENCY)]),
    ],
)
def test_a_deviation_has_the_basis_of_its_statement(
    monkeypatch: pytest.MonkeyPatch,
    program: Callable[[Lab], None],
    deviations: list[tuple[Kind, Basis]],
) -> None:
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *arguments: None)
    monkeypatch.setattr(behaviours, "_make_lab", Lab)
    assert deviations_of(program) == deviations


@pytest.mark.parametrize("documented", ["type_is_documented", "text_is_documented"])
def test_an_error_of_the_cpu_that_contradicts_a_page_is_an_error_of_the_suite(documented: str) -> None:
    def program(lab: Lab) -> None:
        options = {documented: True}
        lab.raises("a call", lambda: fail(TypeError("x")), RuntimeError, match="z", **options)

    with pytest.raises(AssertionError, match="does not hold on the CPU"):
        deviations_of(program)
