"""``report.html``: one file that needs nothing else, with the data inside and drawn as it is looked at."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from conformance.model.records import Document
from conformance.query import language
from conformance.report.headline import Opening
from conformance.report.page_data import Script, no_script, page_data

_FOLDER = Path(__file__).parent
_QUERY = Path(language.__file__).parent / "query.js"
_SCRIPTS = (_QUERY, *(_FOLDER / name for name in ("matrix.js", "overview.js", "page.js")))


def embedded_json(data: Any) -> str:
    """JSON for a script element: no character can end the element or start another."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@dataclasses.dataclass(frozen=True)
class LinkedFiles:
    """Things that lie beside the results of a run.

    ``profile`` is the file that shows what the time went into; ``script`` returns the script that shows the
    failure of a result of a leg, or None.
    """

    profile: str | None = None
    script: Script = no_script


def page_html(results: Document, linked: LinkedFiles = LinkedFiles(), opening: Opening | None = None) -> str:
    """The page of a results document.

    Args:
        results: the document.
        beside: things that lie beside it.
        opening: levels and changes, which come first.
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
    path: Path, results: Document, linked: LinkedFiles = LinkedFiles(), opening: Opening | None = None
) -> None:
    """Write the report of a results document; the arguments are those of `page`."""
    path.write_text(page_html(results, linked, opening))
