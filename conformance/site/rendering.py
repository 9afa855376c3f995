"""Render the templates of the site. Every value is escaped; no value is executed or marked as safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from conformance.model import glossary
from conformance.site import cell_state

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters.update(
    state=cell_state.cell_state, short=cell_state.short_cell_text, percent=cell_state.percent
)
_TEMPLATES.filters["anchor"] = glossary.glossary_anchor


def render(template: str, **values: Any) -> str:
    """Return a rendered template of ``templates/``.

    A name that ``values`` does not contain raises an error.
    """
    return _TEMPLATES.get_template(template).render(values)
