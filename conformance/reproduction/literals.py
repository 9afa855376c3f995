"""Write values as Python expressions: tensors with their memory, containers, dtypes, functions, plain
objects.
"""

from __future__ import annotations

import base64
import builtins
import dataclasses
import enum
import functools
import inspect
import math
import operator
import types
import zlib
from collections.abc import Iterable
from typing import Any

import torch

from conformance.framework import trees
from conformance.reproduction.inline_source import DefinitionCollector
from conformance.reproduction.module_ast import NotWritableAsSource
from conformance.samples.operators import bytes_of_storage

#: The maximal number of elements written as numbers. Larger tensors are written as compressed bytes.
READABLE = 256
#: The maximal number of bytes of a tensor in a snippet.
LARGEST = 1 << 24

_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)
_BY_COLUMN = (torch.sparse_csc, torch.sparse_bsc)
#: Dtypes that ``torch.tensor`` cannot create from numbers, each with a dtype that represents all its values.
_THROUGH: dict[torch.dtype, torch.dtype] = {torch.complex32: torch.complex64} | {
    getattr(torch, name): torch.float32
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
}
#: Namespaces in which the public name of a function is looked up, by the prefix of the name.
_NAMED: dict[str, Any] = {
    "": builtins, "torch": torch, "torch.nn.functional": torch.nn.functional, "torch.Tensor": torch.Tensor,
    "torch.linalg": torch.linalg, "torch.fft": torch.fft, "torch.special": torch.special,
    "torch.sparse": torch.sparse, "torch.masked": torch.masked, "torch.nn": torch.nn,
    "torch.optim": torch.optim, "torch.ops.aten": torch.ops.aten, "operator": operator, "math": math,
}  # fmt: skip


