"""The coverage map as pages of Markdown: an index with figures, and a page for each upstream file."""

from __future__ import annotations

from pathlib import Path

from conformance.upstream import coverage_map
from conformance.upstream.coverage_map import Method
from tools.upstream_coverage.check import Figures, figures

Map = dict[str, list[Method]]

_HEAD = """# Coverage of PyTorch's own tests

Written by `python -m tools.upstream_coverage -o docs/upstream-coverage`; do not edit.

Each page maps the test methods of one upstream file to the properties that state the same here. *wheel* are
methods whose data (operator, module and optimizer databases, `opcheck`) comes with the torch wheel, *rest*
the others. A share is of the methods that no reason of the closed list below exempts.
"""


def split(methods: list[Method]) -> tuple[Figures, Figures]:
    """Count the methods whose data is in the wheel, and the others."""
    wheel = [method for method in methods if method.wheel]
    rest = [method for method in methods if not method.wheel]
    return figures(wheel), figures(rest)


def figures_table(mapped: Map, link: bool = False) -> str:
    """Write a table with a row per file and the sum."""
    lines = [
        "| upstream file | wheel: covered of due | rest: covered of due | exempt | methods |",
        "|---|---|---|---|---|",
    ]
    for stem, listed in mapped.items():
        name = listed[0].file if listed else stem
        lines.append(_row(f"[{name}]({stem}.md)" if link else name, listed))
    lines.append(_row("**all**", [method for listed in mapped.values() for method in listed]))
    return "\n".join(lines)


def _row(name: str, listed: list[Method]) -> str:
    wheel, rest = split(listed)
    return f"| {name} | {_share(wheel)} | {_share(rest)} | {wheel.exempt + rest.exempt} | {len(listed)} |"


def _share(counts: Figures) -> str:
    required = counts.total - counts.exempt
    return f"{counts.covered} of {required} ({counts.share:.0%})" if required else "-"


def pages(mapped: Map) -> dict[str, str]:
    """Write all pages; return their texts by file name."""
    reasons = "\n".join(f"* `{word}`: {text}" for word, text in coverage_map.REASONS.items())
    index = f"{_HEAD}\n{figures_table(mapped, link=True)}\n\n## Reasons\n\n{reasons}\n"
    return {"README.md": index, **{f"{stem}.md": _page(stem, listed) for stem, listed in mapped.items()}}


def _page(stem: str, listed: list[Method]) -> str:
    pinned = coverage_map.pinned_names(stem)
    commit = pinned["commit"]
    source = f"names at commit `{commit}`" if commit else "names as public ports of the file have them"
    lines = [f"# {pinned['file']}", "", f"{len(listed)} methods; {source}.", ""]
    owner = None
    for method in listed:
        if method.owner != owner:
            owner = method.owner
            lines += ["", f"## {owner}", "", "| method | covered by |", "|---|---|"]
        lines.append(f"| {method.name} | {_covered(method)} |")
    return "\n".join(lines) + "\n"


def _covered(method: Method) -> str:
    if method.covered_by:
        return ", ".join(f"`{word}`" for word in method.covered_by)
    return method.reason if method.reason is not None else "**uncovered**"


def write(folder: Path, mapped: Map) -> None:
    """Write all pages, and remove those of files that are no longer pinned."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages(mapped)
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)
