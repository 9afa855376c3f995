"""Render the pages of the site. The templates escape every value."""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.model import glossary, records
from conformance.model.vocabulary import LEVELS
from conformance.results import scrub
from conformance.site import cell_state, suite_health
from conformance.site.build_columns import Build, release_numbers
from conformance.site.interop import Score
from conformance.site.matrix_cells import Cell
from conformance.site.registry import Backend
from conformance.site.rendering import render
from conformance.site.sparkline import Trend
from conformance.site.submissions import RefusedRun

ASSETS = Path(__file__).parent / "assets"
#: The maximum number of results per cell on the page of a backend.
_LISTED = 50


@dataclasses.dataclass(frozen=True)
class MatrixRow:
    """A row of the matrix: for each column a cell or None. ``mode`` is empty if the backend has no result."""

    backend: Backend
    mode: str
    cells: Sequence[tuple[Build | None, Cell | None]]


@dataclasses.dataclass(frozen=True)
class NonPassingResult:
    """A result that is neither a pass nor declared unsupported, with the beginning of its first failure."""

    verdict: str
    id: str
    message: str


@dataclasses.dataclass(frozen=True)
class CellSection:
    """A cell on the page of its backend.

    ``declared`` counts unsupported results by property. ``trend`` shows the share of planned results that
    passed over time, and ``levels`` the number of the held level (0 for no level). ``trend`` and ``levels``
    contain only complete runs.
    """

    cell: Cell
    facts: Mapping[str, object]
    problems: Sequence[str]
    gaps: Sequence[NonPassingResult]
    declared: Sequence[tuple[str, int]]
    trend: Trend | None
    levels: Trend | None


def index_page(
    backends: Mapping[str, Backend],
    cells: Sequence[Cell],
    refused: Sequence[RefusedRun],
    today: datetime.date,
    included: Sequence[str] = (),
) -> str:
    """Return the matrix page: a row for each backend and mode, a column for each build.

    ``included`` are the folder names of other pages, which the header links.
    """
    builds = list(dict.fromkeys(cell.build for cell in _sorted_by_build(cells)))
    ordered_backends = sorted(backends.values(), key=lambda backend: backend.stand_in)  # variants come last
    return render(
        "index.html",
        title="Compatibility of PyTorch backends",
        root="",
        included=included,
        today=today,
        builds=builds,
        modes=sorted({cell.mode for cell in cells}),
        states=cell_state.STATES,
        rows=[row for backend in ordered_backends for row in _matrix_rows(backend, cells, builds)],
        refused=refused,
    )


def backend_page(
    backend: Backend, cells: Sequence[Cell], today: datetime.date, included: Sequence[str] = ()
) -> str:
    """Return the page of one backend: its cells, its known gaps and its runs over time."""
    return render(
        "backend.html",
        title=backend.name,
        root="../",
        included=included,
        today=today,
        backend=backend,
        sections=[_cell_section(cell) for cell in cells if cell.backend == backend.id],
        most=_LISTED,
        level_names=("no level", *LEVELS),
    )


def explore_page(today: datetime.date, included: Sequence[str] = ()) -> str:
    """Return the Explore page. Its script displays operators, properties, areas, results and differences."""
    return render("explore.html", title="Explore the results", root="", included=included, today=today)


def glossary_page(today: datetime.date, included: Sequence[str] = ()) -> str:
    """Return the page of the terms of the project."""
    terms = glossary.glossary_meanings()
    return render("glossary.html", title="Glossary", root="", included=included, today=today, terms=terms)


def interop_page(
    scores: Sequence[Score], cells: Sequence[Cell], today: datetime.date, included: Sequence[str] = ()
) -> str:
    """Return the page of the interop scores and the health of the suite."""
    return render(
        "interop.html",
        title="Interop",
        root="",
        included=included,
        today=today,
        scores=scores,
        health=suite_health.suite_health(cells),
        power=suite_health.mutation_scores(),
        detected=suite_health.mutation_score_trends(),
    )


def _sorted_by_build(cells: Sequence[Cell]) -> list[Cell]:
    return sorted(
        cells, key=lambda cell: (release_numbers(cell.build.version), cell.build.version, cell.build.kind)
    )


def _matrix_rows(backend: Backend, cells: Sequence[Cell], builds: Sequence[Build]) -> list[MatrixRow]:
    by_mode: dict[str, dict[Build, Cell]] = {}
    for cell in cells:
        if cell.backend == backend.id:
            by_mode.setdefault(cell.mode, {})[cell.build] = cell
    if not by_mode:
        return [MatrixRow(backend, "", [(build, None) for build in builds] or [(None, None)])]
    return [
        MatrixRow(backend, mode, [(build, of_mode.get(build)) for build in builds])
        for mode, of_mode in by_mode.items()
    ]


def _level_number(level: str | None) -> int:
    """Return the number of a level, 1 for the narrowest. No level is 0."""
    return 0 if level is None else LEVELS.index(level) + 1


def _cell_section(cell: Cell) -> CellSection:
    leg = cell.newest.leg
    runs = [run for run in reversed(cell.runs) if run.is_complete and run.planned]
    details = [] if cell.line is None else cell.line.table_of(cell.newest).details.values()
    return CellSection(
        cell,
        _displayed_facts(cell),
        [scrub.scrub_text(text[:500]) for text in leg["problems"][:10]],
        [
            NonPassingResult(row["verdict"], row["id"], _first_message(row))
            for row in details
            if row["verdict"] not in ("unsupported", "skip")
        ],
        collections.Counter(
            row["id"].partition("/")[0] for row in details if row["verdict"] == "unsupported"
        ).most_common(20),
        Trend.from_values([(run.time_for_order, run.passed_share) for run in runs]),
        Trend.from_values([(run.time_for_order, _level_number(run.level)) for run in runs], steps=True),
    )


def _displayed_facts(cell: Cell) -> dict[str, object]:
    run = cell.newest
    leg = run.leg
    return {
        "state": f"{cell_state.cell_state(cell)}: {cell_state.short_cell_text(cell)}",
        "level held": run.level or "none",
        "level of the run": leg["level"],
        "passed": f"{run.passed} of {run.planned}",
        "claimed": f"{run.claimed} of {run.planned}",
        "provenance": run.provenance.channel_description,
        "measured": f"{run.time_for_order.date()}, {cell.age}",
        "torch": f"{leg['torch']}, commit {leg['facts'].get('torch', {}).get('revision')}",
        "backend": _backend_text(leg["facts"].get("backend", {})),
        "device": leg["target"]["device"] + (", simulated" if leg["target"].get("simulated") else ""),
        "python": leg["facts"].get("python"),
        "system": scrub.system_name(str(leg["facts"].get("platform"))),
        "suite": str(leg["digests"].get("suite"))[:12],
    }


def _backend_text(backend: Mapping[str, object]) -> str:
    if not backend.get("module"):
        return "none, or torch's own"
    return f"{backend.get('module')} {backend.get('version') or ''}, ABI {backend.get('abi') or 'none'}"


def _first_message(row: records.ResultRow) -> str:
    failures = row.get("failures")
    return scrub.scrub_text(failures[0]["message"][:200]) if failures else ""
