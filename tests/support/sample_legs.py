"""Artificial result rows, expectations and small legs, for tests of results, reports and expectations."""

from __future__ import annotations

import copy
import datetime
from typing import Any

from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.model.verdicts import Kind
from conformance.plan.plan import Case, Plan
from conformance.results import document
from conformance.results.run_state import RunState

DAY = datetime.date(2030, 1, 1)
HEADER = {
    "name": "t-eager",
    "mode": "eager",
    "target": {"name": "cpu", "file": "cpu.toml", "device": "cpu", "precision": "ieee"},
    "level": "full",
    "shard": "1/1",
    "selection": None,
    "samples": "default",
    "started": "2030-01-01T00:00:00+00:00",
    "workers": 1,
    "facts": {"torch": {"version": "2.13.0"}},
    "digests": dict.fromkeys(("suite", "manifest", "target", "expectations", "torch", "backend")),
    "left_out": 0,
}


def row(result_id: str, verdict: str, *kinds: str, attempt: int = 1) -> dict[str, Any]:
    """Return a result row with one failure per kind."""
    failures = [{"kind": kind, "message": "m"} for kind in kinds]
    return {"id": result_id, "verdict": verdict, "seconds": 0.5, "failures": failures, "attempt": attempt}


def expectation(
    pattern: str, kind: str, until: str = "2999-01-01", modes: tuple[str, ...] = ()
) -> Expectation:
    """Return an expectation that results matching the pattern fail with this failure kind."""
    return Expectation(
        pattern, Kind(kind), "accuracy", "https://example.org", until, "file.toml", modes=modes
    )


def run_leg(
    *verdicts: str, planned: int | None = None, ended: bool = True, events: tuple[dict[str, Any], ...] = ()
) -> Any:
    """Return a leg, computed from the events of a run that has one result ``p/sN@d`` per verdict.

    ``planned``: number of planned cases. ``ended``: whether the run has an end event. ``events``: further
    events.
    """
    run_state = RunState()
    count = len(verdicts) if planned is None else planned
    plan = Plan([Case("artificial", "p", f"s{index}", ("d",)) for index in range(count)])
    run_state.apply({"event": "run", **HEADER})
    run_state.apply({"event": "plan", **plan.to_json()})
    for index, verdict in enumerate(verdicts):
        run_state.apply({"event": "result", "worker": "w", "result": row(f"p/s{index}@d", verdict)})
    for event in events:
        run_state.apply(event)
    if ended:
        run_state.apply({"event": "end", "seconds": 1.0})
    return document.leg_of_run(run_state, TargetExpectations((), ""), today=DAY)


def leg(mode: str = "eager", *verdicts: str, build: str = "2.13.0+cpu", **changes: Any) -> dict[str, Any]:
    """Return a leg with one result ``p/sN@d`` per verdict. ``changes`` replace keys of the leg, except
    ``digests``, which are added to the digests of the leg.
    """
    leg_record = copy.deepcopy(run_leg(*(verdicts or ("pass",))))
    leg_record["digests"].update(dict.fromkeys(leg_record["digests"], "a" * 64), **changes.pop("digests", {}))
    return {**leg_record, "name": f"{build}-{mode}", "build": build, "torch": build, "mode": mode, **changes}


def leg_with_expectations(
    entries: list[Expectation], verdicts: dict[str, str], *, missing: int = 0, **header: Any
) -> dict[str, Any]:
    """Return a leg, computed from the events of a run, in which ``entries`` are the expectations.

    ``verdicts``: subject name -> verdict. Each failure has kind ``value``. ``missing``: the number of further
    cases that are planned and have no result.
    """
    run_state = RunState()
    names = [*verdicts, *(f"missing{number}" for number in range(missing))]
    run_state.apply({"event": "run", **HEADER, **header})
    run_state.apply(
        {"event": "plan", **Plan([Case("artificial", "p", name, ("d",)) for name in names]).to_json()}
    )
    for name, verdict in verdicts.items():
        kinds = ("value",) if verdict == "fail" else ()
        result_row = row(f"p/{name}@d", verdict, *kinds)
        run_state.apply({"event": "result", "worker": "w", "result": result_row})
    run_state.apply({"event": "end", "seconds": 1.0})
    return document.leg_of_run(run_state, TargetExpectations(tuple(entries), ""), today=DAY)


def results_with_three_verdicts() -> dict[str, Any]:
    """Return a results document with a pass, a failure whose message contains HTML, and an unsupported
    result.
    """
    results = document.results_document([run_leg("pass", "fail", "unsupported")])
    results["legs"][0]["results"][1]["failures"] = [
        {"kind": "value", "message": "</script><b>&\u2028 \x00 differs"}
    ]
    return results
