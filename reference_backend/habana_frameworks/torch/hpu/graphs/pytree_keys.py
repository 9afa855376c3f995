"""Extract tensors from nested values, rebuild nested values, and compute cache keys of captured graphs.

Containers are lists, tuples, named tuples, dictionaries and their subclasses (such as the output classes of
model libraries), and dataclasses. Everything else is a leaf.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch

Leaf = Callable[[Any], Any]


#: Types of leaves that contain no tensors.
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    enum.Enum,
    torch.Size,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    types.FunctionType,
    types.BuiltinFunctionType,
)


class Uncacheable(Exception):
    """Error: a value cannot be part of the cache key of a captured graph."""


def map_leaves(value: Any, function: Leaf) -> Any:
    """Return a copy of a nested value, with ``function(x)`` in place of each leaf x."""
    if isinstance(value, dict):
        return _rebuild_dict(value, function)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_leaves(item, function) for item in value))
    if _is_sequence(value):
        return type(value)([map_leaves(item, function) for item in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        result = copy.copy(value)
        for field in dataclasses.fields(value):
            # object.__setattr__ also works for frozen dataclasses. The copy is not yet visible to other code.
            object.__setattr__(result, field.name, map_leaves(getattr(value, field.name), function))
        return result
    return function(value)


def _is_sequence(value: Any) -> bool:
    """Return True for lists, tuples, named tuples and result types of operators (`torch.return_types`)."""
    kind = type(value)
    return kind in (list, tuple) or (
        isinstance(value, tuple) and (hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields"))
    )


def _rebuild_dict(value: dict[Any, Any], function: Leaf) -> Any:
    rebuilt = {key: map_leaves(item, function) for key, item in value.items()}
    if type(value) is dict:
        return rebuilt
    # A subclass of dict may have more state than its items, such as attributes or a default factory.
    result = copy.copy(value)
    for key, item in rebuilt.items():
        result[key] = item
    return result


def leaves(value: Any) -> Iterator[Any]:
    """Return the leaves of a nested value, in order."""
    collected: list[Any] = []
    map_leaves(value, collected.append)
    return iter(collected)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves of a nested value, in order."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def replace_tensors(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return a copy of a nested value with other tensors, in the order of `tensors_of`."""
    remaining = iter(tensors)
    return map_leaves(value, lambda leaf: next(remaining) if isinstance(leaf, torch.Tensor) else leaf)


@dataclasses.dataclass(frozen=True)
class Structure:
    """A nested value with placeholders in place of its tensors; ``count`` is the number of tensors."""

    value: Any
    count: int


class TensorPacker:
    """Object that takes nested values apart into tensors and structure, and puts them together again.

    Args:
        is_out_pack: the values are results of a module, not arguments. Accepted for compatibility; both are
            treated in the same way.
        verbose: print the structure when a value is packed.
    """

    def __init__(self, is_out_pack: bool = False, verbose: bool = False) -> None:
        self.is_out_pack = is_out_pack
        self.verbose = verbose
        self._last: Structure | None = None

    def pack(self, value: Any) -> tuple[tuple[torch.Tensor, ...], Structure]:
        """Return the tensors of `value` in order, and its structure, which `unpack` then uses by default."""
        tensors = tuple(tensors_of(value))
        # The structure has placeholders for the tensors, so that it does not retain their memory.
        self._last = Structure(replace_tensors(value, [torch.empty(0)] * len(tensors)), len(tensors))
        if self.verbose:
            print(f"{type(self).__name__}: {len(tensors)} tensors in {describe(value)}")
        return tensors, self._last

    def unpack(self, tensors: Sequence[torch.Tensor], metadata: Structure | None = None) -> Any:
        """Return a nested value with the structure of a packed value and the given tensors.

        Args:
            tensors: as many tensors as the packed value had.
            metadata: the structure that `pack` returned; by default the structure of the last packed value.

        Raises:
            RuntimeError: nothing was packed.
            ValueError: the number of tensors differs from the packed value.
        """
        structure = self._last if metadata is None else metadata
        if structure is None:
            raise RuntimeError("this TensorPacker has no structure to unpack into. Call pack first.")
        if len(tensors) != structure.count:
            raise ValueError(f"{len(tensors)} tensors do not fit a structure of {structure.count} tensors")
        return replace_tensors(structure.value, list(tensors))


