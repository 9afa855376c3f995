"""Inject mutants of compiled graphs: the ``torch.compile`` backend, and replays of captured graphs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends import registry

from conformance.target.target import Target
from tools.mutation.injectors.function_wrapper import (
    Function,
    FunctionInjector,
    MutationOperator,
    WrappedCall,
)

Compiler = Callable[..., Any]


def _has_same_shape_and_dtype(node: torch.fx.Node, argument: Any) -> bool:
    value = node.meta.get("example_value")
    argument_value = argument.meta.get("example_value") if isinstance(argument, torch.fx.Node) else None
    if not (isinstance(value, torch.Tensor) and isinstance(argument_value, torch.Tensor)):
        return False
    return value.shape == argument_value.shape and value.dtype == argument_value.dtype


def _drop_last_node(module: torch.fx.GraphModule, is_candidate: Callable[[torch.fx.Node], bool]) -> bool:
    """Replace the last candidate node by its first argument. Return False if there is no candidate.

    A candidate is a node for which ``is_candidate`` is true and that has the shape and dtype of its first
    argument.
    """
    for node in reversed(module.graph.nodes):
        if (
            node.op.startswith("call_")
            and node.args
            and is_candidate(node)
            and _has_same_shape_and_dtype(node, node.args[0])
        ):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
            module.recompile()
            return True
    return False


def _is_write(node: torch.fx.Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name in ("iadd", "isub", "imul", "itruediv")


def _move_last_write_before_read(module: torch.fx.GraphModule) -> bool:
    """Move the last write before a preceding read of the same tensor."""
    nodes = list(module.graph.nodes)
    for index, write in reversed(list(enumerate(nodes))):
        if not (write.op.startswith("call_") and write.args and _is_write(write)):
            continue
        for read in reversed(nodes[:index]):
            if read in write.all_input_nodes:
                break
            if read.op.startswith("call_") and write.args[0] in read.all_input_nodes:
                read.prepend(write)
                module.recompile()
                return True
    return False


def _compile_with_changed_graph(call: WrappedCall, change: Callable[[torch.fx.GraphModule], bool]) -> bool:
    """Make the backend compile a changed copy of each graph. Return False, because the effect is counted
    later, when a changed graph is compiled.
    """
    compiler: Compiler = call.result

    def compile_changed_copy(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        changed_module = copy.deepcopy(module)
        if change(changed_module):
            call.count_effect()
            return compiler(changed_module, inputs, **options)
        return compiler(module, inputs, **options)

    call.result = compile_changed_copy
    return False


def _graph_key(module: torch.fx.GraphModule, inputs: Any, *, shapes: bool) -> str:
    nodes = [str(node.target) for node in module.graph.nodes if node.op.startswith("call_")]
    input_forms = [
        (tuple(tensor.shape) if shapes else tensor.dim(), tensor.dtype)
        for tensor in inputs
        if isinstance(tensor, torch.Tensor)
    ]
    return repr((nodes, input_forms, len(inputs)))


def _share_compiled_graphs(call: WrappedCall, *, shapes: bool) -> bool:
    """Make the backend reuse the first compiled graph with the same operators but different numbers."""
    compiler: Compiler = call.result
    compiled_by_key: dict[str, tuple[str, Any]] = call.memory

    def compile_or_reuse(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        key = _graph_key(module, inputs, shapes=shapes)
        signature = str(module.code) + repr([getattr(value, "shape", value) for value in inputs])
        if key not in compiled_by_key:
            compiled_by_key[key] = signature, compiler(module, inputs, **options)
        elif compiled_by_key[key][0] != signature:
            call.count_effect()
        return compiled_by_key[key][1]

    call.result = compile_or_reuse
    return False


def _wrap_compiled_runs(
    call: WrappedCall, change: Callable[[WrappedCall, dict[str, Any], Any, Any], Any]
) -> bool:
    """Make each run of a compiled graph return a changed result. Return False, because ``change`` counts the
    effect later, in each run.
    """
    compiler: Compiler = call.result

    def compile_wrapped(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        executable, memory = compiler(module, inputs, **options), dict[str, Any]()
        return lambda *args: change(call, memory, args, executable(*args))

    call.result = compile_wrapped
    return False


def _return_first_result(call: WrappedCall, memory: dict[str, Any], args: Any, result: Any) -> Any:
    key = repr(
        [(getattr(argument, "shape", argument), getattr(argument, "requires_grad", 0)) for argument in args]
    )
    if key in memory:
        call.count_effect()
        return memory[key]
    memory[key] = result
    return result


def _replace_views_by_copies(call: WrappedCall, memory: dict[str, Any], args: Any, result: Any) -> Any:
    input_addresses = {
        argument.untyped_storage().data_ptr() for argument in args if isinstance(argument, torch.Tensor)
    }

    def copy_if_view(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in input_addresses:
            call.count_effect()
            return value.clone()
        return value

    return (
        type(result)(map(copy_if_view, result)) if isinstance(result, (list, tuple)) else copy_if_view(result)
    )


def _replay_only_once(call: WrappedCall) -> bool:
    """Skip every replay of a graph except its first."""
    replayed_graphs: set[int] = call.memory.setdefault("seen", set())
    if id(call.args[0]) in replayed_graphs:
        return True
    replayed_graphs.add(id(call.args[0]))
    call.perform()
    return False


def _returns_compile_backend(call: WrappedCall) -> bool:
    return callable(call.result)


BY_NAME: Mapping[str, MutationOperator] = {
    "operator-dropped": MutationOperator(
        "the last operator whose output has the shape and dtype of its input is omitted",
        _returns_compile_backend,
        lambda call: _compile_with_changed_graph(
            call, lambda module: _drop_last_node(module, lambda node: not _is_write(node))
        ),
    ),
    "mutation-dropped": MutationOperator(
        "the last write of a graph is omitted",
        _returns_compile_backend,
        lambda call: _compile_with_changed_graph(call, lambda module: _drop_last_node(module, _is_write)),
    ),
    "write-too-early": MutationOperator(
        "a write runs before the read that precedes it",
        _returns_compile_backend,
        lambda call: _compile_with_changed_graph(call, _move_last_write_before_read),
    ),
    "key-without-numbers": MutationOperator(
        "graphs that differ only in numbers share one compiled graph",
        _returns_compile_backend,
        lambda call: _share_compiled_graphs(call, shapes=True),
    ),
    "key-without-sizes": MutationOperator(
        "graphs that differ only in numbers and sizes share one compiled graph",
        _returns_compile_backend,
        lambda call: _share_compiled_graphs(call, shapes=False),
    ),
    "graph-stale": MutationOperator(
        "a graph returns the results of its first run",
        _returns_compile_backend,
        lambda call: _wrap_compiled_runs(call, _return_first_result),
    ),
    "graph-aliasing-lost": MutationOperator(
        "views of inputs are returned as copies",
        _returns_compile_backend,
        lambda call: _wrap_compiled_runs(call, _replace_views_by_copies),
    ),
    "replay-dropped": MutationOperator(
        "a replay does nothing", lambda call: True, lambda call: True, after=False
    ),
    "replay-once": MutationOperator(
        "only the first replay of a graph runs", lambda call: True, _replay_only_once, after=False
    ),
}
#: Descriptions by mutation operator.
MUTATION_OPERATORS: Mapping[str, str] = {name: kind.description for name, kind in BY_NAME.items()}

_OF_REPLAY = ("replay-dropped", "replay-once")


def compiled_graph_injector(target: Target) -> FunctionInjector:
    """Return the injector for the target's compiled and captured graphs, limited to its mode."""
    functions: dict[str, Function] = {}
    allowed: dict[str, tuple[str, ...]] = {}
    if target.mode == "compile":
        functions["compile::backend"] = Function(registry, "lookup_backend")
        allowed["compile::backend"] = tuple(name for name in BY_NAME if name not in _OF_REPLAY)
    # Dynamo also looks up backends that were passed as functions. Only lookups of the target's backend are
    # mutated, so that graphs that the suite compiles for the CPU stay correct.
    own_backend = target.compile_backend

    def looks_up_own_backend(call: WrappedCall) -> bool:
        return _returns_compile_backend(call) and call.args[:1] == (own_backend,)

    operators_by_name = {
        name: operator
        if name in _OF_REPLAY
        else dataclasses.replace(operator, is_triggered=looks_up_own_backend)
        for name, operator in BY_NAME.items()
    }
    graph = target.hook("graph") if target.mode == "graph" else None
    if isinstance(graph, type) and hasattr(graph, "replay"):
        functions["graph::replay"], allowed["graph::replay"] = Function(graph, "replay"), _OF_REPLAY
    return FunctionInjector(functions, allowed, operators_by_name)
