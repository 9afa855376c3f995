"""Write graphs to files if environment variables request them.

    GRAPH_VISUALIZATION=1            every graph, as text and as DOT, and as SVG if Graphviz is installed
    PT_HPU_GRAPH_DUMP_MODE           `all`: like GRAPH_VISUALIZATION=1; `eager`: captured graphs only;
                                     `compile`: each cluster of torch.compile; `compile_fx`: the graphs of
                                     torch.compile before they are divided into clusters. `bridge_config` can
                                     change the mode later
    PT_HPU_DUMP_IR_DOT_GRAPH=1       captured graphs and graphs of lazy mode, as DOT
    PT_HPU_GRAPH_DUMP_PREFIX         the folder, by default ``.graph_dumps`` in the current folder

A file name is ``{name}_{process id}.txt``, ``.dot`` or ``.svg``. A graph of lazy mode is written once, when
its recipe is built. The recipe is built at the second launch of the graph.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from .settings import bridge_config, environment

_SUFFIXES = {"text": ".txt", "dot": ".dot"}
#: The first write error, or empty. Only the first write error of a process is reported, by a warning.
_reported_errors: list[OSError] = []


def requested_formats(kind: str) -> tuple[str, ...]:
    """Return the formats (``text``, ``dot``) that the environment requests for a kind of graph.

    Args:
        kind: ``eager`` for captured graphs, ``lazy``, ``compile`` or ``compile_fx``.
    """
    mode = str(bridge_config.value_of("PT_HPU_GRAPH_DUMP_MODE")).strip().lower()
    if environment.read_variable("GRAPH_VISUALIZATION", "bool", False) or mode in ("all", kind):
        return ("text", "dot")
    if kind in ("eager", "lazy") and bridge_config.value_of("PT_HPU_DUMP_IR_DOT_GRAPH"):
        return ("dot",)
    return ()


def dump_if_requested(graph: Any, name: str, kind: str = "eager") -> list[Path]:
    """Write a graph in the requested formats.

    Args:
        graph: an object with ``dump("text" | "dot")``, such as `_C.Graph`.
        name: first part of the file names.
        kind: see `requested_formats`.

    Returns:
        The written files. The list is empty if no format is requested or a write failed; the first failure of
        the process is reported by a warning.
    """
    try:
        return _write_graph(graph, name, requested_formats(kind))
    except OSError as error:
        _warn_once(error)
        return []


def dump_lazy_graphs(core: ModuleType) -> None:
    """Make the core write the graphs of lazy mode if requested. The SVG files are drawn at exit."""
    forms = requested_formats("lazy")
    if not forms:
        return
    folder = Path(str(bridge_config.value_of("PT_HPU_GRAPH_DUMP_PREFIX")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _warn_once(error)
        return
    core.lazy_dump(str(folder), "text" in forms, "dot" in forms)

    def draw() -> None:
        for path in folder.glob(f"graph_recipe_*_{os.getpid()}.dot"):
            _draw_dot(path)

    atexit.register(draw)


def dump_graph(graph: Any, name: str) -> list[Path]:
    """Write a graph as text and as DOT, regardless of the environment, and return the files."""
    return _write_graph(graph, name, tuple(_SUFFIXES))


def _warn_once(error: OSError) -> None:
    if _reported_errors:
        return
    _reported_errors.append(error)
    warnings.warn(
        f"graphs could not be written ({error}); the program continues. Set PT_HPU_GRAPH_DUMP_PREFIX to a "
        "writable folder.",
        RuntimeWarning,
        stacklevel=3,
    )


def _write_graph(graph: Any, name: str, forms: Iterable[str]) -> list[Path]:
    written = []
    for form in forms:
        folder = Path(str(bridge_config.value_of("PT_HPU_GRAPH_DUMP_PREFIX")))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}_{os.getpid()}{_SUFFIXES[form]}"
        path.write_text(graph.dump(form))
        written.append(path)
        if form == "dot" and (picture := _draw_dot(path)):
            written.append(picture)
    return written


def _draw_dot(path: Path) -> Path | None:
    """Draw a DOT file with Graphviz and return the SVG file.

    Return None if Graphviz is not installed, or if Graphviz fails (with a warning).
    """
    program = shutil.which("dot")
    if program is None:
        return None
    picture = path.with_suffix(".svg")
    command = [program, "-Tsvg", "-o", str(picture), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        warnings.warn(f"Graphviz could not draw {path}: {done.stderr.strip()}", stacklevel=2)
        return None
    return picture
