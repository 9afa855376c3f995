"""Values as source text: tensors with their memory, trees of them, dtypes, functions, and plain objects."""

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
from typing import Any

import torch

from conformance.reproduction.modules import Unwritable
from conformance.reproduction.source import Collector

#: Tensors with more elements are written as compressed bytes.
READABLE = 256
#: Bytes of one tensor's memory beyond which a snippet is no use any more.
LARGEST = 1 << 24

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
#: Dtypes of which torch.tensor makes no tensor from numbers, with one that holds all their values.
_THROUGH: dict[torch.dtype, torch.dtype] = {
    getattr(torch, name): wide
    for name, wide in {
        "complex32": torch.complex64,
        "float8_e4m3fn": torch.float32,
        "float8_e5m2": torch.float32,
        "float8_e4m3fnuz": torch.float32,
        "float8_e5m2fnuz": torch.float32,
    }.items()
    if hasattr(torch, name)
}
#: Modules whose public names spell a function.
_NAMED: tuple[tuple[str, Any], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.Tensor", torch.Tensor),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
    ("torch.sparse", torch.sparse),
    ("torch.masked", torch.masked),
    ("torch.nn", torch.nn),
    ("torch.optim", torch.optim),
    ("torch.ops.aten", torch.ops.aten),
    ("operator", operator),
    ("math", math),
)


