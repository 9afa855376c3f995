"""``runner.leg`` stops running subjects and properties that repeatedly end their processes. It runs all
others.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from conformance.model.vocabulary import AREA_KINDS
from conformance.plan.plan import Case, Plan
from conformance.results.run_state import LOST_SUBJECTS_IN_A_ROW, RunState, kind_of_dtype
from conformance.runner.leg import run_rounds
from conformance.runner.pytest_rounds import Rounds
from conformance.runner.resume import rerun_results
from tests.support.simulated_xdist import SimulatedSession

#: Type of a function that returns whether the result of a case in a dtype ends its process.
Crashes = Callable[[Case, str], bool]
DTYPES = ("float32", "bfloat16", "float16", "int64")


class SimulatedRounds(Rounds):
    """Rounds without processes. The suite's scheduler assigns the cases to simulated workers."""

    def __init__(self, plan: Plan, workers: int, crashes: Crashes) -> None:
        self.run_state = RunState()
        self.journal: Any = types.SimpleNamespace(write=self._write)
        self.options: Any = types.SimpleNamespace(worker_count=lambda mode: workers, workers=workers, seed=0)
        self.mode = "eager"
        self.warm = None
        self.crashes = crashes
        self.deaths = 0
        self._write("plan", **plan.to_json())

    def _write(self, event: str, **fields: Any) -> None:
        self.run_state.apply({"event": event, **fields})  # type: ignore[arg-type, misc]

    def read_events(self, *, final: bool = False) -> int:
        return 0

    def run(
        self,
        plan: Plan,
        *,
        workers: int,
        attempt: int,
        continue_after_losses: bool = False,
        alone: bool = False,
    ) -> None:
        cases = {f"{case.kind}.{case.property}/{case.kind}.{case.subject}": case for case in plan.cases}

        session = SimulatedSession(
            list(cases),
            workers,
            isolated=attempt == 1 and not any(case.kind in AREA_KINDS for case in plan.cases),
            variants={item: kind_of_dtype(case.dtypes_in_run_order()[0]) for item, case in cases.items()},
            property_losses=LOST_SUBJECTS_IN_A_ROW,
            most_additional=2 * (workers - 1),
        )
        session.run(lambda item: not self._run_case(cases[item], attempt))

    def _run_case(self, case: Case, attempt: int) -> bool:
        """Run the results of a case until one ends the process. Return whether no result ended
        the process.
        """
        for dtype in case.dtypes_in_run_order():
            name = f"{case.id}@{dtype}"
            if self.run_state.has_attempt(name, attempt):
                continue  # another worker ran this result
            verdict = "crash" if self.crashes(case, dtype) else "pass"
            self._write("dtype", worker="w", id=name, attempt=attempt)
            self._write("result", worker="w", result={"id": name, "verdict": verdict, "attempt": attempt})
            if verdict == "crash":
                self.deaths += 1
                return False
        return True


def run_with_crashes(plan: Plan, workers: int, crashes: Crashes) -> SimulatedRounds:
    rounds = SimulatedRounds(plan, workers, crashes)
    run_rounds(rounds, plan)
    for case in plan.cases:
        for dtype in case.dtypes:
            rows = rounds.run_state.attempts[f"{case.id}@{dtype}"]
            expected = "crash" if crashes(case, dtype) else "pass"
            assert {row["verdict"] for row in rows} == {expected}, f"{case.id}@{dtype}"
    return rounds


def make_plan(subjects: int, dtypes: tuple[str, ...], kind: str = "operator") -> Plan:
    names = [f"{kind}{index:02}" for index in range(subjects)]
    return Plan([Case(kind, name, subject, dtypes) for subject in names for name in ("a", "b", "c", "d")])


def max_losses_of_property(workers: int) -> int:
    """Return the largest number of processes that a property may end in one dtype. In each of two attempts
    these are LOST_SUBJECTS_IN_A_ROW subjects in a row, the cases that other workers run at that time, and a
    sample of three subjects.
    """
    return 2 * (LOST_SUBJECTS_IN_A_ROW + workers - 1 + 3)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_property_is_given_up_and_its_subjects_are_not(workers: int, count: int) -> None:
    plan = make_plan(40, DTYPES[:count])
    rounds = run_with_crashes(plan, workers, lambda case, dtype: case.property == "b")
    assert rounds.deaths <= count * max_losses_of_property(workers)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_property_is_given_up_only_in_the_dtype_that_ends_its_process(workers: int) -> None:
    rounds = run_with_crashes(
        make_plan(40, DTYPES), workers, lambda case, dtype: case.property == "b" and dtype == "float16"
    )
    assert rounds.deaths <= max_losses_of_property(workers)


