"""Decide when to compile a graph: after many runs, and unless deterministic results are required.

``HPU_REFERENCE_FUSE_AFTER`` is the number of runs after which a graph is compiled. The default is 32, and 0
(never) before torch 2.13. A subprocess compiles the graph. When the code is ready, the graph changes from
interpreted to fused between two runs. Values may then differ by rounding, as for any two orders of
floating-point operations. Under ``torch.use_deterministic_algorithms(True)`` graphs stay interpreted.
"""

from __future__ import annotations

import functools
import logging
import shutil
from typing import Any

import torch

from ..settings import hardware_limits
from ..settings.environment import read_variable

log = logging.getLogger(__name__)

#: Number of runs of a graph between two checks whether the requested code is ready.
_RUNS_BETWEEN_CHECKS = 64
_NEVER = 1 << 62


def runs_before_compilation() -> int:
    """Return the number of runs after which a graph is compiled, or 0 for never.

    The result is 0 if hardware limits are active, because the limits apply to the result of each operator,
    and fused code combines operators.
    """
    if hardware_limits.hardware_limits_name():
        return 0
    return int(read_variable("HPU_REFERENCE_FUSE_AFTER", "u32", 32 if _is_inductor_reliable() else 0))


@functools.cache
def _is_inductor_reliable() -> bool:
    # Inductor of torch 2.6 compiles some graphs to code that fails when it runs (matrix_exp). With Inductor
    # of 2.13 the whole suite passes. The releases between were not tested.
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


def install_fused_code(graph: Any, artifact: Any) -> None:
    """Install compiled code in the graph or recipe from which it was compiled.

    Args:
        graph: a captured graph or a recipe of the core.
        artifact: the `Artifact`. If the core cannot load the code, the folder is removed, with a warning.
    """
    arguments = [
        (
            entry["buffer"],
            getattr(torch, entry["dtype"].removeprefix("torch.")),
            entry["sizes"],
            entry["strides"],
            entry["offset"],
            entry["access"] != "read",
        )
        for entry in artifact.convention["arguments"]
    ]
    try:
        graph.set_fused(str(artifact.code), arguments)
    except (
        RuntimeError,
        OSError,
    ) as error:  # for example a truncated file; a later process compiles the code again
        log.warning(
            "the fused code in %s cannot be loaded, so the folder was removed: %s", artifact.folder, error
        )
        shutil.rmtree(artifact.folder, ignore_errors=True)


class RunCounter:
    """Counter of the runs of one graph. It requests the compilation of the graph after enough runs.

    Args:
        graph: a captured graph of the core.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._left = runs_before_compilation() or _NEVER
        self._requested = False

    def run(self) -> None:
        """Count one run. After enough runs, request compiled code, or check whether the code is ready."""
        self._left -= 1
        if self._left <= 0:
            self._poll_or_request_code()

    def _poll_or_request_code(self) -> None:
        from . import service

        self._left = _NEVER if self._graph.kind == "fused" else _RUNS_BETWEEN_CHECKS
        if self._requested:
            service.poll()
        elif torch.are_deterministic_algorithms_enabled() or not self._request_code(service):
            self._left = _NEVER

    def _request_code(self, service: Any) -> bool:
        self._requested = True
        graph = self._graph
        return (
            service.request(graph.describe(), lambda artifact: install_fused_code(graph, artifact))
            is not None
        )


_steps = 0


def fuse_hot_recipes(core: Any) -> None:
    """Request compilation of the recipes of lazy mode that ran often. Called at the end of each step.

    Args:
        core: the compiled core.
    """
    global _steps
    _steps += 1
    hot = core.take_hot_recipes()
    if not hot and _steps % _RUNS_BETWEEN_CHECKS:
        return
    from . import service

    for _, recipe in hot:
        if runs_before_compilation() and not torch.are_deterministic_algorithms_enabled():
            service.request(recipe.describe(), functools.partial(install_fused_code, recipe))
    service.poll()
