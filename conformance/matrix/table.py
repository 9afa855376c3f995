"""A matrix as a table: one column per build, one row per mode."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from conformance.matrix.collect import CellOutcome

_SIGNS = {
    "passed": "pass",
    "unsupported": "unsupported",
    "failed": "FAIL",
    "incomplete": "INCOMPLETE",
    "not-started": "NOT STARTED",
    "missing": "MISSING",
}


def describe_outcome(outcome: CellOutcome) -> str:
    """Describe a cell in a few words: its verdict, its level, and the number that passed."""
    if not outcome.counts:
        return _SIGNS[outcome.status]
    passed = outcome.counts.get("pass", 0) + outcome.counts.get("xfail", 0)
    return f"{_SIGNS[outcome.status]} ({outcome.cell.level}, {passed} of {outcome.planned})"


def column_heads(outcomes: Sequence[CellOutcome]) -> dict[str, str]:
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


def table_rows(outcomes: Sequence[CellOutcome]) -> list[list[str]]:
    """Return the table as texts, heads first."""
    columns = column_heads(outcomes)
    modes = list(dict.fromkeys(outcome.cell.mode for outcome in outcomes))
    cell = {(outcome.cell.build, outcome.cell.mode): describe_outcome(outcome) for outcome in outcomes}
    body = [[mode, *(cell.get((name, mode), "-") for name in columns)] for mode in modes]
    return [["mode", *columns.values()], *body]


def terminal_table(outcomes: Sequence[CellOutcome]) -> str:
    """Write the table for a terminal: one line per build and mode, so that no line is wider than a screen."""
    lines = []
    width = max((len(outcome.cell.mode) for outcome in outcomes), default=0)
    last = ""
    for outcome in outcomes:
        head = column_heads(outcomes)[outcome.cell.build]
        if head != last:
            lines.append(head)
            last = head
        why = f"  {_shorten(outcome.text)}" if outcome.text else ""
        lines.append(f"  {outcome.cell.mode:{width}s}  {describe_outcome(outcome)}{why}")
    return _encodable("\n".join(lines))


def markdown_table(outcomes: Sequence[CellOutcome]) -> str:
    """Write the table for a job's summary. Text from a run is escaped."""
    table = table_rows(outcomes)
    lines = [
        _table_line(table[0]),
        _table_line(["---"] * len(table[0])),
        *(_table_line(row) for row in table[1:]),
    ]
    notes = [
        f"* {escape_markdown(outcome.cell.id)}: {escape_markdown(_shorten(outcome.text))}"
        for outcome in outcomes
        if outcome.text
    ]
    return "\n".join([*lines, "", *notes, ""])


def escape_markdown(untrusted: str) -> str:
    """Escape text, so that Markdown and HTML in it mean nothing."""
    escaped_text = re.sub(r"([\\`*_{}\[\]()#+!|@~:-])", r"\\\1", " ".join(_encodable(untrusted).split()))
    return html.escape(escaped_text, quote=False).replace("www.", "www\\.")  # GitHub would make a link


def code_span(untrusted: str) -> str:
    """Set text as code, in which GitHub finds no mention, reference or link either."""
    single_line = " ".join(_encodable(untrusted).replace("`", "'").split())
    return f"`{single_line}`" if single_line else ""


def _encodable(text: str) -> str:
    """Replace halves of characters, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def _table_line(row: Sequence[str]) -> str:
    return f"| {' | '.join(part if part == '---' else escape_markdown(part) for part in row)} |"


def _shorten(untrusted: str) -> str:
    return untrusted if len(untrusted) <= 300 else untrusted[:299] + "…"