@pytest.mark.parametrize("workers", [1, 4])
def test_subjects_are_given_up_and_their_properties_are_not(workers: int) -> None:
    rounds = run_with_crashes(
        make_plan(40, DTYPES), workers, lambda case, dtype: case.subject <= "operator05"
    )
    assert rounds.deaths <= 6 * 4 + 6  # four per subject: three results, and one that runs alone


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("kind", ["operator", "api"])
@pytest.mark.parametrize("lost", [("bfloat16", "float16"), ("int64",), ("float32", "int64")], ids="+".join)
def test_results_in_other_dtypes_are_not_given_up(workers: int, kind: str, lost: tuple[str, ...]) -> None:
    run_with_crashes(make_plan(12, DTYPES, kind), workers, lambda case, dtype: dtype in lost)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_defect_of_half_of_the_subjects_is_not_taken_for_the_property(workers: int) -> None:
    run_with_crashes(
        make_plan(40, DTYPES[:2]),
        workers,
        lambda case, dtype: case.property == "b" and case.subject < "operator20",
    )


@pytest.mark.parametrize("workers", [1, 4])
def test_a_subject_that_others_took_with_them_is_not_given_up(workers: int) -> None:
    """Operator 07 crashes three times because other operators reset the device. It passes when
    it runs alone.
    """
    crashes = 0

    def is_lost(case: Case, dtype: str) -> bool:
        nonlocal crashes
        crashes += case.subject == "operator07"
        return case.subject < "operator07" or (case.subject == "operator07" and crashes <= 3)

    plan = make_plan(8, DTYPES)
    rounds = SimulatedRounds(plan, workers, is_lost)
    run_rounds(rounds, plan)
    rows = [rows[-1] for name, rows in rounds.run_state.attempts.items() if "/operator07@" in name]
    assert len(rows) == 16
    assert not [row for row in rows if "blocked_by" in row or row["verdict"] != "pass"]


def test_a_property_of_the_same_name_of_another_kind_is_not_given_up() -> None:
    cases = [*make_plan(20, DTYPES[:1], "module").cases, *make_plan(20, DTYPES[:1], "optimizer").cases]
    run_with_crashes(Plan(cases), 4, lambda case, dtype: (case.kind, case.property) == ("module", "b"))


def rerun_failures(crashes_again: Crashes) -> SimulatedRounds:
    """Run a plan in which two subjects end their processes. Rerun the failures, of which ``crashes_again``
    still end their processes, and return the run.
    """
    plan = make_plan(20, DTYPES[:2])
    rounds = run_with_crashes(plan, 2, lambda case, dtype: case.subject < "operator02")
    failed = [name for name, rows in rounds.run_state.attempts.items() if rows[-1]["verdict"] == "crash"]
    assert (
        len(failed) == 16 and sum("blocked_by" in rounds.run_state.attempts[name][-1] for name in failed) > 5
    )
    rounds.deaths, rounds.crashes = 0, crashes_again
    before = rounds.run_state.last_attempt()
    rerun_results(rounds, plan.with_results(failed))
    assert all(rounds.run_state.has_attempt(name, before + 1) for name in failed)
    return rounds


def test_a_rerun_does_not_repeat_results_whose_subject_is_lost_again() -> None:
    rounds = rerun_failures(lambda case, dtype: case.subject < "operator02")
    attempt = rounds.run_state.last_attempt()
    ran = [name for name in rounds.run_state.attempts if rounds.run_state.was_lost(name, attempt)]
    assert rounds.deaths == len(ran) < 10


def test_a_rerun_of_a_repaired_subject_runs_all_of_its_results() -> None:
    rounds = rerun_failures(lambda case, dtype: False)
    attempt = rounds.run_state.last_attempt()
    last = [rows[-1] for rows in rounds.run_state.attempts.values() if rows[-1].get("attempt", 1) == attempt]
    assert len(last) == 16 and {row["verdict"] for row in last} == {"pass"}
    assert rounds.deaths == 0
