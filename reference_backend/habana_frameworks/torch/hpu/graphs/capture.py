"""Capture and replay device work: `HPUGraph` and the context manager `graph`.

A graph contains the calls between `capture_begin` and `capture_end` and the memory that they used. A replay
reads and writes the captured tensors. Random operators draw new numbers at each replay.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from habana_frameworks.torch import _C
from habana_frameworks.torch.hpu import devices, flags, streams
from habana_frameworks.torch.internal import graph_dumps
from habana_frameworks.torch.internal.fusion.policy import RunCounter
from habana_frameworks.torch.internal.settings.environment import read_variable

import torch

from .io_binding import BoundGraph, CopyingGraph
from .pytree_keys import copy_to, tensors_of

_names = itertools.count()

#: Graphs that are being captured and may contain collectives; several, if several threads capture.
_capturing_graphs: list[HPUGraph] = []
_open_lock = threading.Lock()


def is_current_stream_capturing() -> bool:
    """Return whether work on the current stream is being captured."""
    return bool(_C.is_capturing())


class HPUGraph:
    """A captured sequence of device work that can be replayed.

    A graph can be captured once; `reset` empties the graph for a new capture. A capture also executes the
    recorded work, unless it is a dry run. Host code is not part of the graph.

    With ``PT_HPU_ENABLE_LAZY_COLLECTIVES``, a capture may contain collectives, which divide the graph into
    parts. A replay runs parts and collectives in order. Without the flag, a collective in a capture is an
    error.
    """

    def __init__(self) -> None:
        self._graph = _C.Graph()
        #: For each collective: the function that issues it, and the part of the graph that follows it.
        self._parts_after_collectives: list[tuple[Callable[[], None], Any, RunCounter]] = []
        self._user_inputs: list[torch.Tensor] | None = None
        self._user_outputs: list[torch.Tensor] | None = None
        self._bound_graph: BoundGraph | CopyingGraph | None = None
        self._inputs_cleared = False
        self._run_counter = RunCounter(self._graph)
        #: True if nothing was captured since construction or reset, and no capture has begun.
        self._is_empty = True
        self._is_dry_run = False

    def capture_begin(self, dry_run: bool = False) -> None:
        """Start recording the work of all threads on the current stream and on streams that wait for it.

        A stream joins the capture when it waits for an event that was recorded on a stream of the capture.
        Other work is not affected. This call also disables dynamic shapes
        (`torch.hpu.disable_dynamic_shape`), and `capture_end` does not restore them.

        Args:
            dry_run: record without executing; results have no values before the first replay.

        Raises:
            RuntimeError: the stream is part of a capture ("GRAPH:: graph Capture already in progress").
        """
        flags.disable_dynamic_shape()
        self._graph.begin(dry_run)
        self._is_empty = False
        self._run_counter = RunCounter(self._graph)
        if read_variable("PT_HPU_ENABLE_LAZY_COLLECTIVES", "bool", False):
            self._is_dry_run = dry_run
            with _open_lock:
                _capturing_graphs.append(self)
                if len(_capturing_graphs) == 1:
                    _C.set_capture_collective_handler(_pass_collective_to_graph)

    def capture_end(self) -> None:
        """Stop recording. The graph can then be replayed.

        Raises:
            RuntimeError: no capture of this graph is in progress, or the current stream is not the stream on
                which the capture began ("Capture must end on the same stream it began on.").
        """
        self._stop_accepting_collectives()
        self._graph_parts()[-1].end()
        name = f"hpu_graph_{next(_names)}"
        for number, part in enumerate(self._graph_parts()):
            graph_dumps.dump_if_requested(
                part, f"{name}_part_{number}" if self._parts_after_collectives else name
            )

    def _graph_parts(self) -> list[Any]:
        """Return the core's graph objects: the part before the first collective, then one per collective."""
        return [self._graph, *(part for _, part, _ in self._parts_after_collectives)]

    def _stop_accepting_collectives(self) -> None:
        """Stop recording collectives as parts of this graph."""
        with _open_lock:
            if self in _capturing_graphs:
                _capturing_graphs.remove(self)
                if not _capturing_graphs:
                    _C.set_capture_collective_handler(None)

    def _record_collective(self, issue: Callable[[], None]) -> None:
        """End the current part before a collective, issue the collective, and begin the next part."""
        if self._is_dry_run:
            raise RuntimeError(
                "a dry run cannot contain collectives, which execute immediately. Capture without dry_run."
            )
        self._graph_parts()[-1].end()
        issue()
        part = _C.Graph()
        part.begin(False)
        self._parts_after_collectives.append((issue, part, RunCounter(part)))

    def bind_io(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        into_captured: bool = False,
    ) -> BoundGraph | CopyingGraph:
        """Return an object whose method ``run`` replays the graph with other inputs (see `BoundGraph`)."""
        if self._parts_after_collectives:
            return CopyingGraph(self._run, inputs, outputs, into_captured)
        return BoundGraph(self._graph, inputs, outputs, into_captured)

    def replay(self, asynchronous: bool = False) -> None:
        """Run the graph on the memory of the captured tensors.

        If the graph is empty (never captured, or reset), this call does nothing and warns once per process.

        Args:
            asynchronous: return before the work is finished. To wait for the work, wait for the stream.

        Raises:
            RuntimeError: a capture is in progress ("Capture in progress") or has failed, or `clear_inputs`
                freed the memory of the inputs.
        """
        if self._is_empty and not is_current_stream_capturing():
            _warn_of_empty_graph()
            return
        if self._inputs_cleared:
            raise RuntimeError(
                "the inputs of this graph were cleared. Use replayV3 or replay_with_inputs instead."
            )
        if self._user_inputs is not None and self._user_outputs is not None:
            # A graph with marked inputs and outputs can only run as a function of its inputs. Pass the
            # captured inputs.
            self.replayV3(self._user_inputs, asynchronous)
        else:
            self._run(asynchronous)

    def _run(self, asynchronous: bool) -> None:
        self._graph.replay(asynchronous)
        self._run_counter.run()
        for issue, part, heat in self._parts_after_collectives:
            issue()
            part.replay(asynchronous)
            heat.run()

    def replayV2(
        self, static_tlist: Sequence[torch.Tensor], tlist: Sequence[torch.Tensor], asynchronous: bool = False
    ) -> None:
        """Copy new values to captured tensors, then `replay`.

        Args:
            static_tlist: captured tensors that the graph reads.
            tlist: tensors with the new values, of the same number and shapes as ``static_tlist``.
            asynchronous: as for `replay`.

        Raises:
            ValueError: the lists differ in length.
            RuntimeError: as for `replay`.
        """
        copy_to(list(static_tlist), list(tlist))
        self.replay(asynchronous)

    def replayV3(self, tlistI: Sequence[torch.Tensor], asynchronous: bool = False) -> list[torch.Tensor]:
        """Run the graph with other tensors in place of the marked inputs.

        Results are written to the same tensors as by `replay`. In-place work on an input changes the tensor
        in `tlistI`. If no outputs are marked, the tensors are copied to the captured inputs and back.

        Args:
            tlistI: a tensor for each input marked by `mark_user_inputs`, with the same metadata.
            asynchronous: as for `replay`.

        Returns:
            The marked outputs, or an empty list if no outputs are marked. An output that is an input, or a
            view of an input, is derived from the tensor in `tlistI`.

        Raises:
            RuntimeError: no inputs are marked, the number or metadata of the tensors differs, or as for
                `replay`.
        """
        if self._user_outputs is None:
            # Without marked outputs, all tensors that outlive the capture are results and keep their memory.
            # Therefore the inputs are copied.
            captured = self._marked_inputs()
            self.replayV2(captured, tlistI, asynchronous)
            copy_to(list(tlistI), captured)
            return []
        function = self._bound_graph_of_marked_tensors(into_captured=True)
        results = function.run(tlistI, asynchronous)
        if function.into_captured:
            return results
        return [
            result if is_input else captured.detach().copy_(result)
            for captured, result, is_input in zip(self._user_outputs, results, function.is_input, strict=True)
        ]

    def replay_with_inputs(
        self, inputs: Sequence[torch.Tensor], asynchronous: bool = False
    ) -> list[torch.Tensor]:
        """Run the graph like `replayV3`, but return new tensors for the marked outputs at each call.

        Raises:
            RuntimeError: as for `replayV3`, or outputs are not marked.
        """
        self._require_marked_outputs()
        function = self._bound_graph_of_marked_tensors(into_captured=False)
        results = function.run(inputs, asynchronous)
        if not function.into_captured:
            return results
        return [
            result if is_input else result.clone()
            for result, is_input in zip(results, function.is_input, strict=True)
        ]

    def _marked_inputs(self) -> list[torch.Tensor]:
        if self._user_inputs is None:
            raise RuntimeError(
                "this graph has no marked inputs. Call mark_user_inputs after its capture and before this "
                "call."
            )
        return self._user_inputs

    def _bound_graph_of_marked_tensors(self, into_captured: bool) -> BoundGraph | CopyingGraph:
        """Return the object that replays the graph with other inputs; later calls return the same object."""
        if self._bound_graph is None:
            outputs = self._user_outputs or []
            self._bound_graph = self.bind_io(self._marked_inputs(), outputs, into_captured)
        return self._bound_graph

    def mark_user_inputs(self, inputs: Any) -> None:
        """Mark captured tensors as inputs, which replays may replace. The argument may be nested.

        Call this method after the capture and before the first replay.
        """
        self._user_inputs = tensors_of(inputs)
        self._bound_graph = None

    def mark_user_outputs(self, outputs: Any, free_inplace: bool = True) -> None:
        """Mark captured tensors as results of the graph. The argument may be nested.

        If inputs are marked too, the graph has no other results: the memory of all other tensors that the
        graph created becomes private to the graph.

        Args:
            outputs: tensors, or nested values with tensors.
            free_inplace: accepted, not used. Memory of results is freed when neither a tensor nor the graph
                needs it.
        """
        self._user_outputs = tensors_of(outputs)
        self._bound_graph = None

    def get_user_input_match_indices(self) -> list[int]:
        """Return the positions of the marked inputs whose memory the captured work uses.

        Raises:
            RuntimeError: inputs or outputs are not marked.
        """
        self._require_marked_outputs()
        return self._bound_graph_of_marked_tensors(into_captured=True).used

    def clear_inputs(self) -> None:
        """Free the memory of the marked inputs. Later replays must pass tensors for the inputs.

        Raises:
            RuntimeError: inputs or outputs are not marked.
        """
        self._require_marked_outputs()
        self._bound_graph_of_marked_tensors(into_captured=True)
        self._user_inputs, self._inputs_cleared = [], True

    def _require_marked_outputs(self) -> None:
        if self._user_outputs is None:
            raise RuntimeError("this graph has no marked outputs. Call mark_user_outputs first.")

    def reset(self) -> None:
        """Remove the captured work and free its memory. The graph can be captured again."""
        self._stop_accepting_collectives()
        for part in self._graph_parts():
            part.reset()
        self.__init__()  # type: ignore[misc]


