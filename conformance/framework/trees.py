"""Iterate over and map nested arguments and results: tuples, lists and dicts whose leaves are tensors and
other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

#: The types of most leaves. Testing for these types first is faster.
_LEAVES = frozenset({torch.Tensor, type(None), bool, int, float, complex, str, torch.dtype, torch.device})


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree with the same nesting, in which ``fn`` was applied to every leaf. Named tuples keep their
    type.
    """
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
    """Return an iterator over all leaves, in order."""
    collected: list[Any] = []
    _collect(tree, collected)
    return iter(collected)


def _collect(tree: Any, collected: list[Any]) -> None:
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (tuple, list)) or isinstance(tree, torch.Size):
        collected.append(tree)
        return
    for item in tree:
        if type(item) in _LEAVES:
            collected.append(item)
        else:
            _collect(item, collected)


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors among the leaves, in order."""
    collected: list[torch.Tensor] = []
    _collect_tensors(tree, collected)
    return collected


def _collect_tensors(tree: Any, collected: list[torch.Tensor]) -> None:
    """Append the tensors among the leaves of ``tree`` to ``collected``."""
    kind = type(tree)
    if kind is not tuple and kind is not list:
        if isinstance(tree, torch.Tensor):
            collected.append(tree)
            return
        if isinstance(tree, dict):
            tree = tree.values()
        elif not isinstance(tree, (tuple, list)) or isinstance(tree, torch.Size):
            return
    for item in tree:
        kind = type(item)
        if kind is torch.Tensor:
            collected.append(item)
        elif kind not in _LEAVES:
            _collect_tensors(item, collected)


def numel(tree: Any) -> int:
    """Return the total number of elements of all tensors."""
    return sum(tensor.numel() for tensor in tensors(tree))
