"""Devices and graphs with one fault each, for the properties of programs; the backends are ``compilers``.

A device of this file is the CPU with tensors of a class of its own, which the CPU's side of a check never
meets.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tests.support import fake_graph


class Sound(torch.Tensor):
    """A tensor of a device without a fault."""

    #: Step markers since the program began.
    marks: ClassVar[int] = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            args = (cls.target(name, args[0]), *args[1:])
        elif "out" in kwargs:
            kwargs = {**kwargs, "out": cls.target("out", kwargs["out"])}
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def target(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor to which a write goes that is due in ``tensor``."""
        return tensor


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.clone().as_subclass(type(tensor))


class CopiesViews(Sound):
    """Writes in place to a copy of a view."""

    @classmethod
    def target(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor) if name != "out" and tensor._is_view() else tensor


class LosesOut(Sound):
    """Writes what is due in a strided ``out=`` elsewhere."""

    @classmethod
    def target(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor) if name == "out" and not tensor.is_contiguous() else tensor


class WritesAtOffsetZero(Sound):
    """Takes the offset of a view for zero when it fills."""

    @classmethod
    def target(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name in ("fill_", "zero_", "copy_", "masked_fill_"):
            return tensor.as_strided(tensor.shape, tensor.stride(), 0)
        return tensor


class ForgetsAliases(Sound):
    """Holds views apart from their base once a step has ended."""

    @classmethod
    def target(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor) if Sound.marks and tensor._is_view() else tensor


def mark_step() -> None:
    """Count a step marker."""
    Sound.marks += 1


class LosesTheLastWrite(fake_graph.Graph):
    """Leaves the last write in place out of every replay."""

    def capture_end(self) -> None:
        super().capture_end()
        calls = self.mode.calls
        for place in reversed(range(len(calls))):
            if calls[place][0]._schema.name.endswith("_"):
                del calls[place]
                return
