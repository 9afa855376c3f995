"""Device graphs on the CPU: the calls of a capture are recorded below autograd and run again at replay."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.framework import trees
from conformance.samples.dispatched_kernels import is_view, needs_host


def _as_it_is(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


class Recording(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if needs_host(func, args):
            return self.host(func, args, kwargs or {})
        # The tensors in their present state: a later call may change their shape.
        recorded_args = trees.tree_map(_as_it_is, args)
        result = func(*args, **(kwargs or {}))
        if torch.Tag.inplace_view not in func.tags:
            self.calls.append((func, recorded_args, kwargs or {}, trees.tree_map(_as_it_is, result)))
        return result

    def host(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise RuntimeError(
            f"{func} needs the host, which a capture does not wait for; move it out of the graph"
        )


class Graph:
    """A graph with the interface of the target hook ``graph``."""

    recording: type[Recording] = Recording

    def capture_begin(self) -> None:
        self.mode = self.recording()
        self.mode.__enter__()

    def capture_end(self) -> None:
        self.mode.__exit__(None, None, None)

    def replay(self) -> None:
        with torch.no_grad():
            for call in self.mode.calls:
                self.run(*call)

    def run(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Run one call again and write its results into their original memory."""
        if is_view(func) or "empty" in func._schema.name:
            return
        new_result = func(*args, **kwargs)
        for old, new in zip(trees.tensors(result), trees.tensors(new_result), strict=True):
            if old.untyped_storage()._cdata != new.untyped_storage()._cdata and not old._is_zerotensor():
                old.copy_(new)


class Stale(Graph):
    """A graph that replays nothing."""

    def replay(self) -> None:
        pass


class OldInputs(Graph):
    """A graph that computes from copies of the inputs at capture time."""

    def capture_end(self) -> None:
        super().capture_end()
        created_storages = {
            t.untyped_storage()._cdata for call in self.mode.calls for t in trees.tensors(call[3])
        }

        def keep(leaf: Any) -> Any:
            ours = isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in created_storages
            return leaf.clone() if ours else leaf

        self.mode.calls = [(f, trees.tree_map(keep, a), k, r) for f, a, k, r in self.mode.calls]


class DenseInputs(Graph):
    """A graph that treats every input as contiguous."""

    def run(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        def dense(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_contiguous():
                return leaf
            storage = leaf.untyped_storage()
            return torch.empty(0, dtype=leaf.dtype).set_(storage, 0, leaf.shape)

        super().run(func, trees.tree_map(dense, args), kwargs, result)


class Once(Graph):
    """A graph that replays only once."""

    spent = False

    def replay(self) -> None:
        if not self.spent:
            super().replay()
        self.spent = True


class ForwardOnly(Graph):
    """A graph that loses the second half of the capture."""

    def capture_end(self) -> None:
        super().capture_end()
        self.mode.calls = self.mode.calls[: max(1, len(self.mode.calls) // 2)]


class Baked(Graph):
    """A graph with its own generator, which restarts at each replay."""

    def replay(self) -> None:
        state = torch.default_generator.get_state()
        torch.default_generator.manual_seed(3)
        super().replay()
        torch.default_generator.set_state(state)


class _Careless(Recording):
    def host(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if trees.tensors(result):
            self.calls.append((func, args, kwargs, result))
        return result


class Careless(Graph):
    """A graph that depends on shapes and numbers of the capture."""

    recording = _Careless

    def run(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not needs_host(func, args):
            super().run(func, args, kwargs, result)


class _Rude(Recording):
    def host(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise KeyError("shape")


class Rude(Graph):
    """A graph that refuses with arbitrary errors."""

    recording = _Rude
