"""Read names and operator schemas from the document that describes the public API of the device.

``python public_api_contract.py DOCUMENT`` rewrites ``contract_tables.txt`` and ``contract_operators.txt``.

A table below a heading that names a module lists names of that module, in the first cell of each row.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

NAMES = Path(__file__).with_name("contract_tables.txt")
OPERATORS = Path(__file__).with_name("contract_operators.txt")
PACKAGE = "habana_frameworks.torch"
#: Texts in the first cells of table rows that are not names of a module: patches of torch, metrics,
#: variables, C++ headers.
OTHERS = re.compile(
    r"torch\.|Tensor\.|nn\.|distributed(_c10d)?\.|[A-Z]+_|.*_$|hpu_custom_op"
    r"|(graph_compilation|cpu_fallback|memory_defragmentation|recipe_cache|device_memory)$"
)
#: Words in the first cells of table rows that are parameters of a function, and not names of a module.
PARTS = frozenset({"mark_scales", "mark_non_scales", "dry_run", "export_for_training"})
#: Additional modules that may define the names of a table, by a part of the heading above the table.
ALSO: Mapping[str, tuple[str, ...]] = {
    "Device management": (f"{PACKAGE}.hpu",),
    "Streams and events": (f"{PACKAGE}.hpu",),
    "Lazy mode, eager pipeline, caches": (f"{PACKAGE}.core", f"{PACKAGE}.utils.internal"),
    "HT.core": (f"{PACKAGE}.core.quantization",),
    "HT.hpex": (f"{PACKAGE}.hpex",),
    "HT.utils": (PACKAGE,),
    "Profilers": (PACKAGE,),
    "HT.distributed.hccl": (f"{PACKAGE}.distributed.hccl",),
}


def contract_names(document: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each name of section 1 with its candidate modules. One of the modules must define the name."""
    section = document[document.index("\n# 1. ") : document.index("\n# 2. ")]
    modules: tuple[str, ...] = ()
    for line in section.splitlines():
        if line.startswith("#"):
            modules = tuple(_modules_of_heading(line))
        elif line.startswith("|") and modules:
            for name in _names_in_cell(line.split("|")[1].strip()):
                yield modules, name


def _modules_of_heading(heading: str) -> Iterator[str]:
    for name in re.findall(r"`(?:HT|torch)\.(\w+(?:\.\w+)*)`", heading):
        if not name.startswith("__"):
            yield f"{PACKAGE}.{name}" if name != "autoload" else "habana_frameworks.autoload"
    for heading_part, modules in ALSO.items():
        if heading_part in heading:
            yield from modules


def _names_in_cell(cell: str) -> Iterator[str]:
    quoted = re.findall(r"`([^`]+)`", cell)
    if not quoted:  # some tables write dotted names without quotes
        quoted = re.findall(r"\b(?:[a-z_]+\.)+\w+", re.sub(r"\(.*?\)", "", cell))
    for text in quoted:
        match = re.match(r"(?:HT\.)?(\w+(?:\.\w+)*)", text)
        if match is None or match.group(1) in PARTS or OTHERS.match(match.group(1)):
            continue
        yield match.group(1)


def contract_schemas(document: str) -> Iterator[str]:
    """Yield the operator schemas of sections 5.2 and 5.3, without the internal operators."""
    section = document[document.index("\n## 5.2 ") : document.index("\n#### View / layout")]
    yield from re.findall(r"`(\w+::\w+(?:\.\w+)?\([^`]*)`", section)


def defining_module(modules: tuple[str, ...], name: str) -> str | None:
    """Return the first of `modules`, then of the package, that defines a dotted name, or None."""
    return next((module for module in (*modules, PACKAGE) if has_name(module, name)), None)


def has_name(module: str, name: str) -> bool:
    """Return whether a module has a dotted name. Parts of the name may be modules."""
    name_parts = name.split(".")
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    for number, name_part in enumerate(name_parts):
        if hasattr(owner, name_part):
            owner = getattr(owner, name_part)
            continue
        try:
            owner = importlib.import_module(".".join([module, *name_parts[: number + 1]]))
        except ModuleNotFoundError:
            return False
    return True


def main(document: str) -> int:
    """Write the names and the schemas next to this file. Return 1 if the package lacks a name, else 0."""
    lines, lacking = [], []
    for modules, name in contract_names(document):
        module = defining_module(modules, name)
        lines.append(f"{module} {name}")
        if module is None:
            lacking.append(name)
    if lacking:
        print("The package does not define these names of the contract:", " ".join(lacking), file=sys.stderr)
        return 1
    NAMES.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
    OPERATORS.write_text("".join(f"{line}\n" for line in dict.fromkeys(contract_schemas(document))))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).read_text()))
