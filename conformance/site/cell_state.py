"""Texts for the state of a cell. Pages, badges and data use the same texts."""

from __future__ import annotations

from conformance.certificate.leg_status import LegStatus
from conformance.site.matrix_cells import Cell

#: The states of a cell with their meanings. An old pass has the state stale or retired, never pass.
STATES = {
    "pass": "no unexpected result",
    "fail": "an unexpected result",
    "incomplete": "the run did not complete",
    "missing": "a later run of this project's workflow scheduled this cell but produced no result",
    "refused": "the backend does not run on this build",
    "stale": "last seen more than 14 days ago",
    "retired": "last seen more than 90 days ago",
    "unknown": "no result yet",
}


#: States from the best to the worst, for badges that show several cells.
SEVERITY = ("pass", "unknown", "refused", "retired", "stale", "missing", "incomplete", "fail")


def cell_state(cell: Cell | None) -> str:
    """Return the state of a cell, one of ``STATES``. The state is ``unknown`` if the cell is None."""
    if cell is None:
        return "unknown"
    if cell.age in ("stale", "retired"):
        return cell.age
    if cell.missing is not None:
        return "missing"
    return {LegStatus.PASSED: "pass", LegStatus.FAILED: "fail"}.get(
        cell.newest.status, cell.newest.status.value
    )


def short_cell_text(cell: Cell | None) -> str:
    """Return a short description of a cell: the level that it holds, and the share of passed results."""
    if cell is None:
        return "no result yet"
    run = cell.newest
    name = cell_state(cell)
    if name in ("stale", "retired"):
        return f"last seen {run.time_for_order.date()}"
    if name == "missing" and cell.missing is not None:
        return f"no result since {cell.missing.date()}"
    if run.status is LegStatus.REFUSED:
        return "does not run on this build"
    level = run.level or f"no level ({run.leg['level']} run)"
    return f"{level}, {percent(run.passed_share)} passed"


def percent(share: float) -> str:
    """Return a share in percent, rounded down, so that only a complete share is 100 %."""
    value = int(share * 1000) / 10
    return f"{value:g} %"
