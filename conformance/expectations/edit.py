"""Replace, remove and append entries in expectation files. All other text, including comments, stays
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.expectations.aliases import Aliases
from conformance.expectations.entries import Expectation, read_entries

_START = re.compile(r"(?m)^[ \t]*\[\[[ \t]*expect[ \t]*\]\]")
HEAD = "schema = 1\n"


def entry_toml(entry: Expectation) -> str:
    """Return an entry as TOML."""
    lines = ["[[expect]]"]
    fields = {
        "id": entry.id,
        "kind": entry.kind.value,
        "reason": entry.reason,
        "detail": entry.detail,
        "link": entry.link,
        "until": entry.until,
        "torch": entry.torch,
        "processor": entry.processor,
    }
    for key, value in fields.items():
        if value or key not in ("detail", "torch", "processor"):
            lines.append(f"{key} = {_toml_string(value)}")
    if entry.modes:
        lines.append(f"modes = [{', '.join(map(_toml_string, entry.modes))}]")
    return "\n".join(lines) + "\n"


def _toml_string(text: str) -> str:
    """Return a basic string of TOML."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(
        escapes.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}") for char in text
    ) + '"'  # fmt: skip


def text_with_edited_entries(path: Path, text: str, changes: Mapping[int, Sequence[Expectation]]) -> str:
    """Return the text of a file with changed entries.

    ``changes`` maps the index of an entry to its replacements; an empty list removes the entry. Raise
    UsageError unless each entry is written as its own ``[[expect]]`` table.
    """
    starts = [match.start() for match in _START.finditer(text)]
    entries = list(read_entries(path, text.encode(), Aliases({}, {}), unread=True))
    if len(starts) != len(entries):
        raise UsageError(f"expectations {path} cannot be changed; write each entry as a table [[expect]]")
    starts = [_start_including_comments(text, start) for start in starts]
    parts = [text[: starts[0]] if starts else text]
    for index, start in enumerate(starts):
        block = text[start : starts[index + 1] if index + 1 < len(starts) else len(text)]
        parts.append(block if index not in changes else _replace_entry_block(block, changes[index]))
    return _normalize_blank_lines("".join(parts))


def _start_including_comments(text: str, start: int) -> int:
    """Return the position of the first comment line directly above the entry that starts at ``start``."""
    while start > 0:
        previous = text.rfind("\n", 0, start - 1) + 1
        if not text[previous:start].lstrip().startswith("#"):
            break
        start = previous
    return start


def _replace_entry_block(block: str, entries: Sequence[Expectation]) -> str:
    if not entries:
        return ""
    comments = block[: _START.search(block).start()]  # type: ignore[union-attr]
    return comments + "\n".join(map(entry_toml, entries)) + "\n"


def text_with_appended_entries(text: str, entries: Sequence[Expectation]) -> str:
    """Return the text of a file with more entries at its end."""
    return _normalize_blank_lines("\n".join([text.rstrip("\n") + "\n", *map(entry_toml, entries)]))


def _normalize_blank_lines(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"
