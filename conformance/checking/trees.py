"""Nested arguments and results: tuples, lists and dicts with tensors and other values at their leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same nesting with ``fn`` applied to every leaf; named tuples keep their type."""
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
    if isinstance(tree, torch.Tensor):
        found.append(tree)
    elif isinstance(tree, (tuple, list)) and not isinstance(tree, torch.Size):
        for item in tree:
            _collect(item, found)
    elif isinstance(tree, dict):
        for item in tree.values():
            _collect(item, found)
    else:
        found.append(tree)


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves, in order."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def numel(tree: Any) -> int:
    """Return the number of elements of all tensors together."""
    return sum(tensor.numel() for tensor in tensors(tree))
