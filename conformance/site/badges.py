"""Badges: the state of a backend in a mode, as SVG without scripts, fonts or outside addresses."""

from __future__ import annotations

import html

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
    """A badge with a label and a text, in the colour of a state."""
    left, right = 10 + 7 * len(label), 10 + 7 * len(text)
    label, text = html.escape(label), html.escape(text)
    whole = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" '
        f'aria-label="{label}: {text}">\n'
        f"<title>{label}: {text}</title>\n"
        f'<rect width="{left}" height="20" fill="#333"/>\n'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[state]}"/>\n'
        f'<g fill="#fff" font-family="monospace" font-size="11" text-anchor="middle">\n'
        f'<text x="{left / 2:g}" y="14">{label}</text>\n'
        f'<text x="{left + right / 2:g}" y="14">{text}</text>\n'
        "</g>\n</svg>\n"
    )
