"""Compile functions by ``torch.compile`` for a target, and log the graphs that Dynamo passes to the backend
and how often they run.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.target.target import Target


@dataclasses.dataclass
class CompilationLog:
    """The log of a compiled function: the operator calls in each of its graphs, and the number of graph
    runs.
    """

    graphs: list[list[str]] = dataclasses.field(default_factory=list)
    runs: int = 0

    @property
    def has_run_operator_calls(self) -> bool:
        """True if at least one graph ran and at least one graph contains an operator call."""
        return self.runs > 0 and any(self.graphs)


def compile_with_log(
    target: Target | None,
    function: Callable[..., Any],
    *,
    dynamic: bool = False,
    fused: bool = False,
    fullgraph: bool = True,
) -> tuple[Callable[..., Any], CompilationLog]:
    """Return ``function`` compiled by the target's backend, and the log of its graphs.

    If ``target`` is None, torch's ``aot_eager`` compiles the function: it traces the forward and the backward
    pass and runs the kernels of eager mode. Earlier compilations are discarded. ``fused`` passes the target's
    ``fused_options`` to the backend.
    """
    torch_testing_internals.reset_dynamo()
    log = CompilationLog()
    if target is None:
        compiler, keywords = torch_testing_internals.aot_eager_backend(), {}
    else:
        compiler = torch_testing_internals.compile_backend(target.compile_backend)
        keywords = _compile_keywords(target, fused)

    def logging_backend(module: Any, inputs: Any) -> Callable[..., Any]:
        log.graphs.append([str(node.target) for node in module.graph.nodes if node.op.startswith("call_")])
        executable = compiler(module, inputs, **keywords)

        def run(*args: Any) -> Any:
            log.runs += 1
            return executable(*args)

        return run

    def wrapper_to_compile(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    # Dynamo caches by code object, so each function gets a separate code object. The code object has the name
    # of the function, because torch.masked reads the name of the function that it receives.
    name = getattr(function, "__name__", "entry")
    code = wrapper_to_compile.__code__.replace(co_name=name)
    function_copy = types.FunctionType(
        code, wrapper_to_compile.__globals__, name, None, wrapper_to_compile.__closure__
    )
    call = torch.compile(function_copy, backend=logging_backend, dynamic=dynamic, fullgraph=fullgraph)
    return torch_testing_internals.capture_data_dependent_shapes(call) if fullgraph else call, log


def _compile_keywords(target: Target, fused: bool) -> dict[str, Any]:
    options = {**target.compile_options, **((target.fused_options or {}) if fused else {})}
    if not options:
        return {}
    # torch.compile passes its options to Inductor as ``config_patches``, and to all other backends as
    # ``options``.
    return {"config_patches" if target.compile_backend == "inductor" else "options": options}
