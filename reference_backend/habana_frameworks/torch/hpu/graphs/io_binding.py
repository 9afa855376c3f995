"""Replay a captured graph with other tensors in place of the captured tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.fusion.policy import RunCounter

import torch


class BoundGraph:
    """A captured graph that can be replayed with other tensors in place of its inputs.

    Tensors that the graph created and that are neither inputs nor outputs become private memory of the graph.

    Args:
        graph: a graph object of the core, captured and not replayed yet.
        inputs: captured tensors that `run` replaces by its arguments.
        outputs: captured tensors to return. An output that shares memory with an input is returned in the
            memory of the tensor that replaces the input. An output that the graph did not create is returned
            unchanged.
        into_captured: write outputs to the captured tensors instead of new tensors.

    Attributes:
        into_captured: the argument of the same name.
        is_input: for each output, True if it shares memory with an input.
        used: positions of the inputs whose memory the graph uses.

    Raises:
        RuntimeError: a tensor is not dense or not on hpu, or the graph was already replayed.
    """

    def __init__(
        self,
        graph: Any,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        into_captured: bool = False,
    ) -> None:
        self._graph = graph
        self.into_captured = into_captured
        # A capture treats tensors on the host as constants, so only device tensors can be replaced.
        self._on_device = [_is_on_device(tensor) for tensor in inputs]
        inputs = list(itertools.compress(inputs, self._on_device))
        self._fixed = {
            position: tensor for position, tensor in enumerate(outputs) if not _is_on_device(tensor)
        }
        first: dict[int, int] = {}
        self._layouts = [
            _Layout(tensor, first.setdefault(_storage_id(tensor), position))
            for position, tensor in enumerate(inputs)
        ]
        storages = {_storage_id(tensor) for tensor in inputs}
        self.is_input = [_storage_id(tensor) in storages for tensor in outputs]
        self._targets: dict[int, torch.Tensor] = {}
        if into_captured:
            self._targets = {
                position: tensor
                for position, tensor in enumerate(outputs)
                if not self.is_input[position] and position not in self._fixed
            }
        # With `into_captured`, the core receives the captured output tensors as additional inputs at the end.
        device_outputs = [tensor for tensor in outputs if _is_on_device(tensor)]
        self._run_counter = RunCounter(graph)
        graph.set_io_binding([*inputs, *self._targets.values()], device_outputs)
        # If the graph uses an input, `prepare` makes the core release the captured storage of that input, and
        # the use count of the storage falls.
        before = [_storage_use_count(tensor) for tensor in inputs]
        graph.prepare()
        self.used = [
            position
            for position, tensor in enumerate(inputs)
            if _storage_use_count(tensor) < before[position]
        ]

    def run(self, inputs: Sequence[torch.Tensor], asynchronous: bool = False) -> list[torch.Tensor]:
        """Replay the graph.

        Args:
            inputs: one tensor for each captured input, with the same shape and dtype. A tensor with the
                captured layout is used without a copy. A tensor with a different layout is copied, and copied
                back after the replay. If the tensors share memory in another way than the captured inputs,
                all tensors are copied, and tensors that do not share memory are copied back. Tensors on the
                host must be at the same positions as in the capture, and are ignored.
            asynchronous: return before the work is finished.

        Returns:
            One tensor for each output of the graph.

        Raises:
            RuntimeError: the number, shapes, dtypes or devices of the inputs differ from the capture.
        """
        if len(inputs) != len(self._on_device):
            raise RuntimeError(f"this graph takes {len(self._on_device)} tensors and got {len(inputs)}")
        inputs = list(itertools.compress(inputs, self._on_device))
        arguments = [*inputs, *self._targets.values()]
        self._run_counter.run()
        if self._graph.accepts(arguments):
            results: list[torch.Tensor] = self._graph.call(arguments, asynchronous)
        else:
            results = self._run_with_copies(inputs, asynchronous)
        for position, tensor in self._fixed.items():
            results.insert(position, tensor)
        for position, tensor in self._targets.items():
            results[position] = tensor
        return results

    def _run_with_copies(self, inputs: Sequence[torch.Tensor], asynchronous: bool) -> list[torch.Tensor]:
        copies = self._inputs_in_captured_layouts(inputs)
        if copies is None:
            copies = self._copies_of_all(inputs)
        results: list[torch.Tensor] = self._graph.call([*copies, *self._targets.values()], asynchronous)
        owners, groups = (
            [_storage_id(tensor) for tensor in inputs],
            [layout.first for layout in self._layouts],
        )
        for copy, tensor, layout in zip(copies, inputs, self._layouts, strict=True):
            # Copy back, because the graph may have written to the copy. Skip tensors with overlapping
            # elements (torch cannot write them), and tensors that share memory although the captured tensors
            # did not.
            shared = owners.count(_storage_id(tensor)) > 1 and groups.count(layout.first) == 1
            if copy is not tensor and not shared and not torch._debug_has_internal_overlap(tensor):
                tensor.detach().copy_(copy)
        return results

    def _inputs_in_captured_layouts(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """Return the inputs, with copies in place of inputs whose strides or offset differ from the capture.

        Inputs that share memory are not copied. Return None if the graph does not accept the resulting
        tensors. As few inputs as possible are copied: a copy is later copied back to the input, and autograd
            raises an
        error if the input was saved for backward.
        """
        owners = [_storage_id(tensor) for tensor in inputs]
        groups = [layout.first for layout in self._layouts]
        arguments = []
        for position, (layout, tensor) in enumerate(zip(self._layouts, inputs, strict=True)):
            layout.check(position, tensor)
            is_alone = owners.count(owners[position]) == groups.count(layout.first) == 1
            if is_alone and (tensor.stride(), tensor.storage_offset()) != (layout.stride, layout.offset):
                tensor = layout.copy_of(tensor, torch.UntypedStorage(layout.bytes, device=layout.device))
            arguments.append(tensor)
        return arguments if self._graph.accepts([*arguments, *self._targets.values()]) else None

    def _copies_of_all(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        storages: dict[int, torch.UntypedStorage] = {}
        copies = []
        for position, (layout, tensor) in enumerate(zip(self._layouts, inputs, strict=True)):
            layout.check(position, tensor)
            if layout.first != position and not _has_captured_aliasing(layout, self._layouts, tensor, inputs):
                raise RuntimeError(
                    f"input {position} of this graph shared memory with input {layout.first} when it was "
                    "captured, but does not now. Capture a graph for this case."
                )
            if layout.first == position:
                storages[position] = torch.UntypedStorage(layout.bytes, device=layout.device)
            copies.append(layout.copy_of(tensor, storages[layout.first]))
        return copies


class CopyingGraph:
    """A captured graph whose `run` copies other tensors to its inputs; for graphs with collectives.

    Args:
        replay: function that runs the graph on the captured tensors; its argument is `asynchronous`.
        inputs: captured tensors to which `run` copies its arguments.
        outputs: captured tensors to return.
        into_captured: return the captured tensors themselves instead of copies.

    The attributes have the same meaning as the attributes of `BoundGraph`.
    """

    def __init__(
        self,
        replay: Callable[[bool], None],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        into_captured: bool = False,
    ) -> None:
        self._replay = replay
        self._inputs = [tensor.detach() for tensor in inputs]
        self._outputs = [tensor.detach() for tensor in outputs]
        self.into_captured = into_captured
        storages = {_storage_id(tensor) for tensor in inputs}
        self.is_input = [_storage_id(tensor) in storages for tensor in outputs]
        self.used = list(range(len(self._inputs)))
        self._layouts = [_Layout(tensor, position) for position, tensor in enumerate(self._inputs)]

    def run(self, inputs: Sequence[torch.Tensor], asynchronous: bool = False) -> list[torch.Tensor]:
        """Copy tensors to the captured inputs and replay the graph, like `BoundGraph.run`."""
        if len(inputs) != len(self._inputs):
            raise RuntimeError(f"this graph takes {len(self._inputs)} tensors and got {len(inputs)}")
        copied = []
        for position, (captured, tensor) in enumerate(zip(self._inputs, inputs, strict=True)):
            if _is_on_device(captured):
                self._layouts[position].check(position, tensor)
                if _storage_id(captured) != _storage_id(tensor):
                    captured.copy_(tensor.detach())
                    copied.append((captured, tensor))
        self._replay(asynchronous)
        for captured, tensor in copied:  # the graph may have written to the captured tensor
            if not torch._debug_has_internal_overlap(tensor):
                tensor.detach().copy_(captured)
        return [
            captured if self.into_captured or not _is_on_device(captured) else captured.clone()
            for captured in self._outputs
        ]


class _Layout:
    """Metadata of a captured input, from which memory with the same layout can be allocated.

    Attributes:
        first: position of the first input that shares memory with this input; its own position if none does.
    """

    def __init__(self, tensor: torch.Tensor, first: int) -> None:
        self.first = first
        self.dtype, self.shape, self.device = tensor.dtype, tensor.shape, tensor.device
        self.stride, self.offset = tensor.stride(), tensor.storage_offset()
        self.bytes = tensor.untyped_storage().nbytes()
        self.conjugate, self.negative = tensor.is_conj(), tensor.is_neg()

    def check(self, position: int, tensor: torch.Tensor) -> None:
        """Raise RuntimeError if the tensor at this input position has different metadata.

        Raises:
            RuntimeError: shape, dtype or device differs.
        """
        if (tensor.dtype, tensor.shape, tensor.device) != (self.dtype, self.shape, self.device):
            raise RuntimeError(
                f"input {position} of this graph is a {self.dtype} tensor of shape {tuple(self.shape)} on "
                f"{self.device}, but the call passed a {tensor.dtype} tensor of shape {tuple(tensor.shape)} "
                f"on {tensor.device}. Capture a graph for this case."
            )

    def copy_of(self, tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
        """Return a copy of `tensor` in `storage`, with the captured strides and offset."""
        copy = torch.empty(0, dtype=self.dtype, device=self.device)
        copy.set_(storage, self.offset, self.shape, self.stride)
        if self.conjugate:
            copy = copy.conj()
        if self.negative:
            copy = torch._neg_view(copy)
        target = copy
        for dimension, stride in enumerate(self.stride):
            # All elements of an expanded dimension are one element in memory, so copy only the first.
            if stride == 0 and self.shape[dimension] > 1:
                target, tensor = target.narrow(dimension, 0, 1), tensor.narrow(dimension, 0, 1)
        target.copy_(tensor.detach())
        return copy


def _has_captured_aliasing(
    layout: _Layout, layouts: Sequence[_Layout], tensor: torch.Tensor, inputs: Sequence[torch.Tensor]
) -> bool:
    """Return whether a tensor has the captured strides and distance in memory from ``inputs[layout.first]``.

    In the capture, these two inputs shared memory.
    """
    first, captured = inputs[layout.first], layouts[layout.first]
    distance = tensor.storage_offset() * tensor.element_size() - first.storage_offset() * first.element_size()
    before = layout.offset * tensor.element_size() - captured.offset * first.element_size()
    return (
        _storage_id(tensor) == _storage_id(first) and distance == before and tensor.stride() == layout.stride
    )


def _is_on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type == DEVICE_TYPE


def _storage_id(tensor: torch.Tensor) -> int:
    storage: int = tensor.untyped_storage()._cdata
    return storage


def _storage_use_count(tensor: torch.Tensor) -> int:
    return torch._C._storage_Use_Count(_storage_id(tensor))
