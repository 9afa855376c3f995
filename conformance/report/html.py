"""``report.html``: one file that needs nothing else, with the data inside and drawn as it is looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.model.records import Document
from conformance.query import language
from conformance.report.compact import compact
from conformance.report.opening import Opening

_FOLDER = Path(__file__).parent
_QUERY = Path(language.__file__).parent / "query.js"
_SCRIPTS = (_QUERY, *(_FOLDER / name for name in ("matrix.js", "overview.js", "page.js")))


def embed(data: Any) -> str:
    """JSON for a script element: no character can end the element or start another."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page(results: Document, profile: str | None = None, opening: Opening | None = None) -> str:
    """The page of a results document.

    Args:
        results: the document.
        profile: the file beside it that shows what the time went into, if there is one.
        opening: levels and changes, which come first.
    """
    template = (_FOLDER / "page.html").read_text()
    parts = {
        "STYLE": (_FOLDER / "page.css").read_text(),
        "SCRIPT": "\n".join(script.read_text() for script in _SCRIPTS),
        "DATA": embed(compact(results, opening)),
    }
    link = f'<p><a href="{profile}">Time by phase</a></p>' if profile else ""
    template = template.replace("<!--PROFILE-->", link)
    before, _, rest = template.partition("/*STYLE*/")
    middle, _, rest = rest.partition("/*DATA*/")
    last, _, end = rest.partition("/*SCRIPT*/")
    return "".join((before, parts["STYLE"], middle, parts["DATA"], last, parts["SCRIPT"], end))


def write(path: Path, results: Document, profile: str | None = None, opening: Opening | None = None) -> None:
    """Write the report of a results document; the arguments are those of `page`."""
    path.write_text(page(results, profile, opening))