class ExpressionWriter:
    """Writes values as expressions. Statements that must precede an expression are added to ``statements``
    (shared memory) and to the collector (definitions).

    ``device`` is the name of the variable with the device on which all memory is allocated. By default, each
    tensor's own device is used.
    """

    def __init__(self, collector: DefinitionCollector, *, device: str | None = None) -> None:
        self.collector = collector
        self.device = device
        self.statements: list[str] = []
        #: The attributes that the code of the snippet reads, or None for all attributes.
        #: :meth:`plain_object_expression` omits the other attributes of an object.
        self.attributes: set[str] | None = None
        self._bases: dict[int, str] = {}
        self._views: dict[int, set[int]] = {}
        self._tensors: dict[int, str] = {}
        self._alive: list[Any] = []

    def register_shared_tensors(self, tree: Any) -> None:
        """Register the tensors that will be written, so that tensors that share a storage also share it in
        the written code.
        """
        for leaf in trees.leaves(tree):
            if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
                self.register_shared_tensors(vars(leaf))
            fake = type(leaf).__name__ in ("FakeTensor", "FunctionalTensor")
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and not fake:
                self._views.setdefault(leaf.untyped_storage()._cdata, set()).add(id(leaf))

    def write(self, value: Any) -> str:
        """Return the expression of a value.

        Raise :class:`NotWritableAsSource` if the value cannot be written.
        """
        if self.device and isinstance(value, (str, torch.device)) and str(value) == "cpu":
            return self.device
        match value:
            case enum.Enum():
                return f"{self._callable(type(value))}.{value.name}"
            case None | int() | str() | bytes() | range() | types.EllipsisType() | types.NotImplementedType():
                return repr(value)
            case float() | complex():
                return _number_literal(value)
            case torch.Tensor():
                return self.tensor(value)
            case torch.Size():
                return f"torch.Size({list(value)!r})"
            case torch.dtype() | torch.layout() | torch.memory_format():
                return str(value)
            case torch.device():
                return f"torch.device({str(value)!r})" if value.type in ("cpu", "meta") else "DEVICE"
            case torch.Generator():
                return f"torch.Generator({self.device or repr('cpu')}).manual_seed({value.initial_seed()})"
            case tuple():
                return self._tuple(value)
            case list():
                return f"[{self._items(value)}]"
            case set() | frozenset():
                return f"{type(value).__name__}([{self._items(sorted(value, key=repr))}])"
            case dict():
                items = (f"{self.write(key)}: {self.write(item)}" for key, item in value.items())
                return f"{{{', '.join(items)}}}"
            case slice():
                return f"slice({self._items((value.start, value.stop, value.step))})"
            case type() | types.FunctionType() | types.MethodType() | functools.partial():
                return self._callable(value)
        if callable(value) and not hasattr(value, "__dict__"):
            return self._callable(value)
        return _public_name(value) or self._object(value)

    def _items(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self.write, values))

    def tensor(self, tensor: torch.Tensor) -> str:
        """Return the expression of a tensor with its shape, strides, offset, bits and device. A tensor that
        was written before keeps its name.
        """
        if id(tensor) in self._tensors:
            return self._tensors[id(tensor)]
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_quantized or tensor.is_nested:
            raise NotWritableAsSource(
                f"a tensor of type {type(tensor).__name__} cannot be written as a literal"
            )
        text = self._tensor_expression(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            text = f"torch.nn.Parameter({text}, requires_grad={tensor.requires_grad})"
        elif tensor.requires_grad:
            text = f"{text}.requires_grad_()"
        self._alive.append(tensor)
        name = self._tensors[id(tensor)] = self.collector.temporary_name("x")
        self.statements.append(f"{name} = {text}")
        return name

    def _tensor_expression(self, tensor: torch.Tensor) -> str:
        detached, shape = tensor.detach(), tuple(tensor.shape)
        if tensor.device.type == "meta":
            return f"torch.empty_strided({shape}, {detached.stride()}, dtype={tensor.dtype}, device='meta')"
        if tensor.device.type != "cpu":
            return f"{self._tensor_expression(detached.cpu())}.to(DEVICE)"
        if tensor.layout is torch.sparse_coo:
            parts = ", ".join(map(self._tensor_expression, (detached._indices(), detached._values())))
            options = f"is_coalesced={detached.is_coalesced()}, check_invariants=False"
            return f"torch.sparse_coo_tensor({parts}, {shape}, {options})"
        if tensor.layout in _BY_ROW + _BY_COLUMN:
            indices = (
                (detached.crow_indices(), detached.col_indices())
                if tensor.layout in _BY_ROW
                else (detached.ccol_indices(), detached.row_indices())
            )
            parts = ", ".join(map(self._tensor_expression, (*indices, detached.values())))
            options = f"layout={tensor.layout}, check_invariants=False"
            return f"torch.sparse_compressed_tensor({parts}, {shape}, {options})"
        if tensor.layout is not torch.strided:
            raise NotWritableAsSource(f"a tensor of layout {tensor.layout} cannot be written as a literal")
        conj, neg = tensor.is_conj(), tensor.is_neg()
        detached = detached.conj() if conj else detached
        text = self._strided(torch._neg_view(detached) if neg else detached) + ".conj()" * conj
        return f"torch._neg_view({text})" if neg else text

    def _numbers(self, detached: torch.Tensor) -> str:
        return tensor_literal(detached) + (f".to({self.device})" if self.device else "")

    def _strided(self, detached: torch.Tensor) -> str:
        storage, offset = detached.untyped_storage(), detached.storage_offset()
        is_only_view = len(self._views.get(storage._cdata, ())) <= 1
        fills_storage = storage.nbytes() == detached.numel() * detached.itemsize
        if is_only_view and fills_storage and detached.is_contiguous() and offset == 0:
            return self._numbers(detached)
        if storage.nbytes() % detached.itemsize:
            raise NotWritableAsSource(
                "a tensor whose storage size is not a multiple of its element size cannot be written as a "
                "literal"
            )
        base = self._bases.get(storage._cdata)
        if base is None:
            base = self._bases[storage._cdata] = self.collector.temporary_name("memory")
            self._alive.append(detached)
            flat = torch.empty(0, dtype=detached.dtype)
            flat.set_(storage, 0, (storage.nbytes() // detached.itemsize,), (1,))
            self.statements.append(f"{base} = {self._numbers(flat)}")
        return f"torch.as_strided({base}, {tuple(detached.shape)}, {detached.stride()}, {offset})"

    def _tuple(self, value: Any) -> str:
        items = self._items(value)
        if hasattr(value, "_fields"):
            return f"{self._callable(type(value))}({items})"
        if hasattr(value, "n_fields"):
            return f"torch.return_types.{type(value).__name__}([{items}])"
        return f"({items},)" if len(value) == 1 else f"({items})"

    def _callable(self, value: Any) -> str:
        if isinstance(value, functools.partial):
            arguments = [self.write(value.func), *map(self.write, value.args)]
            arguments += [f"{key}={self.write(item)}" for key, item in value.keywords.items()]
            self.collector.imports.add("import functools")
            return f"functools.partial({', '.join(arguments)})"
        spelled = _public_name(value)
        if spelled is not None:
            if spelled.split(".")[0] in ("operator", "math"):
                self.collector.imports.add(f"import {spelled.split('.')[0]}")
            return spelled
        if isinstance(value, types.MethodType):
            return f"{self.write(value.__self__)}.{value.__name__}"
        module, name = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "<")
        if self.collector.is_inlined(module):
            function = inspect.unwrap(value) if not isinstance(value, type) else None
            if function is None or (function is not value and "<locals>" not in name):
                return self.collector.add_definition(module, name)
            if isinstance(function, types.FunctionType):
                inner = isinstance(value, types.FunctionType)
                return self.collector.function_expression(value if inner else function, self.write)
        elif module and "<" not in name:
            self.collector.imports.add(f"from {module} import {name.split('.')[0]}")
            return str(name)
        raise NotWritableAsSource(f"{value!r} has no public name")

    def _object(self, value: Any) -> str:
        kind = type(value)
        if isinstance(value, torch.nn.Module):
            raise NotWritableAsSource(f"a torch.nn.Module ({kind.__name__}) cannot be written as a literal")
        inlined = dataclasses.is_dataclass(kind) and self.collector.is_inlined(kind.__module__)
        if self.attributes is None and inlined:
            return self.dataclass_expression(value)
        if self.attributes is not None:
            return self.plain_object_expression(value, self.attributes)
        return self.plain_object_expression(
            value, getattr(kind, "__slots__", ()) or getattr(value, "__dict__", ())
        )

    def dataclass_expression(self, value: Any, **texts: str) -> str:
        """Return the expression of a dataclass object with the fields that differ from their defaults.
        ``texts`` overrides fields.
        """
        arguments = []
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            is_default = (
                not isinstance(item, torch.Tensor) and type(item) is type(default) and item == default
            )
            if field.name in texts:
                arguments.append(f"{field.name}={texts[field.name]}")
            elif field.init and field.name[0] != "_" and not is_default:
                arguments.append(f"{field.name}={self.write(item)}")
        name = self.collector.add_definition(type(value).__module__, type(value).__qualname__)
        return f"{name}({', '.join(arguments)})"

    def plain_object_expression(self, value: Any, attributes: Iterable[str]) -> str:
        """Return the expression of a plain object that replaces ``value`` in the snippet.

        Its class has the name of the class of ``value``. The object has only the attributes in
        ``attributes`` whose values can be written.
        """
        arguments: list[str] = []
        for name in sorted(attributes):
            method = inspect.getattr_static(type(value), name, None)
            is_method = isinstance(method, types.FunctionType) and name not in getattr(value, "__dict__", ())
            if name.startswith("__") or is_method:
                continue
            try:
                arguments.append(f"{name}={self.write(getattr(value, name))}")
            except (AttributeError, NotWritableAsSource):
                continue
        self.collector.imports.add("import types")
        return f"type({type(value).__name__!r}, (types.SimpleNamespace,), {{}})({', '.join(arguments)})"


def tensor_literal(tensor: torch.Tensor) -> str:
    """Return the expression of a contiguous CPU tensor: its numbers if they are few, else its compressed
    bytes.

    Raise :class:`NotWritableAsSource` if there are too many bytes.
    """
    dtype, shape, wider_dtype = tensor.dtype, tuple(tensor.shape), _THROUGH.get(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.empty({shape}, dtype={dtype})"
    if tensor.numel() > 4 and wider_dtype is None and not dtype.is_complex:
        first = tensor.flatten()[0]
        if bool((tensor == first).all()) and not bool(tensor.is_floating_point() and (first == 0)):
            return f"torch.full({shape}, {_number_literal(first.item())}, dtype={dtype})"
    if tensor.numel() <= READABLE:
        if wider_dtype is not None:
            return (
                f"torch.tensor({_number_literal(tensor.to(wider_dtype).tolist())}, "
                f"dtype={wider_dtype}).to({dtype})"
            )
        return f"torch.tensor({_number_literal(tensor.tolist())}, dtype={dtype})"
    data = bytes_of_storage(tensor.clone())
    if len(data) > LARGEST:
        raise NotWritableAsSource(f"a tensor of {len(data)} bytes is too large for a snippet")
    text = base64.b85encode(zlib.compress(data, 9)).decode()
    memory = f"bytearray(zlib.decompress(base64.b85decode({text!r})))"
    return f"torch.frombuffer({memory}, dtype={dtype}).reshape({shape})"


def _number_literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_number_literal, value))}]"
    if isinstance(value, complex):
        return f"complex({_number_literal(value.real)}, {_number_literal(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "-math.inf"
    return repr(value)


@functools.cache
def _public_names_by_id() -> dict[int, tuple[str, Any]]:
    names: dict[int, tuple[str, Any]] = {}
    for prefix, namespace in _NAMED.items():
        for name in dir(namespace):
            try:
                value = getattr(namespace, name)
            except Exception:
                continue
            public = not name.startswith("_") or prefix == "torch.Tensor"
            if public and callable(value) and not isinstance(value, types.ModuleType):
                names.setdefault(id(value), (f"{prefix}.{name}".lstrip("."), value))
    return names


def _public_name(value: Any) -> str | None:
    """Return the public name of a function or class of torch or of the builtins, or None."""
    name, named = _public_names_by_id().get(id(value), ("", None))
    if name and named is value:
        return name
    value_name = getattr(value, "__name__", None)
    for prefix, namespace in _NAMED.items() if isinstance(value_name, str) else ():
        try:  # compare with ==: each access to a C method creates a new object
            if getattr(namespace, value_name, None) == value:  # type: ignore[arg-type]
                return f"{prefix}.{value_name}".lstrip(".")
        except Exception:
            continue
    ops = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    return f"torch.ops.{value}" if isinstance(value, ops) else None
