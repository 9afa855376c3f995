"""The state of a cell in words, the same on pages, on badges and in the data."""

from __future__ import annotations

from conformance.site.matrix_cells import Cell

#: States of a cell with their meanings; each looks different, and only a fresh pass looks like a pass.
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


def state(cell: Cell | None) -> str:
    """Return the state of a cell, one of ``STATES``; ``unknown`` without a cell."""
    if cell is None:
        return "unknown"
    if cell.age in ("stale", "retired"):
        return cell.age
    if cell.missing is not None:
        return "missing"
    return {"passed": "pass", "failed": "fail"}.get(cell.newest.status, cell.newest.status)


def short(cell: Cell | None) -> str:
    """Describe a cell in a few words beside its state: the level held, and the share that passed."""
    if cell is None:
        return "no result yet"
    run = cell.newest
    name = state(cell)
    if name in ("stale", "retired"):
        return f"last seen {run.when.date()}"
    if name == "missing" and cell.missing is not None:
        return f"no result since {cell.missing.date()}"
    if run.status == "refused":
        return "does not run on this build"
    level = run.level or f"no level ({run.leg['level']} run)"
    return f"{level}, {percent(run.share)} passed"


def percent(share: float) -> str:
    """Write a share in percent, never rounded up to all."""
    value = int(share * 1000) / 10
    return f"{value:g} %"
