"""Descriptions for the tests of fusion: recorded from programs on CPU tensors, and interpreted literally."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FOLDER = Path(__file__).parents[2] / "habana_frameworks" / "torch" / "internal" / "fusion"
_NAME = "hpu_reference_fusion"
# Kernels that only allocate: the device's recorder sees an allocation and no call.
_ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def fusion(module: str) -> Any:
    """Load a module of the fusion package as the worker does, without the device."""
    if _NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            _NAME, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
        )
        assert spec is not None and spec.loader is not None
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[_NAME])
    return importlib.import_module(f"{_NAME}.{module}")


@dataclass
class Program:
    """A description, the bytes of its inputs before the graph, and the returned tensors of the program."""

    description: dict[str, Any]
    inputs: dict[int, torch.Tensor]
    returned: list[tuple[Any, ...]]


@dataclass
class _Buffer:
    storage: torch.UntypedStorage
    role: str


@dataclass
class Recorder(TorchDispatchMode):
    """Dispatch mode that records kernels on CPU tensors as the device would."""

    buffers: list[_Buffer] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def buffer(self, tensor: torch.Tensor, role: str = "temporary") -> int:
        storage = tensor.untyped_storage()
        for index, buffer in enumerate(self.buffers):
            if buffer.storage._cdata == storage._cdata:
                return index
        self.buffers.append(_Buffer(storage, role))
        return len(self.buffers) - 1

    def value(self, value: Any, kind: str = "") -> Any:
        if isinstance(value, torch.Tensor):
            sizes, strides = tuple(value.shape), tuple(value.stride())
            where = (self.buffer(value), value.dtype, sizes, strides, value.storage_offset())
            return ("tensor", *where, value.is_conj(), value.is_neg())
        if isinstance(value, torch.Generator):
            return ("generator",)
        if isinstance(value, (list, tuple)):
            return [self.value(item, kind) for item in value]
        if isinstance(value, (bool, int, float, complex)) and "Tensor" in kind:
            number = torch.scalar_tensor(value).dtype if isinstance(value, complex) else None
            dtype = {bool: torch.bool, int: torch.int64, float: torch.float64}.get(type(value), number)
            return ("cpu", value, dtype)
        return value

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        schema, kwargs = op._schema, kwargs or {}
        stack = list(args)
        for argument in schema.arguments[len(args) :]:
            stack.append(kwargs.get(argument.name, argument.default_value))
        recorded = [
            self.value(value, str(argument.real_type))
            for value, argument in zip(stack, schema.arguments, strict=True)
        ]
        results = op(*args, **kwargs)
        name = op.name() if op._overloadname != "default" else op.name().removesuffix(".default")
        base = name.partition("::")[2].partition(".")[0]
        writes = [
            position
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        listed = () if results is None else results if isinstance(results, tuple) else (results,)
        recorded_results = [self.value(result) for result in listed]
        is_view = not writes and any(returned.alias_info is not None for returned in schema.returns)
        if not is_view and base not in _ALLOCATIONS:
            self.calls.append({"op": name, "args": recorded, "results": recorded_results, "writes": writes})
        return results


def record(program: Callable[..., Any], *inputs: torch.Tensor) -> Program:
    """Run a program once and describe it. Its results stay alive."""
    recorder = Recorder()
    for tensor in inputs:
        recorder.buffer(tensor, "input")
    before = {index: storage_bytes(buffer.storage) for index, buffer in enumerate(recorder.buffers)}
    with torch.no_grad(), recorder:
        results = program(*inputs)
    returned = [recorder.value(result) for result in tree_leaves(results) if result is not None]
    for ref in returned:
        if recorder.buffers[ref[1]].role == "temporary":
            recorder.buffers[ref[1]].role = "output"
    buffers = [{"bytes": buffer.storage.nbytes(), "role": buffer.role} for buffer in recorder.buffers]
    return Program({"buffers": buffers, "calls": recorder.calls}, before, returned)


def storage_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a copy of the bytes of a storage."""
    return torch.empty(0, dtype=torch.uint8).set_(storage.clone())


def view_over(
    memory: torch.Tensor, dtype: torch.dtype, sizes: Any, strides: Any, offset: int
) -> torch.Tensor:
    """Return a tensor over bytes."""
    return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), offset, sizes, strides)


