"""Nested arguments and results: tuples, lists and dicts with tensors and other values at their leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

#: Types of most leaves, looked up before anything else is asked of one.
_LEAVES = frozenset({torch.Tensor, type(None), bool, int, float, complex, str, torch.dtype, torch.device})


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same nesting with ``fn`` applied to every leaf; named tuples keep their type."""
    kind = type(tree)
    if kind in _LEAVES:
        return fn(tree)
    if kind is tuple:
        return tuple([fn(item) if type(item) in _LEAVES else tree_map(fn, item) for item in tree])
    if kind is dict:
        return {key: fn(item) if type(item) in _LEAVES else tree_map(fn, item) for key, item in tree.items()}
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
    found: list[torch.Tensor] = []
    _collect_tensors(tree, found)
    return found


def _collect_tensors(tree: Any, found: list[torch.Tensor]) -> None:
    """Collect tensors alone, as most questions are about them."""
    kind = type(tree)
    if kind is not tuple and kind is not list:
        if isinstance(tree, torch.Tensor):
            found.append(tree)
            return
        if isinstance(tree, dict):
            tree = tree.values()
        elif not isinstance(tree, (tuple, list)) or isinstance(tree, torch.Size):
            return
    for item in tree:
        kind = type(item)
        if kind is torch.Tensor:
            found.append(item)
        elif kind not in _LEAVES:
            _collect_tensors(item, found)


def numel(tree: Any) -> int:
    """Return the number of elements of all tensors together."""
    return sum(tensor.numel() for tensor in tensors(tree))
