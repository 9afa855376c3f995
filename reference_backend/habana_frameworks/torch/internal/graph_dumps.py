"""Files that show graphs, written when the environment asks for them.

    GRAPH_VISUALIZATION=1            every graph, as text and as DOT, and as SVG if Graphviz is installed
    PT_HPU_GRAPH_DUMP_MODE=all       the same; `eager`: captured graphs only; `compile`, `compile_fx`: those
                                     of torch.compile only. `bridge_config` can set it in mid-run
                                     (`compile`: each cluster; `compile_fx`: the graph before it is divided)
    PT_HPU_DUMP_IR_DOT_GRAPH=1       captured graphs and those of lazy mode, as DOT
    PT_HPU_GRAPH_DUMP_PREFIX         the folder, ``.graph_dumps`` in the current one by default

A file is called ``{name}_{process id}.txt``, ``.dot`` or ``.svg``. A graph of lazy mode is written once, when
its recipe is made, which is at its second launch.
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
#: The first file that could not be written, of which a warning has been given.
_refused: list[OSError] = []


def requested_forms(kind: str) -> tuple[str, ...]:
    """Forms (``text``, ``dot``) in which the environment requests graphs of a kind.

    Args:
        kind: ``eager`` for captured graphs, ``lazy``, ``compile`` or ``compile_fx``.
    """
    mode = str(bridge_config.value_of("PT_HPU_GRAPH_DUMP_MODE")).strip().lower()
    if environment.read("GRAPH_VISUALIZATION", "bool", False) or mode in ("all", kind):
        return ("text", "dot")
    if kind in ("eager", "lazy") and bridge_config.value_of("PT_HPU_DUMP_IR_DOT_GRAPH"):
        return ("dot",)
    return ()


def dump_if_requested(graph: Any, name: str, kind: str = "eager") -> list[Path]:
    """Write a graph in the requested forms.

    Args:
        graph: has ``dump("text" | "dot")``, as `_C.Graph`.
        name: first part of the file names.
        kind: see `requested_forms`.

    Returns:
        The files; none if no form is requested, or none can be written, of which one warning speaks.
    """
    try:
        return _write(graph, name, requested_forms(kind))
    except OSError as error:
        _warn_once(error)
        return []


def dump_lazy_graphs(core: ModuleType) -> None:
    """Make the core write the graphs of lazy mode, if the environment asks for them; drawn at exit."""
    forms = requested_forms("lazy")
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
            _draw(path)

    atexit.register(draw)


def dump_graph(graph: Any, name: str) -> list[Path]:
    """Write a graph as text and as DOT, regardless of the environment. Returns the files."""
    return _write(graph, name, tuple(_SUFFIXES))


def _warn_once(error: OSError) -> None:
    if _refused:
        return
    _refused.append(error)
    warnings.warn(
        f"graphs cannot be written ({error}); the program goes on without: give PT_HPU_GRAPH_DUMP_PREFIX a "
        "folder that can be written to",
        RuntimeWarning,
        stacklevel=3,
    )


def _write(graph: Any, name: str, forms: Iterable[str]) -> list[Path]:
    written = []
    for form in forms:
        folder = Path(str(bridge_config.value_of("PT_HPU_GRAPH_DUMP_PREFIX")))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}_{os.getpid()}{_SUFFIXES[form]}"
        path.write_text(graph.dump(form))
        written.append(path)
        if form == "dot" and (picture := _draw(path)):
            written.append(picture)
    return written


def _draw(path: Path) -> Path | None:
    """Draw a DOT file with Graphviz; None if that is not installed, or fails (a warning names the reason)."""
    program = shutil.which("dot")
    if program is None:
        return None
    picture = path.with_suffix(".svg")
    command = [program, "-Tsvg", "-o", str(picture), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        warnings.warn(f"Graphviz cannot draw {path}: {done.stderr.strip()}", stacklevel=2)
        return None
    return picture
