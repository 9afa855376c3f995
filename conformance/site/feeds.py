"""Write Atom feeds of regressions, one for each backend."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from conformance.site.matrix_cells import Cell
from conformance.site.registry import Backend
from conformance.site.store.published_run import PublishedRun

#: The maximum number of entries in a feed, and of results in an entry.
_ENTRIES, _NAMED = 50, 30


def feed_xml(backend: Backend, cells: Sequence[Cell], today: datetime.date) -> str:
    """Return the feed of a backend as XML, with one entry for each published run with regressions."""
    regressions: list[tuple[Cell, PublishedRun]] = [
        (cell, night)
        for cell in cells
        if cell.backend == backend.id
        for night in cell.runs
        if night.regressed_count
    ]
    regressions.sort(key=lambda pair: pair[1].time_for_order, reverse=True)
    updated = regressions[0][1].time_for_order.isoformat() if regressions else f"{today}T00:00:00+00:00"
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>Regressions of {_escaped_text(backend.name)}</title>",
        f"<id>{_tag_id(backend.id)}</id>",
        f"<updated>{updated}</updated>",
        "<author><name>Conformance of PyTorch backends</name></author>",
        f'<link rel="alternate" type="text/html" href="../backends/{backend.id}.html"/>',
        *(_entry_xml(cell, night) for cell, night in regressions[:_ENTRIES]),
        "</feed>",
    ]
    return "\n".join(lines) + "\n"


def _entry_xml(cell: Cell, night: PublishedRun) -> str:
    more = night.regressed_count - min(len(night.regressed), _NAMED)
    names = [*night.regressed[:_NAMED], *([f"and {more} more"] if more else [])]
    title = (
        f"{night.regressed_count} results regressed: {cell.mode} on torch {cell.build.version}, "
        f"{night.time_for_order.date()}"
    )
    address = f"../backends/{cell.backend}.html#{cell.build.slug}-{cell.mode}"
    return "\n".join(
        (
            "<entry>",
            f"<title>{_escaped_text(title)}</title>",
            f"<id>{_tag_id(cell.backend, cell.mode, cell.build.slug, night.run)}</id>",
            f"<updated>{night.time_for_order.isoformat()}</updated>",
            f'<link rel="alternate" type="text/html" href={quoteattr(_xml_characters(address))}/>',
            f"<summary>since run {_escaped_text(night.compared_with or '')}: "
            f"{_escaped_text(', '.join(names))}</summary>",
            "</entry>",
        )
    )


def _tag_id(*parts: str) -> str:
    return _escaped_text("tag:conformance,2026:" + ":".join(parts))


def _xml_characters(text: str) -> str:
    """Return the text without the characters that XML 1.0 forbids."""
    return "".join(
        char for char in text if char in "\t\n" or (ord(char) >= 32 and not 0xFFFE <= ord(char) <= 0xFFFF)
    )


def _escaped_text(text: str) -> str:
    return escape(_xml_characters(text))
