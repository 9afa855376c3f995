"""Nested arguments and results: tuples, lists and dicts with tensors and other values at their leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

#: Types of most leaves, looked up before anything else is asked of one.
_LEAVES = frozenset({torch.Tensor, type(None), bool, int, float, complex, str, torch.dtype, torch.device})


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same nesting with ``fn`` applied to every leaf; named tuples keep their type."""
    if type(tree) in _LEAVES:
        return fn(tree)
    if isinstance(tree, torch.Size):
        return tree
    if isinstance(tree, tuple):
        items = [tree_map(fn, item) for item in tree]
        if hasattr(tree, "_fields"):
            return type(tree)(*items)
        if hasattr(tree, "n_fields"):  # torch.return_types.*
            return type(tree)(items)
        return tuple(items)
    if isinstance(tree, list):
        return [tree_map(fn, item) for item in tree]
    if isinstance(tree, dict):
        return {key: tree_map(fn, item) for key, item in tree.items()}
    return fn(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """Yield every leaf in order."""
    found: list[Any] = []
    _collect(tree, found)
    return iter(found)


def _collect(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (tuple, list)) or isinstance(tree, torch.Size):
        found.append(tree)
        return
    for item in tree:
        if type(item) in _LEAVES:
            found.append(item)
        else:
            _collect(item, found)


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves, in order."""
    found: list[Any] = []
    _collect(tree, found)
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]


def numel(tree: Any) -> int:
    """Return the number of elements of all tensors together."""
    return sum(tensor.numel() for tensor in tensors(tree))
