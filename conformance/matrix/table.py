"""A matrix as a table: one column per build, one row per mode."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from conformance.matrix.collect import Outcome

_SIGNS = {
    "passed": "pass",
    "unsupported": "unsupported",
    "failed": "FAIL",
    "incomplete": "INCOMPLETE",
    "not-started": "NOT STARTED",
    "missing": "MISSING",
}


def words(outcome: Outcome) -> str:
    """Describe a cell in a few words: its verdict, its level, and the number that passed."""
    if not outcome.counts:
        return _SIGNS[outcome.status]
    passed = outcome.counts.get("pass", 0) + outcome.counts.get("xfail", 0)
    return f"{_SIGNS[outcome.status]} ({outcome.cell.level}, {passed} of {outcome.planned})"


def heads(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the head of each column: build, torch that ran, and the C++ ABIs of torch and the backend."""
    columns: dict[str, str] = {}
    for outcome in outcomes:
        name = outcome.cell.build
        if outcome.abi is not None or name not in columns:
            torch = outcome.torch or "?"
            abis = f"ABI {outcome.abi or '?'}" + (f" / {outcome.backend_abi}" if outcome.backend_abi else "")
            build = outcome.cell.spec if len(outcome.cell.spec) < 20 else name
            columns[name] = f"{build} {outcome.cell.kind}: {torch}, {abis}"
    return columns


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return the table as texts, heads first."""
    columns = heads(outcomes)
    modes = list(dict.fromkeys(outcome.cell.mode for outcome in outcomes))
    cell = {(outcome.cell.build, outcome.cell.mode): words(outcome) for outcome in outcomes}
    body = [[mode, *(cell.get((name, mode), "-") for name in columns)] for mode in modes]
    return [["mode", *columns.values()], *body]


def text(outcomes: Sequence[Outcome]) -> str:
    """Write the table for a terminal: one line per build and mode, so that no line is wider than a screen."""
    lines = []
    width = max((len(outcome.cell.mode) for outcome in outcomes), default=0)
    last = ""
    for outcome in outcomes:
        head = heads(outcomes)[outcome.cell.build]
        if head != last:
            lines.append(head)
            last = head
        why = f"  {_short(outcome.text)}" if outcome.text else ""
        lines.append(f"  {outcome.cell.mode:{width}s}  {words(outcome)}{why}")
    return _whole("\n".join(lines))


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Write the table for a job's summary. Text from a run is escaped."""
    table = rows(outcomes)
    lines = [_line(table[0]), _line(["---"] * len(table[0])), *(_line(row) for row in table[1:])]
    notes = [
        f"* {escaped(outcome.cell.id)}: {escaped(_short(outcome.text))}"
        for outcome in outcomes
        if outcome.text
    ]
    return "\n".join([*lines, "", *notes, ""])


def escaped(untrusted: str) -> str:
    """Escape text, so that Markdown and HTML in it mean nothing."""
    plain = re.sub(r"([\\`*_{}\[\]()#+!|@~:-])", r"\\\1", " ".join(_whole(untrusted).split()))
    return html.escape(plain, quote=False).replace("www.", "www\\.")  # GitHub would make a link


def coded(untrusted: str) -> str:
    """Set text as code, in which GitHub finds no mention, reference or link either."""
    plain = " ".join(_whole(untrusted).replace("`", "'").split())
    return f"`{plain}`" if plain else ""


def _whole(text: str) -> str:
    """Replace halves of characters, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def _line(row: Sequence[str]) -> str:
    return f"| {' | '.join(part if part == '---' else escaped(part) for part in row)} |"


def _short(untrusted: str) -> str:
    return untrusted if len(untrusted) <= 300 else untrusted[:299] + "…"
