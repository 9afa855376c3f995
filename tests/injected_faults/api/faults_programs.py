"""Devices and graphs with one fault each, for the properties of random programs. Faulty compile backends are
in ``broken_compile_backends``.

Each device is a subclass of torch.Tensor on the CPU. On the device side of a check, the inputs have this
class. On the CPU side they are plain tensors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tests.support import fake_graph


class CorrectDeviceTensor(torch.Tensor):
    """A tensor of a correct device. Subclasses add one fault each."""

    #: Number of calls of ``mark_step`` since the program began.
    marks: ClassVar[int] = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            args = (cls.write_destination(name, args[0]), *args[1:])
        elif "out" in kwargs:
            kwargs = {**kwargs, "out": cls.write_destination("out", kwargs["out"])}
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def write_destination(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor that receives a write to ``tensor``."""
        return tensor


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.clone().as_subclass(type(tensor))


class WritesToCopiesOfViews(CorrectDeviceTensor):
    """A device that writes an in-place change of a view to a copy of the view, so that the base
    is unchanged.
    """

    @classmethod
    def write_destination(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor) if name != "out" and tensor._is_view() else tensor


class DoesNotWriteStridedOut(CorrectDeviceTensor):
    """A device that does not write the result into a strided ``out=``."""

    @classmethod
    def write_destination(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor) if name == "out" and not tensor.is_contiguous() else tensor


class FillIgnoresViewOffset(CorrectDeviceTensor):
    """A device that ignores the offset of a view when it fills the view."""

    @classmethod
    def write_destination(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name in ("fill_", "zero_", "copy_", "masked_fill_"):
            return tensor.as_strided(tensor.shape, tensor.stride(), 0)
        return tensor


class ViewsLoseBaseAfterMarkStep(CorrectDeviceTensor):
    """A device on which views lose their base after the first ``mark_step``."""

    @classmethod
    def write_destination(cls, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor) if CorrectDeviceTensor.marks and tensor._is_view() else tensor


def mark_step() -> None:
    """Count the end of a step. This is the target's hook ``mark_step``, which checks call in lazy mode."""
    CorrectDeviceTensor.marks += 1


class GraphOmitsLastWrite(fake_graph.Graph):
    """A graph that omits the last in-place write from every replay."""

    def capture_end(self) -> None:
        super().capture_end()
        calls = self.mode.calls
        for call_index in reversed(range(len(calls))):
            if calls[call_index][0]._schema.name.endswith("_"):
                del calls[call_index]
                return