class Writer:
    """Writes values as expressions. What must come before them (memory that tensors share, definitions) goes
    to ``statements`` and to the collector.

    ``device`` names the variable with the device on which all memory is made (default: where it is now).
    """

    def __init__(
        self, collector: Collector, *, attributes: set[str] | None = None, device: str | None = None
    ) -> None:
        self.collector = collector
        self.device = device
        self.statements: list[str] = []
        #: Attributes that the code reads; the others of an object without source are left out.
        self.attributes = attributes
        self._bases: dict[int, str] = {}
        self._uses: dict[int, int] = {}
        self._tensors: dict[int, str] = {}
        self._alive: list[Any] = []

    def share(self, tree: Any) -> None:
        """Look at all tensors that will be written, so that those over one storage stay over one."""
        from conformance.checking import trees

        for tensor in trees.tensors(tree):
            if tensor.layout is torch.strided and not _is_fake(tensor):
                key = tensor.untyped_storage()._cdata
                self._uses[key] = self._uses.get(key, 0) + 1

    def write(self, value: Any) -> str:
        """The expression; raises :class:`Unwritable` where there is none."""
        if (
            value is None
            or value is Ellipsis
            or value is NotImplemented
            or isinstance(value, (bool, int, str, bytes))
        ):
            if self.device and value == "cpu":
                return self.device
            return self._enum(value) if isinstance(value, enum.Enum) else repr(value)
        if isinstance(value, float):
            return _number(value)
        if isinstance(value, complex):
            return f"complex({_number(value.real)}, {_number(value.imag)})"
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.Size):
            return f"torch.Size({list(value)!r})"
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            if self.device and value.type == "cpu":
                return self.device
            return f"torch.device({str(value)!r})" if value.type in ("cpu", "meta") else "DEVICE"
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, list):
            return f"[{', '.join(map(self.write, value))}]"
        if isinstance(value, (set, frozenset)):
            inner = ", ".join(map(self.write, sorted(value, key=repr)))
            return f"{type(value).__name__}([{inner}])"
        if isinstance(value, dict):
            inner = ", ".join(f"{self.write(key)}: {self.write(item)}" for key, item in value.items())
            return f"{{{inner}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.write, (value.start, value.stop, value.step)))})"
        if isinstance(value, range):
            return repr(value)
        if isinstance(value, torch.Generator):
            return f"torch.Generator({self.device or repr('cpu')}).manual_seed({value.initial_seed()})"
        if isinstance(value, enum.Enum):
            return self._enum(value)
        if isinstance(value, type) or (callable(value) and not hasattr(value, "__dict__")):
            return self._callable(value)
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            return self._callable(value)
        found = _spelled(value)
        return found if found is not None else self._object(value)

    # Tensors

    def tensor(self, tensor: torch.Tensor) -> str:
        """A tensor with its shape, strides, offset, bits and place; one written before is the same."""
        key = id(tensor)
        if key in self._tensors:
            return self._tensors[key]
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_quantized or tensor.is_nested:
            raise Unwritable(f"a tensor of type {type(tensor).__name__} has no literal here")
        text = self._plain(tensor)
        if tensor.device.type == "meta":
            shape = f"{tuple(tensor.shape)}, {tuple(tensor.stride())}"
            text = f"torch.empty_strided({shape}, dtype={tensor.dtype}, device='meta')"
        if isinstance(tensor, torch.nn.Parameter):
            text = f"torch.nn.Parameter({text}, requires_grad={tensor.requires_grad})"
        elif tensor.requires_grad:
            text = f"{text}.requires_grad_()"
        self._alive.append(tensor)
        name = self.collector.fresh("x")
        self.statements.append(f"{name} = {text}")
        self._tensors[key] = name
        return name

    def _plain(self, tensor: torch.Tensor) -> str:
        plain = tensor.detach()
        if tensor.device.type == "meta":
            return ""
        if tensor.device.type != "cpu":
            return f"{self._plain(plain.cpu())}.to(DEVICE)"
        if tensor.layout is torch.sparse_coo:
            indices, values = self._plain(plain._indices()), self._plain(plain._values())
            return (
                f"torch.sparse_coo_tensor({indices}, {values}, {tuple(plain.shape)}, "
                f"is_coalesced={plain.is_coalesced()}, check_invariants=False)"
            )
        if tensor.layout in _COMPRESSED:
            by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
            outer = plain.crow_indices() if by_row else plain.ccol_indices()
            inner = plain.col_indices() if by_row else plain.row_indices()
            parts = ", ".join(map(self._plain, (outer, inner, plain.values())))
            return (
                f"torch.sparse_compressed_tensor({parts}, {tuple(plain.shape)}, layout={tensor.layout}, "
                "check_invariants=False)"
            )
        if tensor.layout is not torch.strided:
            raise Unwritable(f"a tensor of layout {tensor.layout} has no literal here")
        conj, neg = tensor.is_conj(), tensor.is_neg()
        if conj:
            plain = plain.conj()
        if neg:
            plain = torch._neg_view(plain)
        text = self._strided(plain)
        if conj:
            text += ".conj()"
        return f"torch._neg_view({text})" if neg else text

    def _numbers(self, plain: torch.Tensor) -> str:
        """Numbers in memory; where they are to be placed on a device is said here."""
        text = numbers(plain)
        return f"{text}.to({self.device})" if self.device else text

    def _strided(self, plain: torch.Tensor) -> str:
        storage = plain.untyped_storage()
        alone = self._uses.get(storage._cdata, 1) == 1
        full = storage.nbytes() == plain.numel() * plain.itemsize
        if alone and full and plain.is_contiguous() and plain.storage_offset() == 0:
            return self._numbers(plain)
        if storage.nbytes() % plain.itemsize:
            raise Unwritable("a tensor over memory that is not a whole number of its elements has no literal")
        key = storage._cdata
        base = self._bases.get(key)
        flat = torch.empty(0, dtype=plain.dtype)
        flat.set_(storage, 0, (storage.nbytes() // plain.itemsize,), (1,))
        if base is None:
            base = self._bases[key] = self.collector.fresh("memory")
            self._alive.append(plain)
            self.statements.append(f"{base} = {self._numbers(flat)}")
        same = f"torch.as_strided({base}, {tuple(plain.shape)}, {plain.stride()}, {plain.storage_offset()})"
        return same

    # Everything else

    def _tuple(self, value: Any) -> str:
        inner = ", ".join(map(self.write, value))
        if hasattr(value, "_fields"):
            return f"{self._callable(type(value))}({inner})"
        if hasattr(value, "n_fields"):
            return f"torch.return_types.{type(value).__name__}([{inner}])"
        return f"({inner},)" if len(value) == 1 else f"({inner})"

    def _enum(self, value: Any) -> str:
        return f"{self._callable(type(value))}.{value.name}"

    def _callable(self, value: Any) -> str:
        if isinstance(value, functools.partial):
            words = [self.write(value.func), *map(self.write, value.args)]
            words += [f"{key}={self.write(item)}" for key, item in value.keywords.items()]
            self.collector.imports.add("import functools")
            return f"functools.partial({', '.join(words)})"
        found = _spelled(value)
        if found is not None:
            if found.split(".")[0] in ("operator", "math"):
                self.collector.imports.add(f"import {found.split('.')[0]}")
            return found
        module = getattr(value, "__module__", None) or ""
        if isinstance(value, types.MethodType):
            return f"{self.write(value.__self__)}.{value.__name__}"
        if self.collector.is_inlined(module):
            if isinstance(value, type):
                return self.collector.require(module, value.__qualname__)
            wrapped = inspect.unwrap(value)
            if isinstance(wrapped, types.FunctionType):
                if wrapped is not value and "<locals>" not in value.__qualname__:
                    return self.collector.require(module, value.__qualname__)
                plain = value if isinstance(value, types.FunctionType) else wrapped
                return self.collector.function(plain, self.write)
        elif module and "<" not in getattr(value, "__qualname__", "<"):
            root = value.__qualname__.split(".")[0]
            self.collector.imports.add(f"from {module} import {root}")
            return str(value.__qualname__)
        raise Unwritable(f"{value!r} cannot be spelled")

    def _object(self, value: Any) -> str:
        kind = type(value)
        if (
            dataclasses.is_dataclass(kind)
            and self.collector.is_inlined(kind.__module__)
            and self.attributes is None
        ):
            words = [
                f"{field.name}={self.write(getattr(value, field.name))}"
                for field in dataclasses.fields(kind)
                if field.init
            ]
            return f"{self.collector.require(kind.__module__, kind.__qualname__)}({', '.join(words)})"
        if isinstance(value, torch.nn.Module):
            raise Unwritable(f"a module {kind.__name__} has no literal here")
        return self.record(value)

    def record(self, value: Any) -> str:
        """An object of a class of the same name with those attributes that the code reads."""
        wanted = self.attributes or set()
        words: list[str] = []
        for name in sorted(wanted):
            if name.startswith("__"):
                continue
            try:
                method = inspect.getattr_static(type(value), name, None)
                if isinstance(method, types.FunctionType) and name not in vars(value):
                    continue
                words.append(f"{name}={self.write(getattr(value, name))}")
            except (AttributeError, Unwritable):
                continue
        self.collector.imports.add("import types")
        return f"type({type(value).__name__!r}, (types.SimpleNamespace,), {{}})({', '.join(words)})"


def numbers(tensor: torch.Tensor) -> str:
    """A contiguous CPU tensor, by numbers where they are few, else by its bytes."""
    dtype, shape = tensor.dtype, tuple(tensor.shape)
    if tensor.numel() == 0:
        return f"torch.empty({shape}, dtype={dtype})"
    wide = _THROUGH.get(dtype)
    if tensor.numel() > 4 and wide is None and not dtype.is_complex:
        first = tensor.flatten()[0]
        if bool((tensor == first).all()) and not bool(tensor.is_floating_point() and (first == 0)):
            return f"torch.full({shape}, {_listed(first.item())}, dtype={dtype})"
    if tensor.numel() <= READABLE:
        values = tensor if wide is None else tensor.to(wide)
        if wide is not None:
            return f"torch.tensor({_listed(values.tolist())}, dtype={wide}).to({dtype})"
        return f"torch.tensor({_listed(values.tolist())}, dtype={dtype})"
    from conformance.samples.operators import bits

    data = bits(tensor.clone())
    if len(data) > LARGEST:
        raise Unwritable(f"a tensor of {len(data)} bytes is too large for a snippet")
    text = base64.b85encode(zlib.compress(data, 9)).decode()
    return (
        f"torch.frombuffer(bytearray(zlib.decompress(base64.b85decode({text!r}))), "
        f"dtype={dtype}).reshape({shape})"
    )


def _listed(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_listed, value))}]"
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    return _number(value) if isinstance(value, float) else repr(value)


