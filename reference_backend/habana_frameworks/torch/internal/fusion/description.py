"""The description of a recorded graph (`Graph.describe()`) as dataclasses, as JSON text and as a digest."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

# Part of the digest. Increase the version if a change compiles different code from the same description.
VERSION = 3
ROLES = ("input", "output", "temporary", "constant")
_NAMED = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


class NotFusable(Exception):
    """Error for a graph that cannot be compiled to fused code and stays interpreted. The message says why."""


@dataclass(frozen=True)
class Layout:
    """Memory layout of a tensor in its buffer; strides and offset count elements of `dtype`."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def span(self) -> tuple[int, int]:
        """Return the tensor's byte range in its buffer: first byte, and end (not included)."""
        if self.numel == 0:
            return (0, 0)
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return (self.offset * self.dtype.itemsize, (self.offset + last + 1) * self.dtype.itemsize)

    def overlaps(self, layout: Layout) -> bool:
        """Return whether the spans of two layouts intersect. The layouts may still share no element."""
        (first, end), (other_first, other_end) = self.span, layout.span
        return first < other_end and other_first < end


@dataclass(frozen=True)
class TensorRef:
    """A tensor of a call: a buffer and a layout in it."""

    buffer: int
    layout: Layout


@dataclass(frozen=True)
class HostScalar:
    """A 0-dim CPU tensor among the arguments of a call. The graph contains the value, not the tensor."""

    value: bool | int | float | complex
    dtype: torch.dtype


@dataclass(frozen=True)
class Call:
    """One kernel call: operator, arguments in schema order, results, and positions of written arguments."""

    op: str
    args: tuple[Any, ...]
    results: tuple[Any, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True)
class Description:
    """A recorded graph: buffers as (bytes, role), and calls in order."""

    buffers: tuple[tuple[int, str], ...]
    calls: tuple[Call, ...]


def as_dtype(value: Any) -> torch.dtype:
    """Convert a dtype or its name ("float32", "torch.float32") to a torch.dtype.

    Raises:
        NotFusable: the value is neither a dtype nor its name.
    """
    dtype = getattr(torch, value.removeprefix("torch."), None) if isinstance(value, str) else value
    if not isinstance(dtype, torch.dtype):
        raise NotFusable(f"{value!r} is not a dtype")
    return dtype


def _parse_value(value: Any) -> Any:
    if isinstance(value, tuple) and value and value[0] in ("tensor", "cpu", "generator"):
        kind, *fields = value
        if kind == "generator":
            raise NotFusable("a random generator is among the arguments")
        if kind == "cpu":
            return HostScalar(fields[0], as_dtype(fields[1]))
        buffer, dtype, sizes, strides, offset, conj, neg = fields
        if conj or neg:
            raise NotFusable("a tensor has its conjugate or negative bit set")
        return TensorRef(buffer, Layout(as_dtype(dtype), tuple(sizes), tuple(strides), offset))
    if isinstance(value, (list, tuple)):
        return [_parse_value(item) for item in value]
    return value


def parse_description(description: dict[str, Any]) -> Description:
    """Convert the result of `Graph.describe()` to dataclasses.

    Raises:
        NotFusable: the description has a generator, a conjugate or negative bit, an unknown role or an
            unknown dtype.
    """
    buffers = tuple((buffer["bytes"], buffer["role"]) for buffer in description["buffers"])
    for _, role in buffers:
        if role not in ROLES:
            raise NotFusable(f"a buffer has the unknown role {role!r}")
    calls = []
    for call in description["calls"]:
        try:
            args = tuple(_parse_value(value) for value in call["args"])
            results = tuple(_parse_value(value) for value in call["results"])
        except NotFusable as error:
            raise NotFusable(f"{call['op']}: {error}") from None
        calls.append(Call(call["op"], args, results, tuple(call["writes"])))
    return Description(buffers, tuple(calls))


def tensor_refs(value: Any) -> Iterator[TensorRef]:
    """Yield all tensors in an argument, including tensors in nested lists."""
    if isinstance(value, TensorRef):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensor_refs(item)


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": {key: _encode(item) for key, item in value.items()}}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, name in _NAMED.items():
        if isinstance(value, kind):
            return {name: str(value).removeprefix("torch.")}
    raise NotFusable(f"an argument of type {type(value).__name__} cannot be written to a file")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decode(item) for item in content)
    if kind == "dict":
        return {key: _decode(item) for key, item in content.items()}
    if kind == "complex":
        return complex(*content)
    return torch.device(content) if kind == "device" else getattr(torch, content)


def dumps(description: dict[str, Any]) -> str:
    """Convert a description to JSON text.

    Raises:
        NotFusable: an argument has a type that cannot be written as JSON.
    """
    return json.dumps(_encode(description), sort_keys=True)


def loads(text: str) -> dict[str, Any]:
    """Convert the text of `dumps` back to a description."""
    description: dict[str, Any] = _decode(json.loads(text))
    return description


@functools.cache
def _torch_and_processor_text() -> str:
    """Return text that identifies the torch build and the processor for which code is compiled."""
    flags = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    abi = torch._C._GLIBCXX_USE_CXX11_ABI
    return f"{VERSION} {torch.__version__} {torch.version.git_version} {abi} {platform.machine()} {flags}"


def digest_of(text: str) -> str:
    """Return a digest (32 hex digits) of a description's JSON text, the torch build and the processor."""
    return hashlib.sha256(f"{_torch_and_processor_text()}\n{text}".encode()).hexdigest()[:32]
