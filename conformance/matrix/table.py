"""Format a matrix as a table with one column per build and one row per mode."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from conformance.matrix.collect import CellOutcome, CellStatus

_SIGNS = {
    CellStatus.PASSED: "pass",
    CellStatus.UNSUPPORTED: "unsupported",
    CellStatus.FAILED: "FAIL",
    CellStatus.INCOMPLETE: "INCOMPLETE",
    CellStatus.NOT_STARTED: "NOT STARTED",
    CellStatus.MISSING: "MISSING",
}


def describe_outcome(outcome: CellOutcome) -> str:
    """Return a short text for a cell: its status, its level, and the number of passed results."""
    if not outcome.counts:
        return _SIGNS[outcome.status]
    passed = sum(outcome.counts.get(verdict, 0) for verdict in ("pass", "xfail", "parity"))
    return f"{_SIGNS[outcome.status]} ({outcome.cell.level}, {passed} of {outcome.planned})"


def column_heads(outcomes: Sequence[CellOutcome]) -> dict[str, str]:
    """Return the head of each column: the build, its torch, and the C++ ABIs of torch and the backend."""
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
    """Return the rows of the table as texts, starting with the heads."""
    columns = column_heads(outcomes)
    modes = list(dict.fromkeys(outcome.cell.mode for outcome in outcomes))
    cell = {(outcome.cell.build, outcome.cell.mode): describe_outcome(outcome) for outcome in outcomes}
    body = [[mode, *(cell.get((name, mode), "-") for name in columns)] for mode in modes]
    return [["mode", *columns.values()], *body]


def terminal_table(outcomes: Sequence[CellOutcome]) -> str:
    """Return the table as text for a terminal, with one line per build and mode, so that the lines are
    short.
    """
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
    """Return the table as Markdown for the summary of a job. Text from a run is escaped."""
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
    """Return text with Markdown and HTML escaped."""
    escaped_text = re.sub(r"([\\`*_{}\[\]()#+!|@~:-])", r"\\\1", " ".join(_encodable(untrusted).split()))
    return html.escape(escaped_text, quote=False).replace("www.", "www\\.")  # GitHub would create a link


def code_span(untrusted: str) -> str:
    """Return text as a code span, in which GitHub creates no mention, reference or link."""
    single_line = " ".join(_encodable(untrusted).replace("`", "'").split())
    return f"`{single_line}`" if single_line else ""


def _encodable(text: str) -> str:
    """Return text with lone surrogates replaced, because they cannot be encoded."""
    return text.encode(errors="replace").decode()


def _table_line(row: Sequence[str]) -> str:
    return f"| {' | '.join(part if part == '---' else escape_markdown(part) for part in row)} |"


def _shorten(untrusted: str) -> str:
    return untrusted if len(untrusted) <= 300 else untrusted[:299] + "…"
