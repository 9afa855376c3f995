"""Record graphs from functions on CPU tensors, and run them fused and, as the reference, call by call."""

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
# Operators that only allocate memory. Neither the device nor this recorder records calls of these operators.
_ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def load_fusion_module(module: str) -> Any:
    """Load a module of the device's fusion package without the device, as the fusion worker does."""
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
    """A recorded graph: its description, the bytes of its inputs before the run, and its returned tensors."""

    description: dict[str, Any]
    inputs: dict[int, torch.Tensor]
    returned: list[tuple[Any, ...]]


@dataclass
class _Buffer:
    storage: torch.UntypedStorage
    role: str


@dataclass
class Recorder(TorchDispatchMode):
    """Dispatch mode that records calls on CPU tensors as the device records its own calls."""

    buffers: list[_Buffer] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def buffer_index(self, tensor: torch.Tensor, role: str = "temporary") -> int:
        storage = tensor.untyped_storage()
        for index, buffer in enumerate(self.buffers):
            if buffer.storage._cdata == storage._cdata:
                return index
        self.buffers.append(_Buffer(storage, role))
        return len(self.buffers) - 1

    def recorded_value(self, value: Any, kind: str = "") -> Any:
        if isinstance(value, torch.Tensor):
            sizes, strides = tuple(value.shape), tuple(value.stride())
            where = (self.buffer_index(value), value.dtype, sizes, strides, value.storage_offset())
            return ("tensor", *where, value.is_conj(), value.is_neg())
        if isinstance(value, torch.Generator):
            return ("generator",)
        if isinstance(value, (list, tuple)):
            return [self.recorded_value(item, kind) for item in value]
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
            self.recorded_value(value, str(argument.real_type))
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
        recorded_results = [self.recorded_value(result) for result in listed]
        is_view = not writes and any(returned.alias_info is not None for returned in schema.returns)
        if not is_view and base not in _ALLOCATIONS:
            self.calls.append({"op": name, "args": recorded, "results": recorded_results, "writes": writes})
        return results


def record(program: Callable[..., Any], *inputs: torch.Tensor) -> Program:
    """Run a function once and return its recorded graph. Buffers of the results have the role ``output``."""
    recorder = Recorder()
    for tensor in inputs:
        recorder.buffer_index(tensor, "input")
    before = {index: storage_bytes(buffer.storage) for index, buffer in enumerate(recorder.buffers)}
    with torch.no_grad(), recorder:
        results = program(*inputs)
    returned = [recorder.recorded_value(result) for result in tree_leaves(results) if result is not None]
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
    """Return a tensor with this layout over the bytes of `memory`."""
    return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), offset, sizes, strides)


def allocate_buffers(program: Program) -> list[torch.Tensor]:
    """Return new bytes for every buffer. Buffers that are not inputs contain arbitrary bytes."""
    return [
        program.inputs[index].clone()
        if index in program.inputs
        else torch.full((buffer["bytes"],), 0x3B, dtype=torch.uint8)
        for index, buffer in enumerate(program.description["buffers"])
    ]


def run_recorded_calls(program: Program) -> list[torch.Tensor]:
    """Run the recorded calls in order on new memory, and return the memory."""
    memory = allocate_buffers(program)

    def to_call_argument(value: Any) -> Any:
        if isinstance(value, tuple) and value and value[0] == "tensor":
            return view_over(memory[value[1]], *value[2:6])
        if isinstance(value, tuple) and value and value[0] == "cpu":
            return value[1]
        return [to_call_argument(item) for item in value] if isinstance(value, (list, tuple)) else value

    def store_result(target: Any, result: Any) -> None:
        if isinstance(target, list):
            for item, item_result in zip(target, result, strict=True):
                store_result(item, item_result)
        elif isinstance(target, tuple) and target[0] == "tensor":
            destination = to_call_argument(target)
            # A result may be an argument that the call wrote. No copy is needed for such a result.
            if destination.data_ptr() != result.data_ptr():
                destination.copy_(result)

    resolve = load_fusion_module("functional_operators").resolve_operator
    for call in program.description["calls"]:
        op = resolve(call["op"])
        args, kwargs = [], {}
        for value, schema in zip(call["args"], op._schema.arguments, strict=True):
            if schema.kwarg_only:
                kwargs[schema.name] = to_call_argument(value)
            else:
                args.append(to_call_argument(value))
        result = op(*args, **kwargs)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        for target, item_result in zip(call["results"], results, strict=True):
            store_result(target, item_result)
    return memory


def call_with_new_buffers(
    program: Program, arguments: list[Any], function: Callable[..., Any]
) -> list[torch.Tensor]:
    """Call a function on views of new memory, and return the memory.

    Each of `arguments` is a view: (buffer, dtype, sizes, strides, offset).
    """
    memory = allocate_buffers(program)
    function(*[view_over(memory[buffer], *layout) for buffer, *layout in arguments])
    return memory


def build_and_run(program: Program) -> tuple[Any, list[torch.Tensor]]:
    """Build the module of a program and run it once. Return the built module and the memory."""
    with torch.no_grad():
        built = load_fusion_module("fx_graph_builder").build_module(program.description)
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
        return built, call_with_new_buffers(program, arguments, built.module)


def run_artifact(program: Program, artifact: Any) -> list[torch.Tensor]:
    """Run the compiled code of an artifact once on new memory, and return the memory."""
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
    return call_with_new_buffers(program, arguments, lambda *tensors: runner.run(list(tensors)))


def assert_same_buffers(program: Program, actual: list[torch.Tensor], exact: bool = True) -> None:
    """Assert that `actual` equals the memory after `run_recorded_calls`: inputs, returned tensors, and
    argument views.

    If `exact` is true, all bytes of the inputs must be equal too, and no tolerance applies.
    """
    expected = run_recorded_calls(program)
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
