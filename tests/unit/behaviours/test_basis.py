"""Each deviation of a behaviour has a basis: that of its statement, or else that of the behaviour."""

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
    """Run a program that does something else in its second run, and return its deviations."""
    recorder = Recorder(ResultId.parse("a-behaviour/views@any"), seed=0)
    recorder.basis = Basis.CONSISTENCY
    check_behaviour(Behaviour("a-behaviour", "views", program, ()), TARGET, recorder)
    return [(failure.kind, failure.basis) for failure in recorder.result().failures]


def fail(error: Exception) -> None:
    raise error


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


def nothing_raised(lab: Lab) -> None:
    lab.raises("a call", lambda: None if lab.on_target else fail(RuntimeError()))


def missing_warning(lab: Lab) -> None:
    lab.warns("a call", lambda: None if lab.on_target else warn("deprecated"), match="deprecated")


def missing_warning_that_a_page_states(lab: Lab) -> None:
    lab.warns("a call", lambda: None if lab.on_target else warn("deprecated"), is_documented=True)


def error_in_a_context(lab: Lab) -> None:
    with lab.parity("no page says more"):
        lab.same("a sum", fail(ValueError()) if lab.on_target else 1)


def wrong_after_an_error_in_a_context(lab: Lab) -> None:
    lab.same("before", 1)
    with lab.parity("no page says more"):
        lab.same("the first", 1)
        with lab.consistent("the inner context is entered on the CPU only"):
            lab.same("a sum", fail(ValueError()) if lab.on_target else 1)
        with lab.consistent("so is this"):
            lab.same("another", 1)
    lab.same("after", int(lab.on_target))
    with lab.documented():
        lab.same("last", int(lab.on_target))


def name_that_a_skipped_statement_defines(lab: Lab) -> None:
    with lab.parity("no page says more"):
        if lab.on_target:
            fail(ValueError())
        total = 1
    lab.same("a sum", total)


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
        (nothing_raised, [(Kind.ERROR_TYPE, Basis.CONSISTENCY)]),
        (missing_warning, [(Kind.MESSAGE, Basis.PARITY)]),
        (missing_warning_that_a_page_states, [(Kind.MESSAGE, Basis.CONSISTENCY)]),
        (error_in_a_context, [(Kind.EXCEPTION, Basis.PARITY)]),
        (
            wrong_after_an_error_in_a_context,
            [(Kind.VALUE, Basis.CONSISTENCY), (Kind.VALUE, Basis.DOCUMENTED), (Kind.EXCEPTION, Basis.PARITY)],
        ),
        (
            name_that_a_skipped_statement_defines,
            [(Kind.EXCEPTION, Basis.PARITY), (Kind.EXCEPTION, Basis.PARITY)],
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