def _number(value: float) -> str:
    if math.isnan(value):
        return "math.nan"
    if math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    return repr(value)


def _is_fake(tensor: torch.Tensor) -> bool:
    return type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")


@functools.cache
def _names() -> dict[int, tuple[str, Any]]:
    found: dict[int, tuple[str, Any]] = {}
    for prefix, place in _NAMED:
        for name in dir(place):
            if name.startswith("_") and prefix != "torch.Tensor":
                continue
            try:
                value = getattr(place, name)
            except Exception:
                continue
            if callable(value) and not isinstance(value, types.ModuleType):
                found.setdefault(id(value), (f"{prefix}.{name}", value))
    return found


def _spelled(value: Any) -> str | None:
    """The public name of a function or class of torch, or of a builtin."""
    known = _names().get(id(value))
    if known is not None and known[1] is value:
        return known[0]
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        if getattr(builtins, name, None) is value:
            return name
        for prefix, place in _NAMED:  # bound methods of C functions are made anew each time
            try:
                if getattr(place, name, None) == value:
                    return f"{prefix}.{name}"
            except Exception:
                continue
    text = str(value)
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return f"torch.ops.{text}"
    return None


def attributes_read(text: str) -> set[str]:
    """Every attribute and every constant word in a source text: what its code may read of an object."""
    import ast

    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)
    return found
