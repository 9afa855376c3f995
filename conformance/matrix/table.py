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


def words(one: Outcome) -> str:
    """A cell in a few words: the verdict, the level, and how much of it passed."""
    if not one.counts:
        return _SIGNS[one.status]
    passed = one.counts.get("pass", 0) + one.counts.get("xfail", 0)
    return f"{_SIGNS[one.status]} ({one.cell.level}, {passed} of {one.planned})"


def heads(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """The head of each column: the build, the torch that ran, and the C++ ABIs of torch and the backend."""
    found: dict[str, str] = {}
    for one in outcomes:
        name = one.cell.build
        if one.abi is not None or name not in found:
            torch = one.torch or "?"
            abis = f"ABI {one.abi or '?'}" + (f" / {one.backend_abi}" if one.backend_abi else "")
            found[name] = (
                f"{one.cell.spec if len(one.cell.spec) < 20 else name} {one.cell.kind}: {torch}, {abis}"
            )
    return found


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """The table as texts, heads first."""
    columns = heads(outcomes)
    modes = list(dict.fromkeys(one.cell.mode for one in outcomes))
    cell = {(one.cell.build, one.cell.mode): words(one) for one in outcomes}
    body = [[mode, *(cell.get((name, mode), "-") for name in columns)] for mode in modes]
    return [["mode", *columns.values()], *body]


def text(outcomes: Sequence[Outcome]) -> str:
    """For a terminal, turned: one line per build and mode, so that no line is wider than a screen."""
    lines = []
    width = max((len(one.cell.mode) for one in outcomes), default=0)
    last = ""
    for one in outcomes:
        head = heads(outcomes)[one.cell.build]
        if head != last:
            lines.append(head)
            last = head
        why = f"  {_short(one.text)}" if one.text else ""
        lines.append(f"  {one.cell.mode:{width}s}  {words(one)}{why}")
    return _whole("\n".join(lines))


def markdown(outcomes: Sequence[Outcome]) -> str:
    """For a job's summary. Whatever a run has said is escaped."""
    table = rows(outcomes)
    lines = [_line(table[0]), _line(["---"] * len(table[0])), *(_line(row) for row in table[1:])]
    notes = [f"* {escaped(one.cell.id)}: {escaped(_short(one.text))}" for one in outcomes if one.text]
    return "\n".join([*lines, "", *notes, ""])


def escaped(words_of_others: str) -> str:
    """Text in which Markdown and HTML mean nothing."""
    plain = re.sub(r"([\\`*_{}\[\]()#+!|@~:-])", r"\\\1", " ".join(_whole(words_of_others).split()))
    return html.escape(plain, quote=False).replace("www.", "www\\.")  # a link of GitHub's making


def coded(words_of_others: str) -> str:
    """Text as code, in which GitHub finds no mention, reference or link either."""
    plain = " ".join(_whole(words_of_others).replace("`", "'").split())
    return f"`{plain}`" if plain else ""


def _whole(text: str) -> str:
    """A text that can be written down: without halves of characters."""
    return text.encode(errors="replace").decode()


def _line(row: Sequence[str]) -> str:
    return f"| {' | '.join(part if part == '---' else escaped(part) for part in row)} |"


def _short(words_of_others: str) -> str:
    return words_of_others if len(words_of_others) <= 300 else words_of_others[:299] + "…"
