"""Define two wrapper subclasses of ``torch.Tensor`` that AOTAutograd can unwrap: ``PairOfTensors`` holds two
tensors, and ``TensorWithNote`` holds a tensor and a number.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map


def _make_wrapper_like(cls: Any, inner: torch.Tensor) -> Any:
    return torch.Tensor._make_wrapper_subclass(
        cls,
        inner.size(),
        strides=inner.stride(),
        storage_offset=inner.storage_offset(),
        dtype=inner.dtype,
        device=inner.device,
        requires_grad=inner.requires_grad,
    )


class PairOfTensors(torch.Tensor):
    """A subclass with two inner tensors. Every operator is applied to both inner tensors."""

    left: torch.Tensor
    right: torch.Tensor

    @staticmethod
    def __new__(cls, left: torch.Tensor, right: torch.Tensor) -> Any:
        """Return a pair with the metadata of the left tensor."""
        pair = _make_wrapper_like(cls, left)
        pair.left, pair.right = left, right
        return pair

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"PairOfTensors({self.left!r}, {self.right!r})"

    def __tensor_flatten__(self) -> Any:
        return ["left", "right"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> PairOfTensors:
        return PairOfTensors(inner["left"], inner["right"])  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if any(kind is TensorWithNote for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        halves = []
        for side in ("left", "right"):
            inner_arguments = tree_map(
                lambda t, side=side: getattr(t, side) if isinstance(t, PairOfTensors) else t, (args, kwargs)
            )
            halves.append(function(*inner_arguments[0], **inner_arguments[1]))
        result = tree_map(
            lambda left, right: PairOfTensors(left, right) if isinstance(left, torch.Tensor) else left,
            *halves,
        )
        return return_and_correct_aliasing(function, args, kwargs, result)


class TensorWithNote(torch.Tensor):
    """A subclass with one inner tensor and a number, the note. Every result has the note of one of the call's
    arguments.
    """

    inner: torch.Tensor  # type: ignore[assignment]
    note: int

    @staticmethod
    def __new__(cls, inner: torch.Tensor, note: int) -> Any:
        """Return a tensor with a note and the metadata of the inner tensor."""
        noted = _make_wrapper_like(cls, inner)
        noted.inner, noted.note = inner, note
        return noted

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"TensorWithNote({self.inner!r}, {self.note})"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], self.note

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> TensorWithNote:
        return TensorWithNote(inner["inner"], context)  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        note = next(
            leaf.note
            for leaf in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(leaf, TensorWithNote)
        )
        inner_arguments = tree_map(lambda t: t.inner if isinstance(t, TensorWithNote) else t, (args, kwargs))
        inner_result = function(*inner_arguments[0], **inner_arguments[1])
        result = tree_map(
            lambda t: TensorWithNote(t, note) if isinstance(t, torch.Tensor) else t, inner_result
        )
        return return_and_correct_aliasing(function, args, kwargs, result)


def subclasses_as_lists(value: Any) -> Any:
    """Return a tree in which each ``PairOfTensors`` and ``TensorWithNote`` is replaced by a list. The list
    contains the class name, the note of a ``TensorWithNote``, and the inner tensors.
    """
    if isinstance(value, PairOfTensors):
        return ["PairOfTensors", subclasses_as_lists(value.left), subclasses_as_lists(value.right)]
    if isinstance(value, TensorWithNote):
        return ["TensorWithNote", value.note, subclasses_as_lists(value.inner)]
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [subclasses_as_lists(entry) for entry in value]
    return value
