"""Write the coverage map as Markdown: an index with figures, and a page for each upstream file."""

from __future__ import annotations

from pathlib import Path

from conformance.upstream import coverage_map
from conformance.upstream.coverage_map import UpstreamTestMethod
from tools.upstream_coverage.check import MethodCounts, count_methods

Map = dict[str, list[UpstreamTestMethod]]

_HEAD = """# Coverage of PyTorch's own tests

Written by `python -m tools.upstream_coverage -o docs/upstream-coverage`; do not edit.

Each page maps the test methods of one upstream file to the properties of this suite that verify the same
requirement. *wheel* counts the methods whose data (operator, module and optimizer databases, `opcheck`) is in
the torch wheel; *rest* counts the other methods. A method with one of the reasons listed below is exempt: it
is not required and does not count in a share.
"""


def count_wheel_and_rest(methods: list[UpstreamTestMethod]) -> tuple[MethodCounts, MethodCounts]:
    """Return the counts of methods whose data is in torch's wheel, and the counts of all other methods."""
    wheel = [method for method in methods if method.wheel]
    rest = [method for method in methods if not method.wheel]
    return count_methods(wheel), count_methods(rest)


def figures_table(mapped: Map, link: bool = False) -> str:
    """Return a Markdown table of covered test methods, with a row for each upstream file and a total row."""
    lines = [
        "| upstream file | wheel: covered of required | rest: covered of required | exempt | methods |",
        "|---|---|---|---|---|",
    ]
    for stem, listed in mapped.items():
        name = listed[0].file if listed else stem
        lines.append(_table_row(f"[{name}]({stem}.md)" if link else name, listed))
    lines.append(_table_row("**all**", [method for listed in mapped.values() for method in listed]))
    return "\n".join(lines)


def _table_row(name: str, listed: list[UpstreamTestMethod]) -> str:
    wheel, rest = count_wheel_and_rest(listed)
    exempt = wheel.exempt + rest.exempt
    return f"| {name} | {_covered_share(wheel)} | {_covered_share(rest)} | {exempt} | {len(listed)} |"


def _covered_share(counts: MethodCounts) -> str:
    required = counts.total - counts.exempt
    return f"{counts.covered} of {required} ({counts.share:.0%})" if required else "-"


def pages(mapped: Map) -> dict[str, str]:
    """Return the texts of all pages by file name."""
    reasons = "\n".join(f"* `{reason}`: {text}" for reason, text in coverage_map.REASONS.items())
    index = f"{_HEAD}\n{figures_table(mapped, link=True)}\n\n## Reasons\n\n{reasons}\n"
    return {"README.md": index, **{f"{stem}.md": _page_text(stem, listed) for stem, listed in mapped.items()}}


def _page_text(stem: str, listed: list[UpstreamTestMethod]) -> str:
    pinned = coverage_map.read_test_names(stem)
    commit = pinned["commit"]
    source = f"names at commit `{commit}`" if commit else "names as in public ports of the file"
    lines = [f"# {pinned['file']}", "", f"{len(listed)} methods; {source}.", ""]
    owner = None
    for method in listed:
        if method.owner != owner:
            owner = method.owner
            lines += ["", f"## {owner}", "", "| method | covered by |", "|---|---|"]
        lines.append(f"| {method.name} | {_coverage_text(method)} |")
    return "\n".join(lines) + "\n"


def _coverage_text(method: UpstreamTestMethod) -> str:
    if method.covered_by:
        return ", ".join(f"`{reference}`" for reference in method.covered_by)
    return method.reason if method.reason is not None else "**uncovered**"


def write(folder: Path, mapped: Map) -> None:
    """Write all pages, and delete the pages of upstream files that the map no longer contains."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages(mapped)
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)