@functools.cache
def _warn_of_empty_graph() -> None:
    warnings.warn(
        "replay of an HPUGraph that was never captured does nothing. Capture the graph with torch.hpu.graph "
        "first.",
        stacklevel=3,
    )


def _pass_collective_to_graph(issue: Callable[[], None]) -> None:
    """Pass a collective to the graph that captures the calling thread's current stream."""
    for candidate in tuple(_capturing_graphs):
        if candidate._graph_parts()[-1].recording_here:
            candidate._record_collective(issue)
            return
    raise RuntimeError(
        "collective nonSFG is not supported during hpu graph capturing: only an HPUGraph can contain "
        "collectives"
    )


class graph:
    """Context manager that captures the work of its block in a graph, on a separate stream.

    Args:
        hpu_graph: the graph, which must be empty.
        stream: stream of the capture; by default one stream that all captures share.
        dry_run: as for `HPUGraph.capture_begin`.

    Raises:
        RuntimeError: as for `HPUGraph.capture_begin` and `HPUGraph.capture_end`.
    """

    _side_stream: streams.Stream | None = None

    def __init__(
        self, hpu_graph: HPUGraph, stream: torch.Stream | None = None, dry_run: bool = False
    ) -> None:
        if stream is None:
            if graph._side_stream is None:
                graph._side_stream = streams.Stream(stream_id=_C.new_internal_stream())
            stream = graph._side_stream
        self.hpu_graph = hpu_graph
        self.stream = stream
        self.dry_run = dry_run
        self._context = streams.StreamContext(stream)

    def __enter__(self) -> None:
        devices.synchronize()
        # Free tensors in reference cycles now. Tensors that are still alive after the capture would be
        # treated as results of the graph.
        gc.collect()
        self._context.__enter__()
        try:
            self.hpu_graph.capture_begin(self.dry_run)
        except BaseException:
            self._context.__exit__()
            raise

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            self.hpu_graph.capture_end()
        except Exception:
            # If the block raised an error, raise that error: it caused the error of capture_end.
            if kind is None:
                raise
        finally:
            self._context.__exit__()
        if kind is not None:
            self.hpu_graph.reset()


@contextlib.contextmanager
def preserve_random_state() -> Iterator[None]:
    """Context manager that restores the state of the device's random number generator after its block.

    Warm-ups and captures draw additional random numbers. Without the restoration, later calls would draw
    other numbers than without graphs.
    """
    generator = _C.default_generator()
    state = generator.get_state()
    try:
        yield
    finally:
        generator.set_state(state)
