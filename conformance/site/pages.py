"""The pages of the site. Whatever comes from a results file or the registry goes through :func:`esc`."""

from __future__ import annotations

import collections
import datetime
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.results import privacy
from conformance.site import words
from conformance.site.cells import Cell, Run
from conformance.site.columns import Build, release
from conformance.site.registry import Backend
from conformance.site.submissions import Refused

ASSETS = Path(__file__).parent / "assets"
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
#: Failing results that a backend's page names, for each cell.
_GAPS = 50


def esc(value: object) -> str:
    """A text as HTML text or attribute."""
    return html.escape(str(value), quote=True)


def page(title: str, body: str, root: str, today: datetime.date) -> str:
    """A whole page; ``root`` leads to the folder of the site."""
    return (
        "<!doctype html>\n"
        f'<html lang="en" data-made="{today}"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{esc(title)}</title>\n"
        f'<link rel="icon" href="{root}icon.svg"><link rel="stylesheet" href="{root}site.css">\n'
        f'<script src="{root}site.js" defer></script></head>\n'
        '<body><a class="skip" href="#main">Skip to the content</a>\n'
        f'<header><a href="{root}index.html">Compatibility of PyTorch backends</a></header>\n'
        f'<main id="main"><h1>{esc(title)}</h1>\n{body}</main>\n'
        f'<footer>Made on {today}. <a href="{root}data.json">All data as JSON</a>.</footer></body></html>\n'
    )


def index(
    backends: Mapping[str, Backend], cells: Sequence[Cell], refused: Sequence[Refused], today: datetime.date
) -> str:
    """The matrix: a row for each backend and mode, a column for each build."""
    builds = list(dict.fromkeys(cell.build for cell in _by_build(cells)))
    modes = sorted({cell.mode for cell in cells})
    head = "".join(
        f'<th scope="col" data-build="{esc(build.slug)}">{esc(build.version)}<br>'
        f"<small>{esc(build.kind)}, ABI {esc(build.abi)}</small></th>"
        for build in builds
    )
    if not builds:
        head = '<th scope="col">no build yet</th>'
    rows = "".join(_rows(backend, cells, builds) for backend in backends.values())
    legend = "".join(
        f'<li><span class="state {name}">{name}</span> {esc(text)}</li>'
        for name, text in words.STATES.items()
    )
    body = (
        "<p>What each backend does of what PyTorch promises, by build of torch and mode, as this suite has "
        "measured it. A share is of the results of the level that was run.</p>\n"
        f"{_filters(modes, builds)}"
        '<div class="wide" tabindex="0" role="region" aria-label="Matrix"><table id="matrix">\n'
        f'<thead><tr><th scope="col">backend</th><th scope="col">mode</th>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>\n"
        '<p id="nothing" hidden>No row is left: take a filter back.</p>\n'
        f"<h2>Legend</h2><ul class=legend>{legend}</ul>\n{_refusals(refused)}"
    )
    return page("Compatibility of PyTorch backends", body, "", today)


