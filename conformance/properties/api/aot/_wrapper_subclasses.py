"""Subclasses of tensors that ahead-of-time traces take apart: a pair, and one with a note."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map


def _shell(cls: Any, inner: torch.Tensor) -> Any:
    return torch.Tensor._make_wrapper_subclass(
        cls,
        inner.size(),
        strides=inner.stride(),
        storage_offset=inner.storage_offset(),
        dtype=inner.dtype,
        device=inner.device,
        requires_grad=inner.requires_grad,
    )


class Pair(torch.Tensor):
    """Two tensors that every operator is applied to."""

    left: torch.Tensor
    right: torch.Tensor

    @staticmethod
    def __new__(cls, left: torch.Tensor, right: torch.Tensor) -> Any:
        """Make a pair with the metadata of its left half."""
        pair = _shell(cls, left)
        pair.left, pair.right = left, right
        return pair

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"Pair({self.left!r}, {self.right!r})"

    def __tensor_flatten__(self) -> Any:
        return ["left", "right"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Pair:
        return Pair(inner["left"], inner["right"])  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if any(kind is Noted for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        halves = []
        for side in ("left", "right"):
            plain = tree_map(
                lambda t, side=side: getattr(t, side) if isinstance(t, Pair) else t, (args, kwargs)
            )
            halves.append(function(*plain[0], **plain[1]))
        result = tree_map(
            lambda left, right: Pair(left, right) if isinstance(left, torch.Tensor) else left, *halves
        )
        return return_and_correct_aliasing(function, args, kwargs, result)


class Noted(torch.Tensor):
    """A tensor with a number that every result keeps."""

    inner: torch.Tensor  # type: ignore[assignment]
    note: int

    @staticmethod
    def __new__(cls, inner: torch.Tensor, note: int) -> Any:
        """Make one with the metadata of what it holds."""
        noted = _shell(cls, inner)
        noted.inner, noted.note = inner, note
        return noted

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"Noted({self.inner!r}, {self.note})"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], self.note

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Noted:
        return Noted(inner["inner"], context)  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        note = next(
            leaf.note for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Noted)
        )
        plain = tree_map(lambda t: t.inner if isinstance(t, Noted) else t, (args, kwargs))
        found = function(*plain[0], **plain[1])
        result = tree_map(lambda t: Noted(t, note) if isinstance(t, torch.Tensor) else t, found)
        return return_and_correct_aliasing(function, args, kwargs, result)


def parts(value: Any) -> Any:
    """Return what a tree of such tensors holds: kinds, notes and plain tensors."""
    if isinstance(value, Pair):
        return ["Pair", parts(value.left), parts(value.right)]
    if isinstance(value, Noted):
        return ["Noted", value.note, parts(value.inner)]
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [parts(entry) for entry in value]
    return value
