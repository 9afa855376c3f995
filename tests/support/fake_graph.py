"""Device graphs on the CPU: what a capture would hold is recorded below autograd, and run again on replay."""

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
        # Tensors as they are now: a call may give one of them another shape later.
        held = trees.tree_map(_as_it_is, args)
        result = func(*args, **(kwargs or {}))
        if torch.Tag.inplace_view not in func.tags:
            self.calls.append((func, held, kwargs or {}, trees.tree_map(_as_it_is, result)))
        return result

    def host(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise RuntimeError(
            f"{func} needs the host, which a capture does not wait for; move it out of the graph"
        )


class Graph:
    """A graph as a target's hook ``graph`` returns it."""

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
        """Run one call again, its results into the memory that they had."""
        if is_view(func) or "empty" in func._schema.name:
            return
        again = func(*args, **kwargs)
        for old, new in zip(trees.tensors(result), trees.tensors(again), strict=True):
            if old.untyped_storage()._cdata != new.untyped_storage()._cdata and not old._is_zerotensor():
                old.copy_(new)


class Stale(Graph):
    """Replays nothing."""

    def replay(self) -> None:
        pass


class OldInputs(Graph):
    """Keeps copies of what the inputs held at capture, and computes from those."""

    def capture_end(self) -> None:
        super().capture_end()
        made = {t.untyped_storage()._cdata for call in self.mode.calls for t in trees.tensors(call[3])}

        def keep(leaf: Any) -> Any:
            ours = isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in made
            return leaf.clone() if ours else leaf

        self.mode.calls = [(f, trees.tree_map(keep, a), k, r) for f, a, k, r in self.mode.calls]


class DenseInputs(Graph):
    """Takes every input for contiguous."""

    def run(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        def dense(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_contiguous():
                return leaf
            storage = leaf.untyped_storage()
            return torch.empty(0, dtype=leaf.dtype).set_(storage, 0, leaf.shape)

        super().run(func, trees.tree_map(dense, args), kwargs, result)


class Once(Graph):
    """Replays only the first time."""

    spent = False

    def replay(self) -> None:
        if not self.spent:
            super().replay()
        self.spent = True


class ForwardOnly(Graph):
    """Forgets the second half of what was captured."""

    def capture_end(self) -> None:
        super().capture_end()
        self.mode.calls = self.mode.calls[: max(1, len(self.mode.calls) // 2)]


class Baked(Graph):
    """Draws from a generator of its own that starts anew with each replay."""

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
    """Lets shapes and numbers of the capture into the graph."""

    recording = _Careless

    def run(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not needs_host(func, args):
            super().run(func, args, kwargs, result)


class _Rude(Recording):
    def host(self, func: Any, args: Any, kwargs: Any) -> Any:
        raise KeyError("shape")


class Rude(Graph):
    """Refuses with whatever error comes to hand."""

    recording = _Rude