def _by_build(cells: Sequence[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: (release(cell.build.version), cell.build.version, cell.build.kind))


def _filters(modes: Sequence[str], builds: Sequence[Build]) -> str:
    options = "".join(f"<option>{esc(mode)}</option>" for mode in modes)
    columns = "".join(
        f'<option value="{esc(build.slug)}">{esc(build.version)} {esc(build.kind)}</option>'
        for build in builds
    )
    states = "".join(f"<option>{state}</option>" for state in words.STATES)
    return (
        '<div class="filters" hidden>'
        '<label>Backend <input id="backend" type="search" autocomplete="off"></label>'
        f'<label>Mode <select id="mode"><option value="">all</option>{options}</select></label>'
        f'<label>Build <select id="build"><option value="">all</option>{columns}</select></label>'
        f'<label>State <select id="state"><option value="">all</option>{states}</select></label>'
        "</div>\n"
    )


def _rows(backend: Backend, cells: Sequence[Cell], builds: Sequence[Build]) -> str:
    own = [cell for cell in cells if cell.backend == backend.id]
    name = f'<a href="backends/{esc(backend.id)}.html">{esc(backend.name)}</a>'
    if not own:
        unknown = "".join(_cell(None, build) for build in builds) or _cell(None, None)
        head = f'<tr data-backend="{esc(backend.name)}" data-mode=""><th scope="row">{name}</th>'
        return f"{head}<td>-</td>{unknown}</tr>\n"
    found = []
    for mode in dict.fromkeys(cell.mode for cell in own):
        at = {cell.build: cell for cell in own if cell.mode == mode}
        columns = "".join(_cell(at.get(build), build) for build in builds)
        found.append(
            f'<tr data-backend="{esc(backend.name)}" data-mode="{esc(mode)}"><th scope="row">{name}</th>'
            f"<td>{esc(mode)}</td>{columns}</tr>\n"
        )
    return "".join(found)


def _cell(cell: Cell | None, build: Build | None) -> str:
    state = words.state(cell)
    inner = f'<span class="state {state}">{state}</span>'
    if cell is not None:
        run = cell.newest
        where = f"backends/{cell.backend}.html#{cell.build.slug}-{cell.mode}"
        claimed = f"{words.percent(run.share_claimed)} claimed, " if run.planned else ""
        worse = f", {len(run.regressed)} regressed" if run.regressed else ""
        inner += (
            f' <a href="{esc(where)}">{esc(words.short(cell))}</a><br><small>'
            f"{claimed}{esc(run.submission.provenance.words)}, "
            f"{run.submission.when.date()}{worse}</small>"
        )
    slug = build.slug if build is not None else ""
    return f'<td data-build="{esc(slug)}" data-state="{state}">{inner}</td>'


def _refusals(refused: Sequence[Refused]) -> str:
    if not refused:
        return ""
    rows = "".join(f"<li><code>{esc(one.place)}</code>: {esc(one.why)}</li>" for one in refused)
    return f"<h2>Not shown</h2><p>Submissions that were refused, and why.</p><ul>{rows}</ul>\n"


def backend_page(backend: Backend, cells: Sequence[Cell], today: datetime.date) -> str:
    """The page of one backend: how it was measured, its known gaps, its runs over time."""
    own = [cell for cell in cells if cell.backend == backend.id]
    link = f'<a href="{esc(backend.link)}" rel="noopener">{esc(backend.link)}</a>'
    body = f"<p>{link}</p>\n" if backend.link else "<p>A device of this project, simulated on the CPU.</p>\n"
    if not own:
        body += '<p><span class="state unknown">unknown</span> no result yet.</p>\n'
    for cell in own:
        body += _section(cell)
    return page(backend.name, body, "../", today)


def _section(cell: Cell) -> str:
    run = cell.newest
    leg = run.submission.leg
    title = f"{cell.mode} on torch {cell.build.version} ({cell.build.kind}, ABI {cell.build.abi})"
    state = words.state(cell)
    facts: dict[str, Any] = {
        "state": f"{words.state(cell)}: {words.short(cell)}",
        "level held": run.level or "none",
        "level of the run": leg["level"],
        "passed": f"{run.passed} of {run.planned}",
        "claimed": f"{run.claimed} of {run.planned}",
        "provenance": run.submission.provenance.words,
        "measured": f"{run.submission.when.date()}, {cell.age}",
        "torch": f"{leg['torch']}, commit {leg['facts'].get('torch', {}).get('revision')}",
        "backend": _said(leg["facts"].get("backend", {})),
        "device": leg["target"]["device"] + (", simulated" if leg["target"].get("simulated") else ""),
        "python": leg["facts"].get("python"),
        "system": privacy.system(str(leg["facts"].get("platform"))),
        "suite": str(leg["digests"].get("suite"))[:12],
    }
    list_of = "".join(f"<dt>{esc(key)}</dt><dd>{esc(value)}</dd>" for key, value in facts.items())
    problems = "".join(f"<li>{esc(privacy.text(text[:500]))}</li>" for text in leg["problems"][:10])
    return (
        f'<section id="{esc(cell.build.slug)}-{esc(cell.mode)}"><h2>{esc(title)}</h2>\n'
        f'<p><span class="state {state}">{state}</span></p><dl>{list_of}</dl>\n'
        + (f"<h3>Problems</h3><ul>{problems}</ul>\n" if problems else "")
        + _regressions(run)
        + _gaps(leg)
        + _history(cell)
        + "</section>\n"
    )


def _said(backend: Mapping[str, Any]) -> str:
    if not backend.get("module"):
        return "none, or torch's own"
    return f"{backend.get('module')} {backend.get('version') or ''}, ABI {backend.get('abi') or 'none'}"


def _regressions(run: Run) -> str:
    if run.compared_with is None:
        return ""
    if not run.regressed:
        return f"<p>Nothing regressed since run {esc(run.compared_with)}.</p>\n"
    names = "".join(f"<li><code>{esc(name)}</code></li>" for name in run.regressed[:_GAPS])
    more = f"<p>and {len(run.regressed) - _GAPS} more</p>" if len(run.regressed) > _GAPS else ""
    return f"<h3>Regressed since run {esc(run.compared_with)}</h3><ul>{names}</ul>{more}\n"


def _gaps(leg: Mapping[str, Any]) -> str:
    """Results that are not a pass, by verdict; those that the target declares unsupported by property."""
    bad = [row for row in leg["results"] if row["verdict"] not in ("pass", "unsupported", "skip")]
    declared = collections.Counter(
        row["id"].partition("/")[0] for row in leg["results"] if row["verdict"] == "unsupported"
    )
    text = ""
    if bad:
        rows = [
            [esc(row["verdict"]), f"<code>{esc(row['id'])}</code>", esc(_why(row))] for row in bad[:_GAPS]
        ]
        more = f"<p>and {len(bad) - _GAPS} more</p>" if len(bad) > _GAPS else ""
        table = _table("Known gaps", ("verdict", "result", "what it says"), rows)
        text += f"<details><summary>Known gaps</summary>{table}{more}</details>\n"
    if declared:
        names = ", ".join(f"{esc(name)} ({count})" for name, count in declared.most_common(20))
        text += f"<p>Declared unsupported, and refused: {names}.</p>\n"
    return text


def _why(row: Mapping[str, Any]) -> str:
    failures = row.get("failures") or [{}]
    return privacy.text(str(failures[0].get("message", ""))[:200])


def _history(cell: Cell) -> str:
    rows = [
        [
            esc(run.submission.when.date()),
            esc(run.status),
            esc(run.level or "none"),
            f"{run.passed} of {run.planned}",
            str(len(run.regressed)),
            _link(run),
        ]
        for run in cell.runs[:100]
    ]
    heads = ("date", "run ended", "level", "passed", "regressed", "provenance")
    return f"<h3>Runs</h3>{_table('Runs', heads, rows)}\n"


def _table(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls by itself; its cells are HTML."""
    head = "".join(f'<th scope="col">{esc(word)}</th>' for word in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{esc(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _link(run: Run) -> str:
    where = run.submission.provenance
    if where.link is None:
        return esc(where.words)
    return f'<a href="{esc(where.link)}" rel="noopener">{esc(where.words)}</a>'