def fresh_memory(program: Program) -> list[torch.Tensor]:
    """Return bytes for every buffer. Buffers that are not inputs contain garbage."""
    return [
        program.inputs[index].clone()
        if index in program.inputs
        else torch.full((buffer["bytes"],), 0x3B, dtype=torch.uint8)
        for index, buffer in enumerate(program.description["buffers"])
    ]


def interpret(program: Program) -> list[torch.Tensor]:
    """Return the memory after the calls ran in order, each on tensors over bytes."""
    memory = fresh_memory(program)

    def argument(value: Any) -> Any:
        if isinstance(value, tuple) and value and value[0] == "tensor":
            return view_over(memory[value[1]], *value[2:6])
        if isinstance(value, tuple) and value and value[0] == "cpu":
            return value[1]
        return [argument(item) for item in value] if isinstance(value, (list, tuple)) else value

    def store(target: Any, result: Any) -> None:
        if isinstance(target, list):
            for item, item_result in zip(target, result, strict=True):
                store(item, item_result)
        elif isinstance(target, tuple) and target[0] == "tensor":
            destination = argument(target)
            # A returned mutated argument is already in its place.
            if destination.data_ptr() != result.data_ptr():
                destination.copy_(result)

    resolve = fusion("operators").resolve_operator
    for call in program.description["calls"]:
        op = resolve(call["op"])
        args, kwargs = [], {}
        for value, schema in zip(call["args"], op._schema.arguments, strict=True):
            if schema.kwarg_only:
                kwargs[schema.name] = argument(value)
            else:
                args.append(argument(value))
        result = op(*args, **kwargs)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        for target, item_result in zip(call["results"], results, strict=True):
            store(target, item_result)
    return memory


def run(program: Program, arguments: list[Any], function: Callable[..., Any]) -> list[torch.Tensor]:
    """Return the memory after a function ran once. `arguments`: (buffer, dtype, sizes, strides, offset)."""
    memory = fresh_memory(program)
    function(*[view_over(memory[buffer], *layout) for buffer, *layout in arguments])
    return memory


def run_built(program: Program) -> tuple[Any, list[torch.Tensor]]:
    """Return the built module and the memory after it ran."""
    with torch.no_grad():
        built = fusion("build").build_module(program.description)
        arguments = [
            (
                argument.buffer,
                argument.layout.dtype,
                argument.layout.sizes,
                argument.layout.strides,
                argument.layout.offset,
            )
            for argument in built.arguments
        ]
        return built, run(program, arguments, built.module)


def run_artifact(program: Program, artifact: Any) -> list[torch.Tensor]:
    """Return the memory after compiled code ran."""
    from torch._C import _aoti

    runner = _aoti.AOTIModelContainerRunnerCpu(str(artifact.code), 1)
    arguments = [
        (
            argument["buffer"],
            getattr(torch, argument["dtype"]),
            argument["sizes"],
            argument["strides"],
            argument["offset"],
        )
        for argument in artifact.convention["arguments"]
    ]
    return run(program, arguments, lambda *tensors: runner.run(list(tensors)))


def assert_same(program: Program, actual: list[torch.Tensor], exact: bool = True) -> None:
    """Assert that all bytes of inputs and all returned tensors equal the interpretation."""
    expected = interpret(program)
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    whole = [
        ("tensor", index, torch.uint8, (len(actual_view),), (1,), 0)
        for index, actual_view in program.inputs.items()
        if exact
    ]
    argument_refs = [
        ref for call in program.description["calls"] for ref in call["args"] if isinstance(ref, tuple)
    ]
    inputs = [ref for ref in argument_refs if ref[0] == "tensor" and ref[1] in program.inputs]
    for ref in [*whole, *program.returned, *inputs]:
        actual_view, expected_view = (
            view_over(actual[ref[1]], *ref[2:6]),
            view_over(expected[ref[1]], *ref[2:6]),
        )
        torch.testing.assert_close(
            actual_view,
            expected_view,
            equal_nan=True,
            msg=lambda text, ref=ref: f"{ref}: {text}",
            **tolerance,
        )
