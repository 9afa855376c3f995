"""Faults of what holds calls back: the backend of ``torch.compile``, and graphs that are replayed."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends import registry

from conformance.target.target import Target
from tools.mutation.injectors.function_wrapper import Function, Functions, Kind, WrappedCall

Compiler = Callable[..., Any]


def _is_same_shape(node: torch.fx.Node, other: Any) -> bool:
    here = node.meta.get("example_value")
    there = other.meta.get("example_value") if isinstance(other, torch.fx.Node) else None
    if not (isinstance(here, torch.Tensor) and isinstance(there, torch.Tensor)):
        return False
    return here.shape == there.shape and here.dtype == there.dtype


def _without(module: torch.fx.GraphModule, wanted: Callable[[torch.fx.Node], bool]) -> bool:
    """Replace the last node of some sort by its first argument; return whether there was one."""
    for node in reversed(module.graph.nodes):
        if node.op.startswith("call_") and node.args and wanted(node) and _is_same_shape(node, node.args[0]):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
            module.recompile()
            return True
    return False


def _writes(node: torch.fx.Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name in ("iadd", "isub", "imul", "itruediv")


def _write_too_early(module: torch.fx.GraphModule) -> bool:
    """Move the last write before a read of the same tensor that comes first in the program."""
    nodes = list(module.graph.nodes)
    for index, write in reversed(list(enumerate(nodes))):
        if not (write.op.startswith("call_") and write.args and _writes(write)):
            continue
        for read in reversed(nodes[:index]):
            if read in write.all_input_nodes:
                break
            if read.op.startswith("call_") and write.args[0] in read.all_input_nodes:
                read.prepend(write)
                module.recompile()
                return True
    return False


def _changed(call: WrappedCall, change: Callable[[torch.fx.GraphModule], bool]) -> bool:
    """Make the backend compile a graph that was changed; whether one is shows when it compiles."""
    compiler: Compiler = call.result

    def broken(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        other = copy.deepcopy(module)
        if change(other):
            call.felt()
            return compiler(other, inputs, **options)
        return compiler(module, inputs, **options)

    call.result = broken
    return False


def _key(module: torch.fx.GraphModule, inputs: Any, *, shapes: bool) -> str:
    nodes = [str(node.target) for node in module.graph.nodes if node.op.startswith("call_")]
    given = [
        (tuple(one.shape) if shapes else one.dim(), one.dtype)
        for one in inputs
        if isinstance(one, torch.Tensor)
    ]
    return repr((nodes, given, len(inputs)))


def _small_key(call: WrappedCall, *, shapes: bool) -> bool:
    """Run what was compiled first for the same operators, whatever their numbers are."""
    compiler: Compiler = call.result
    known: dict[str, tuple[str, Any]] = call.memory

    def broken(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        key = _key(module, inputs, shapes=shapes)
        words = str(module.code) + repr([getattr(one, "shape", one) for one in inputs])
        if key not in known:
            known[key] = words, compiler(module, inputs, **options)
        elif known[key][0] != words:
            call.felt()
        return known[key][1]

    call.result = broken
    return False


def _around_runs(call: WrappedCall, change: Callable[[WrappedCall, dict[str, Any], Any, Any], Any]) -> bool:
    compiler: Compiler = call.result

    def broken(module: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        executable, memory = compiler(module, inputs, **options), dict[str, Any]()
        return lambda *args: change(call, memory, args, executable(*args))

    call.result = broken
    return False


def _first_result(call: WrappedCall, memory: dict[str, Any], args: Any, result: Any) -> Any:
    key = repr([(getattr(one, "shape", one), getattr(one, "requires_grad", 0)) for one in args])
    if key in memory:
        call.felt()
        return memory[key]
    memory[key] = result
    return result


def _copies(call: WrappedCall, memory: dict[str, Any], args: Any, result: Any) -> Any:
    given = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}

    def fresh(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in given:
            call.felt()
            return value.clone()
        return value

    return type(result)(map(fresh, result)) if isinstance(result, (list, tuple)) else fresh(result)


def _replay_once(call: WrappedCall) -> bool:
    """Leave out every replay of a graph but its first."""
    seen: set[int] = call.memory.setdefault("seen", set())
    if id(call.args[0]) in seen:
        return True
    seen.add(id(call.args[0]))
    call.perform()
    return False


def _compiles(call: WrappedCall) -> bool:
    return callable(call.result)


BY_NAME: Mapping[str, Kind] = {
    "operator-dropped": Kind(
        "the last operator of a graph that keeps its input's sizes is left out",
        _compiles,
        lambda call: _changed(call, lambda module: _without(module, lambda node: not _writes(node))),
    ),
    "mutation-dropped": Kind(
        "the last write of a graph is left out",
        _compiles,
        lambda call: _changed(call, lambda module: _without(module, _writes)),
    ),
    "write-too-early": Kind(
        "a write comes before a read that precedes it",
        _compiles,
        lambda call: _changed(call, _write_too_early),
    ),
    "key-without-numbers": Kind(
        "graphs that differ in numbers only count as one",
        _compiles,
        lambda call: _small_key(call, shapes=True),
    ),
    "key-without-sizes": Kind(
        "graphs that differ in numbers and sizes only count as one",
        _compiles,
        lambda call: _small_key(call, shapes=False),
    ),
    "graph-stale": Kind(
        "a graph returns what its first run returned",
        _compiles,
        lambda call: _around_runs(call, _first_result),
    ),
    "graph-aliasing-lost": Kind(
        "views of inputs are returned as copies", _compiles, lambda call: _around_runs(call, _copies)
    ),
    "replay-dropped": Kind("a replay does nothing", lambda call: True, lambda call: True, after=False),
    "replay-once": Kind(
        "only the first replay of a graph runs", lambda call: True, _replay_once, after=False
    ),
}
#: By kind, what it does.
KINDS: Mapping[str, str] = {name: kind.words for name, kind in BY_NAME.items()}

_OF_REPLAY = ("replay-dropped", "replay-once")


def of(target: Target) -> Functions:
    """Return the planter for a target's compiled and captured graphs; only what its mode has."""
    functions: dict[str, Function] = {}
    allowed: dict[str, tuple[str, ...]] = {}
    if target.mode == "compile":
        functions["compile::backend"] = Function(registry, "lookup_backend")
        allowed["compile::backend"] = tuple(name for name in BY_NAME if name not in _OF_REPLAY)
    # Dynamo looks up what it is given, once more; and what the suite compiles for the CPU stays right.
    own = target.compile_backend

    def meets(call: WrappedCall) -> bool:
        return _compiles(call) and call.args[:1] == (own,)

    kinds = {
        name: kind if name in _OF_REPLAY else dataclasses.replace(kind, meets=meets)
        for name, kind in BY_NAME.items()
    }
    graph = target.hook("graph") if target.mode == "graph" else None
    if isinstance(graph, type) and hasattr(graph, "replay"):
        functions["graph::replay"], allowed["graph::replay"] = Function(graph, "replay"), _OF_REPLAY
    return Functions(functions, allowed, kinds)