def describe(value: Any) -> str:
    """Return a nested value as text, with dtype and shape in place of each tensor."""

    def leaf(item: Any) -> Any:
        return f"{item.dtype}{list(item.shape)}" if isinstance(item, torch.Tensor) else item

    return repr(map_leaves(value, leaf))


def input_key(value: Any) -> tuple[Hashable, ...]:
    """Return a cache key of nested arguments: two calls with equal keys can use one captured graph.

    The key contains the structure, the values of leaves that are not tensors, and the state of autocast. For
    a device tensor, it contains shape, strides, dtype, ``requires_grad``, and conjugate and negative bits. If
    the tensor shares memory with an earlier tensor, the key contains the positions of both in this memory.
    For a CPU tensor with one element, the key contains the value, because a capture treats the value as a
    constant.

    Raises:
        Uncacheable: a leaf has a type that may contain tensors, or is a CPU tensor that does not have exactly
            one element.
    """
    parts: list[Hashable] = [
        torch.is_autocast_enabled(DEVICE_TYPE),
        torch.get_autocast_dtype(DEVICE_TYPE),
        torch.is_inference_mode_enabled(),
    ]
    storages: dict[int, tuple[int, int | torch.SymInt]] = {}
    _add_structure(value, parts)
    for leaf in leaves(value):
        parts.append(_tensor_key(leaf, storages) if isinstance(leaf, torch.Tensor) else _value_key(leaf))
    return tuple(parts)


def input_hash(value: Any) -> int:
    """Return the hash of `input_key`, for programs that manage their own cache of graphs.

    Raises:
        Uncacheable: as for `input_key`.
    """
    return hash(input_key(value))


def copy_to(destination: Any, source: Any) -> None:
    """Copy the tensors of one nested value to the tensors of another value of the same structure.

    Raises:
        ValueError: the values have different numbers of tensors.
    """
    targets, values = tensors_of(destination), tensors_of(source)
    if len(targets) != len(values):
        raise ValueError(
            f"{len(values)} tensors cannot be copied to {len(targets)} tensors. Pass values of the same "
            "structure."
        )
    for target, tensor in zip(targets, values, strict=True):
        if target is not tensor:
            target.copy_(tensor, non_blocking=True)


def _add_structure(value: Any, parts: list[Hashable]) -> None:
    if isinstance(value, dict):
        parts.append((type(value), tuple(value)))
        children: Any = value.values()
    elif _is_sequence(value):
        parts.append((type(value), len(value)))
        children = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts.append(type(value))
        children = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        # Without the text "leaf", [a, [b]] and [[a], b] would have the same key.
        parts.append("leaf")
        return
    for child in children:
        _add_structure(child, parts)


def _tensor_key(tensor: torch.Tensor, storages: dict[int, tuple[int, int | torch.SymInt]]) -> Hashable:
    if tensor.device.type != DEVICE_TYPE:
        if tensor.numel() != 1:
            raise Uncacheable(
                f"a tensor of shape {tuple(tensor.shape)} on {tensor.device}, whose values would be "
                "constants of the graph"
            )
        return "cpu", tensor.dtype, tuple(tensor.shape), _value_key(tensor.item())
    if tensor.layout != torch.strided:
        raise Uncacheable(f"a tensor of layout {tensor.layout}, which does not have a single storage")
    start = tensor.storage_offset() * tensor.element_size()
    storage = tensor.untyped_storage()._cdata
    alias: Hashable = None
    if storage in storages:
        position, first_start = storages[storage]
        # A replay replaces memory that inputs share as a whole, so the offsets in this memory must agree.
        alias = position, first_start, start
    else:
        storages[storage] = len(storages), start
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.requires_grad,
        alias,
    )


def require_supported_leaf_types(value: Any) -> None:
    """Raise Uncacheable unless each leaf is a tensor or of a type that contains no tensors.

    Raises:
        Uncacheable: a leaf has an unknown type. If the type contains tensors, a replay would not update them.
    """
    for leaf in leaves(value):
        if not isinstance(leaf, (torch.Tensor, *_PLAIN)):
            raise Uncacheable(f"a {type(leaf).__name__}, which may contain tensors")


def _value_key(value: Any) -> Hashable:
    if isinstance(value, float):
        # Unlike ==, hex() distinguishes 0.0 from -0.0, and returns the same text for every NaN.
        return "float", value.hex()
    require_supported_leaf_types(value)
    # The type is part of the key because True == 1, but a graph captured for True is wrong for 1.
    return type(value), value
