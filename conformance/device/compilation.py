"""``torch.compile`` on a target, with a record of the graphs that Dynamo hands over and of their runs."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.target.target import Target


@dataclasses.dataclass
class Log:
    """The record of one compiled function: the calls in each graph, and how often any of the graphs ran."""

    graphs: list[list[str]] = dataclasses.field(default_factory=list)
    runs: int = 0

    @property
    def seen(self) -> bool:
        """True if a graph with at least one call in it ran."""
        return self.runs > 0 and any(self.graphs)


def compiled(
    target: Target | None,
    function: Callable[..., Any],
    *,
    dynamic: bool = False,
    fused: bool = False,
    fullgraph: bool = True,
) -> tuple[Callable[..., Any], Log]:
    """Return ``function`` compiled by the target's backend, and its log.

    Without a target torch's own ``aot_eager`` compiles it, which traces forward and backward and runs the
    kernels as they are. Nothing that was compiled before is used. With ``fused`` the target's options for
    fusion are in force.
    """
    torch_testing_internals.reset_dynamo()
    log = Log()
    if target is None:
        compiler, keywords = torch_testing_internals.plain_backend(), {}
    else:
        compiler = torch_testing_internals.compile_backend(target.compile_backend)
        keywords = _keywords(target, fused)

    def backend(module: Any, inputs: Any) -> Callable[..., Any]:
        log.graphs.append([str(node.target) for node in module.graph.nodes if node.op.startswith("call_")])
        executable = compiler(module, inputs, **keywords)

        def run(*args: Any) -> Any:
            log.runs += 1
            return executable(*args)

        return run

    def entry(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    # Dynamo keeps what it learned of a function by its code, so that every one gets code of its own.
    # torch.masked asks for the name of an operator that it is given.
    name = getattr(function, "__name__", "entry")
    code = entry.__code__.replace(co_name=name)
    fresh = types.FunctionType(code, entry.__globals__, name, None, entry.__closure__)
    call = torch.compile(fresh, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    return torch_testing_internals.capturing_all_shapes(call) if fullgraph else call, log


def _keywords(target: Target, fused: bool) -> dict[str, Any]:
    options = {**target.compile_options, **((target.fused_options or {}) if fused else {})}
    if not options:
        return {}
    # torch.compile itself gives options to Inductor under this name, to every other backend as they are.
    return {"config_patches" if target.compile_backend == "inductor" else "options": options}
