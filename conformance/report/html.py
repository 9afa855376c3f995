"""Write ``report.html``: a self-contained page with embedded data, which its script renders on demand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from conformance.model.records import Document
from conformance.query import language
from conformance.report.headline import ReportOpening
from conformance.report.page_data import Script, no_snippet, page_data

_FOLDER = Path(__file__).parent
_QUERY = Path(language.__file__).parent / "query.js"
_SCRIPTS = (_QUERY, *(_FOLDER / name for name in ("matrix.js", "overview.js", "page.js")))


def embedded_json(data: Any) -> str:
    """Return JSON for a script element.

    ``<``, ``>`` and ``&`` are escaped, so no text can end the element.
    """
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@dataclasses.dataclass(frozen=True)
class LinkedFiles:
    """Files of the output folder that the report links or embeds.

    ``profile`` is the name of the time profile page, if any. ``script`` returns the snippet of a result of a
    leg, or None.
    """

    profile: str | None = None
    script: Script = no_snippet


def page_html(
    results: Document, linked: LinkedFiles = LinkedFiles(), opening: ReportOpening | None = None
) -> str:
    """Return the report page of a results document.

    Args:
        results: the document.
        linked: the files of the output folder that the page links or embeds.
        opening: the levels and changes at the top of the page.
    """
    template = (_FOLDER / "page.html").read_text()
    parts = {
        "STYLE": (_FOLDER / "page.css").read_text(),
        "SCRIPT": "\n".join(script.read_text() for script in _SCRIPTS),
        "DATA": embedded_json(page_data(results, opening, linked.script)),
    }
    link = f'<p><a href="{linked.profile}">Time by phase</a></p>' if linked.profile else ""
    template = template.replace("<!--PROFILE-->", link)
    before, _, rest = template.partition("/*STYLE*/")
    middle, _, rest = rest.partition("/*DATA*/")
    last, _, end = rest.partition("/*SCRIPT*/")
    return "".join((before, parts["STYLE"], middle, parts["DATA"], last, parts["SCRIPT"], end))


def write_page(
    path: Path, results: Document, linked: LinkedFiles = LinkedFiles(), opening: ReportOpening | None = None
) -> None:
    """Write the report page of a results document. :func:`page_html` describes the arguments."""
    path.write_text(page_html(results, linked, opening))
