"""Rows, expectations and legs made up for the tests of results."""

from __future__ import annotations

import copy
import datetime
from typing import Any

from conformance.expectations.entries import Expectation, TargetExpectations
from conformance.model.verdicts import Kind
from conformance.plan.plan import Case, Plan
from conformance.results import document
from conformance.results.run_state import Ledger

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
    """A row of results with one failure of each kind."""
    failures = [{"kind": kind, "message": "m"} for kind in kinds]
    return {"id": result_id, "verdict": verdict, "seconds": 0.5, "failures": failures, "attempt": attempt}


def expected(pattern: str, kind: str, until: str = "2999-01-01", modes: tuple[str, ...] = ()) -> Expectation:
    """An entry of expectations for results of a kind."""
    return Expectation(
        pattern, Kind(kind), "accuracy", "https://example.org", until, "file.toml", modes=modes
    )


def run_leg(
    *verdicts: str, planned: int | None = None, ended: bool = True, events: tuple[dict[str, Any], ...] = ()
) -> Any:
    """A leg made from the events of a run: one result of the property ``p`` per verdict."""
    ledger = Ledger()
    count = len(verdicts) if planned is None else planned
    plan = Plan([Case("sham", "p", f"s{index}", ("d",)) for index in range(count)])
    ledger.apply({"event": "run", **HEADER})
    ledger.apply({"event": "plan", **plan.to_json()})
    for index, verdict in enumerate(verdicts):
        ledger.apply({"event": "result", "worker": "w", "result": row(f"p/s{index}@d", verdict)})
    for event in events:
        ledger.apply(event)
    if ended:
        ledger.apply({"event": "end", "seconds": 1.0})
    return document.leg(ledger, TargetExpectations((), ""), today=DAY)


def leg(mode: str = "eager", *verdicts: str, build: str = "2.13.0+cpu", **changes: Any) -> dict[str, Any]:
    """A leg with one result per verdict; ``digests`` are added to its own."""
    found = copy.deepcopy(run_leg(*(verdicts or ("pass",))))
    found["digests"].update(dict.fromkeys(found["digests"], "a" * 64), **changes.pop("digests", {}))
    return {**found, "name": f"{build}-{mode}", "build": build, "torch": build, "mode": mode, **changes}


def judged(
    entries: list[Expectation], verdicts: dict[str, str], *, missing: int = 0, **header: Any
) -> dict[str, Any]:
    """A leg with results of kind ``value``, made from the events of a run."""
    ledger = Ledger()
    names = [*verdicts, *(f"missing{number}" for number in range(missing))]
    ledger.apply({"event": "run", **HEADER, **header})
    ledger.apply({"event": "plan", **Plan([Case("sham", "p", name, ("d",)) for name in names]).to_json()})
    for name, verdict in verdicts.items():
        kinds = ("value",) if verdict == "fail" else ()
        found = row(f"p/{name}@d", verdict, *kinds)
        ledger.apply({"event": "result", "worker": "w", "result": found})
    ledger.apply({"event": "end", "seconds": 1.0})
    return document.leg(ledger, TargetExpectations(tuple(entries), ""), today=DAY)


def three_results() -> dict[str, Any]:
    """The results of a pass, a failure with a hostile message, and a refusal."""
    found = document.document([run_leg("pass", "fail", "unsupported")])
    found["legs"][0]["results"][1]["failures"] = [
        {"kind": "value", "message": "</script><b>&\u2028 \x00 differs"}
    ]
    return found
