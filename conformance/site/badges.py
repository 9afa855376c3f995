"""Render badges: the state of a backend in a mode, as SVG without scripts, fonts or external addresses."""

from __future__ import annotations

from conformance.site.rendering import render

_COLOURS = {
    "pass": "#1a7f37",
    "fail": "#b42318",
    "incomplete": "#9a5b00",
    "missing": "#9a5b00",
    "refused": "#5f5f5f",
    "stale": "#6b7280",
    "retired": "#8a8a8a",
    "unknown": "#6b7280",
}


def badge(label: str, state: str, text: str) -> str:
    """Return a badge as SVG, with a label and a text in the colour of a state."""
    return render(
        "badge.svg",
        label=label,
        text=text,
        left=10 + 7 * len(label),
        right=10 + 7 * len(text),
        colour=_COLOURS[state],
    )
