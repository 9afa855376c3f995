"""Fake device graphs on the CPU, and variants with one fault each. A graph records the operator calls of a
capture below autograd, and runs the calls again at each replay.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.framework import trees
from conformance.samples.dispatched_kernels import needs_values_on_host, returns_view


def _detached_if_tensor(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


class RecordCalls(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if needs_values_on_host(func, args):
            return self.call_needing_host(func, args, kwargs or {})
        # Record detached tensors, because a later call may change the shape of the originals.
        recorded_args = trees.tree_map(_detached_if_tensor, args)
        result = func(*args, **(kwargs or {}))
        if torch.Tag.inplace_view not in func.tags:
            self.calls.append(
                (func, recorded_args, kwargs or {}, trees.tree_map(_detached_if_tensor, result))
            )
        return result

    def call_needing_host(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise RuntimeError(
            f"{func} needs values on the host, for which a capture does not wait. "
            "Move the call out of the graph."
        )


class Graph:
    """A correct graph, with the interface that the target hook ``graph`` requires."""

    recording: type[RecordCalls] = RecordCalls

    def capture_begin(self) -> None:
        self.mode = self.recording()
        self.mode.__enter__()

    def capture_end(self) -> None:
        self.mode.__exit__(None, None, None)

    def replay(self) -> None:
        with torch.no_grad():
            for call in self.mode.calls:
                self.run_call(*call)

    def run_call(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Run one call again and write its results into the memory of the results of the capture."""
        if returns_view(func) or "empty" in func._schema.name:
            return
        new_result = func(*args, **kwargs)
        for old, new in zip(trees.tensors(result), trees.tensors(new_result), strict=True):
            if old.untyped_storage()._cdata != new.untyped_storage()._cdata and not old._is_zerotensor():
                old.copy_(new)


class ReplayDoesNothing(Graph):
    """A graph whose replay does nothing."""

    def replay(self) -> None:
        pass


class UsesInputsOfCapture(Graph):
    """A graph that computes from copies of the inputs at capture time."""

    def capture_end(self) -> None:
        super().capture_end()
        created_storages = {
            t.untyped_storage()._cdata for call in self.mode.calls for t in trees.tensors(call[3])
        }

        def copy_if_input(leaf: Any) -> Any:
            ours = isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in created_storages
            return leaf.clone() if ours else leaf

        self.mode.calls = [(f, trees.tree_map(copy_if_input, a), k, r) for f, a, k, r in self.mode.calls]


class ReadsInputsAsDense(Graph):
    """A graph that reads every input as if it were contiguous with storage offset 0."""

    def run_call(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        def as_contiguous(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_contiguous():
                return leaf
            storage = leaf.untyped_storage()
            return torch.empty(0, dtype=leaf.dtype).set_(storage, 0, leaf.shape)

        super().run_call(func, trees.tree_map(as_contiguous, args), kwargs, result)


class ReplaysOnlyOnce(Graph):
    """A graph whose replays after the first do nothing."""

    spent = False

    def replay(self) -> None:
        if not self.spent:
            super().replay()
        self.spent = True


class DropsSecondHalf(Graph):
    """A graph that drops the second half of the captured calls."""

    def capture_end(self) -> None:
        super().capture_end()
        self.mode.calls = self.mode.calls[: max(1, len(self.mode.calls) // 2)]


class RepeatsRandomNumbers(Graph):
    """A graph that draws the same random numbers at each replay."""

    def replay(self) -> None:
        state = torch.default_generator.get_state()
        torch.default_generator.manual_seed(3)
        super().replay()
        torch.default_generator.set_state(state)


class _AcceptsHostValuesRecording(RecordCalls):
    def call_needing_host(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if trees.tensors(result):
            self.calls.append((func, args, kwargs, result))
        return result


class AcceptsHostValues(Graph):
    """A graph that accepts calls which need values on the host. Each replay reuses the results that these
    calls returned during the capture.
    """

    recording = _AcceptsHostValuesRecording

    def run_call(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not needs_values_on_host(func, args):
            super().run_call(func, args, kwargs, result)


class _WrongErrorTypeRecording(RecordCalls):
    def call_needing_host(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise KeyError("shape")


class WrongErrorType(Graph):
    """A graph that raises KeyError, and not a clean refusal, for calls that need values on the host."""

    recording = _WrongErrorTypeRecording
