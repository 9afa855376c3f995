"""Convert compiled code of static shapes to a program that runs without Python.

For a cluster, Inductor generates a Python function that allocates memory and calls kernels and operators. For
static shapes, this function has no branches. `build_static_program` runs the function once on placeholder
values and records the steps, and the device then runs the steps itself. If the function does something that
cannot be recorded, no program is created.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .aliases import may_return_argument_without_alias_annotation
from .log import logger

Code = Callable[[list[Any]], Sequence[Any]]

#: Global names in Inductor's modules through which a function calls operators. The recording keeps their
#: values. A global name that is neither replaced by a recording function nor in this set is rejected.
_NAMESPACES = frozenset({"torch", "aten", "extern_kernels", "inductor_ops", "device"})
#: Operators that write to an argument, do not resize it and do not return a different tensor.
_WRITING = frozenset(
    f"aten::{name}_" for name in ("copy", "index_put", "scatter", "scatter_add", "scatter_reduce")
)
_ALIGNMENT = 64


class _NotRecordable(Exception):
    """Error for a function that cannot be recorded as steps. The message names the reason."""


class _Placeholder:
    """Placeholder for a tensor, or for all results of an operator with several results."""

    _recorder: _Recorder
    _number: int

    def __init__(self, recorder: _Recorder, number: int) -> None:
        object.__setattr__(self, "_recorder", recorder)
        object.__setattr__(self, "_number", number)

    @classmethod
    def __torch_function__(
        cls, function: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves([args, kwargs])
        recorder = next(leaf._recorder for leaf in leaves if isinstance(leaf, _Placeholder))
        return recorder.operator(function, args, kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        raise _NotRecordable(f"an access to attribute {name} of a tensor")

    def _refuse(self, *values: Any) -> NoReturn:
        raise _NotRecordable("an access to the values, the length or an attribute of a tensor")

    __setattr__ = __bool__ = __index__ = __iter__ = __getitem__ = __len__ = _refuse


class _RejectOperators(TorchDispatchMode):
    """Rejects operators without placeholder arguments, which would run only once, during the recording."""

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise _NotRecordable(f"a call of {function} without recorded tensors")


class _Recorder:
    """Recorder of the steps of one function. The recorder gives each tensor a number.

    `build_program` plans the memory when all steps are recorded.
    """

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        #: Two lists with an entry for each tensor: the number of the tensor that owns its memory, and the
        #: method and the arguments that add the tensor to a program.
        self.owners: list[int] = []
        self.kinds: list[tuple[Any, ...]] = []
        #: For each step: the arguments that add it to a program, and the numbers of the tensors that it uses.
        self.steps: list[tuple[tuple[Any, ...], list[int]]] = []
        self.inputs = [
            self.new_placeholder("input", value.dtype, list(value.shape), list(value.stride()))
            for value in inputs
        ]

    def new_placeholder(self, *kind: Any, owner: int | None = None) -> _Placeholder:
        number = len(self.kinds)
        self.kinds.append(kind)
        self.owners.append(number if owner is None else owner)
        return _Placeholder(self, number)

    def empty(self, sizes: Any, strides: Any, dtype: torch.dtype) -> _Placeholder:
        """Record a call of Inductor's ``empty_strided_cpu``, which this method replaces."""
        return self.new_placeholder("buffer", dtype, list(sizes), list(strides))

    def view(self, base: Any, sizes: Any, strides: Any, offset: int) -> _Placeholder:
        """Record a call of Inductor's ``reinterpret_tensor``, which this method replaces."""
        number = _tensor_number(base)
        return self.new_placeholder(
            "view", number, list(sizes), list(strides), offset, owner=self.owners[number]
        )

    def check_layout(self, value: Any, sizes: Any, strides: Any, name: str | None = None) -> None:
        """Record a call of Inductor's ``assert_size_stride``, which this method replaces."""
        number = _tensor_number(value)
        if self.kinds[number][0] == "result":
            self.steps.append(
                (("layout", number, list(sizes), list(strides), name or "an operator"), [number])
            )
        elif self.kinds[number][0] not in ("input", "constant", "buffer"):
            raise _NotRecordable("a check of the layout of a view")
        elif self.kinds[number][0] == "input" and not _has_layout(self.kinds[number], sizes, strides):
            raise _NotRecordable("an input whose layout differs from the trace")

    def check_alignment(self, value: Any, alignment: int, name: str | None = None) -> None:
        """Record a call of Inductor's ``assert_alignment``, which this method replaces."""
        number = _tensor_number(value)
        if self.kinds[number][0] != "result":
            raise _NotRecordable("an alignment check of a tensor that is not a result")
        self.steps.append((("alignment", number, alignment, name or "an operator"), [number]))

    def kernel(self, library: str, name: str) -> Callable[..., None]:
        """Return a function that records calls of a kernel in `library`. Traces show the kernel as `name`."""

        def record(*arguments: Any) -> None:
            if len(arguments) > _C.StaticProgram.most_arguments:
                raise _NotRecordable("a kernel with too many arguments")
            kernel_arguments = [
                (-1, value) if type(value) is int else (_tensor_number(value), 0) for value in arguments
            ]
            self.steps.append(
                (
                    ("kernel", library, name, kernel_arguments),
                    [number for number, _ in kernel_arguments if number >= 0],
                )
            )

        return record

    def operator(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record an operator call on tensors and return placeholders for its results."""
        op = _operator_of_function(function, "out" in kwargs)
        schema = op._schema
        _check_aliases(op)
        if len(args) > sum(not argument.kwarg_only for argument in schema.arguments):
            raise _NotRecordable(f"{op} with too many arguments")
        operator_arguments: list[tuple[str, Any]] = []
        for position, argument in enumerate(schema.arguments):
            if position < len(args):
                value = args[position]
            elif argument.name not in kwargs and not argument.has_default_value():
                raise _NotRecordable(f"{op} without {argument.name}")
            else:
                value = kwargs.get(argument.name, argument.default_value)
            operator_arguments.append(_recorded_argument(value, str(argument.type)))
        used = [
            n
            for form, value in operator_arguments
            if form != "value"
            for n in pytree.tree_leaves(value)
            if n >= 0
        ]
        results = [] if schema.is_mutable else [self.new_placeholder("result") for _ in schema.returns]
        numbers = [value._number for value in results]
        self.steps.append(
            (("operator", schema.name, schema.overload_name, operator_arguments, numbers), used + numbers)
        )
        return results[0] if len(results) == 1 else tuple(results)

    def build_program(self, outputs: Sequence[_Placeholder | None], writes: bool) -> Any:
        """Return the program, with a memory plan for the buffers that are not returned."""
        returned = {self.owners[value._number] for value in outputs if value is not None}
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for time, (_, used) in enumerate(self.steps):
            for owner in (self.owners[number] for number in used):
                first.setdefault(owner, time)
                last[owner] = time
        temporary = [n for n in first if self.kinds[n][0] == "buffer" and n not in returned]
        offsets, workspace = _assign_offsets(
            [(_byte_size(*self.kinds[n][1:]), first[n], last[n], n) for n in temporary]
        )
        program = _C.StaticProgram()
        numbers = {-1: -1}

        def add(number: int) -> None:
            kind, *details = self.kinds[number]
            if number in numbers or kind == "result":
                return
            if kind == "view":
                add(details[0])
                details[0] = numbers[details[0]]
            elif kind == "buffer":
                details.append(offsets.get(number, -1))
            numbers[number] = getattr(program, f"add_{kind}")(*details)

        for value in self.inputs:
            add(value._number)
        for time, (step, used) in enumerate(self.steps):
            for number in used:
                add(number)
            _add_step(program, step, numbers)
            for owner in {self.owners[number] for number in used} - returned:
                if self.kinds[owner][0] == "result" and last[owner] == time:
                    program.add_release(numbers[owner])
        wanted = [-1 if value is None else value._number for value in outputs]
        for number in wanted:
            if number >= 0:
                add(number)
        program.finish([numbers[number] for number in wanted], workspace, writes)
        return program


def build_static_program(code: Code, inputs: Sequence[Any], writes: bool) -> Any:
    """Convert a compiled function to a program.

    Args:
        code: boxed function of CPU tensors, as Inductor generates it.
        inputs: fake device tensors.
        writes: the function writes to its inputs.

    Returns:
        None if the function cannot be converted. Otherwise a callable that takes the list of inputs, empties
        the list and returns the list of results. If the program does not apply to the inputs, the callable
        returns None and does nothing.
    """
    function: Any = getattr(code, "__func__", code)
    owner = getattr(code, "__self__", None)
    if not _is_generated(function, bound=owner is not None) or getattr(owner, "partitions", None):
        return None
    if not all(isinstance(value, torch.Tensor) and _is_static(value) for value in inputs):
        return None
    recorder = _Recorder(inputs)
    try:
        straight = types.FunctionType(function.__code__, _recording_globals(function, recorder))
        values = list(recorder.inputs)
        with _RejectOperators():  # type: ignore[no-untyped-call]
            results = straight(values) if owner is None else straight(owner, values)
        if not all(value is None or isinstance(value, _Placeholder) for value in results):
            raise _NotRecordable("a result that is not a tensor")
        return recorder.build_program(results, writes)
    except _NotRecordable as reason:
        logger.debug("a recipe runs in Python, because its function contains %s", reason)
        return None


def _is_generated(function: Any, bound: bool) -> bool:
    """Return whether the function may be code that Inductor generated. ``bound``: True for a method."""
    if not isinstance(function, types.FunctionType) or function.__closure__ is not None:
        return False
    code = function.__code__
    return code.co_argcount == 1 + bound and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)


def _recording_globals(function: types.FunctionType, recorder: _Recorder) -> dict[str, Any]:
    """Return globals for the function. Recording functions replace kernels and Inductor's helpers."""
    replacements = {
        "assert_size_stride": recorder.check_layout,
        "assert_alignment": recorder.check_alignment,
        "empty_strided_cpu": recorder.empty,
        "reinterpret_tensor": recorder.view,
    }
    result: dict[str, Any] = {"__builtins__": builtins}
    for instruction in dis.get_instructions(function.__code__):
        name = instruction.argval
        if instruction.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or name in result:
            continue
        value = function.__globals__.get(name)
        if name in replacements:
            result[name] = replacements[name]
        elif isinstance(value, torch.Tensor):
            if (
                value.device.type != "cpu"
                or value.layout != torch.strided
                or value.is_conj()
                or value.is_neg()
            ):
                raise _NotRecordable(f"the constant {name}")
            result[name] = recorder.new_placeholder("constant", value)
        elif _kernel_library_path(value):
            result[name] = recorder.kernel(_kernel_library_path(value), name)
        elif value is not None and name in _NAMESPACES:
            result[name] = value
        else:
            raise _NotRecordable(f"the name {name}")
    return result


def _kernel_library_path(value: Any) -> str:
    """Return the path of the shared object of a kernel that Inductor bound to Python, or an empty string."""
    module = getattr(value, "__self__", None)
    if not isinstance(value, types.BuiltinFunctionType) or not isinstance(module, types.ModuleType):
        return ""
    path = getattr(module.__spec__, "origin", None) or ""
    return path if value.__name__ == "kernel" and path.endswith(".so") else ""


def _tensor_number(value: Any) -> int:
    if not isinstance(value, _Placeholder):
        raise _NotRecordable(f"{type(value).__name__} in place of a tensor")
    return value._number


def _is_static(value: torch.Tensor) -> bool:
    if value.device.type != DEVICE_TYPE or value.layout != torch.strided:
        return False
    return all(type(size) is int for size in (*value.shape, *value.stride()))


def _has_layout(kind: Sequence[Any], sizes: Any, strides: Any) -> bool:
    _, _, own_sizes, own_strides = kind
    pairs = zip(own_sizes, own_strides, strides, strict=True)
    return own_sizes == list(sizes) and all(a == b for size, a, b in pairs if size > 1)


def _operator_of_function(function: Any, has_out: bool) -> OpOverload:
    if isinstance(function, OpOverload):
        return function
    # Inductor calls common operators as functions of torch with the names of the operators.
    name = getattr(function, "__name__", "")
    packet = getattr(torch.ops.aten, name, None)
    overload: OpOverload | None = getattr(packet, "out" if has_out else "default", None)
    if overload is None or getattr(torch, name, None) is not function:
        raise _NotRecordable(f"the function {name}")
    return overload


def _check_aliases(op: OpOverload) -> None:
    """Reject an operator that may resize an argument, return an argument or return a view."""
    schema = op._schema
    if any(str(result.type) != "Tensor" for result in schema.returns):
        raise _NotRecordable(f"{op}, whose results are not single tensors")
    if schema.is_mutable:
        written = [argument for argument in schema.arguments if argument.is_write]
        is_out = op.namespace == "aten" and all(argument.kwarg_only for argument in written)
        if not is_out and schema.name not in _WRITING:
            raise _NotRecordable(f"{op}, which writes to its arguments")
    elif any(result.alias_info for result in schema.returns) or (
        op.namespace != "mkldnn" and may_return_argument_without_alias_annotation(op)
    ):
        raise _NotRecordable(f"{op}, which may return a view")


def _recorded_argument(value: Any, kind: str) -> tuple[str, Any]:
    """Return the kind and content of an operator's argument whose schema type is `kind`."""
    if isinstance(value, _Placeholder):
        return "tensor", value._number
    if kind == "List[Tensor]":
        return "tensors", [_tensor_number(item) for item in value]
    if kind == "List[Optional[Tensor]]":
        return "optional_tensors", [-1 if item is None else _tensor_number(item) for item in value]
    if (kind == "Tensor" and value is not None) or any(
        isinstance(leaf, torch.Tensor | _Placeholder) for leaf in pytree.tree_leaves(value)
    ):
        raise _NotRecordable(f"{value} in an argument of type {kind}")
    return "value", value


def _add_step(program: Any, step: tuple[Any, ...], numbers: dict[int, int]) -> None:
    kind, *details = step
    if kind == "kernel":
        library, name, arguments = details
        program.add_kernel(library, [(numbers[number], value) for number, value in arguments], name)
    elif kind == "operator":
        name, overload, arguments, results = details
        operator_arguments = [
            (form, value if form == "value" else pytree.tree_map(numbers.__getitem__, value))
            for form, value in arguments
        ]
        numbers.update(zip(results, program.add_operator(name, overload, operator_arguments), strict=True))
    elif kind == "layout":
        program.add_layout_check(numbers[details[0]], *details[1:])
    else:
        program.add_alignment_check(numbers[details[0]], *details[1:])


def _byte_size(dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int]) -> int:
    if 0 in sizes:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return (last + 1) * dtype.itemsize


def _assign_offsets(buffers: Sequence[tuple[int, int, int, int]]) -> tuple[dict[int, int], int]:
    """Assign offsets to buffers (bytes, first step, last step, number). Return offsets and total size."""
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[int, int] = {}
    for size, first, last, number in sorted(buffers, key=lambda buffer: (-buffer[0], *buffer[1:])):
        begin = 0
        for other_begin, end, since, until in sorted(placed):
            if since <= last and first <= until:
                if begin + size <= other_begin:
                    break
                begin = max(begin, end)
        end = begin + -(-size // _ALIGNMENT) * _ALIGNMENT
        placed.append((begin, end, first, last))
        offsets[number] = begin
    return offsets, max((end for _, end, _, _ in placed), default=0)
