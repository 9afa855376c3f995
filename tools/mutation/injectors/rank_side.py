"""Faults of a process group, planted in the processes of the ranks.

A rank imports this module before it joins and calls :func:`prepare`. Each collective then reads from a file
which fault is armed, and writes into another what it met: the worker that owns the ranks has no other way to
them, and they may die at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tools.mutation.injectors.function_wrapper import Function, Functions, Kind, WrappedCall
from tools.mutation.mutant import Fault

#: Names the folder of the files.
FOLDER = "CONFORMANCE_POWER_RANKS"
#: The file with the armed fault, or with the word that calls are to be looked at.
ARMED = "armed"
LOOK = "look"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def _written(call: WrappedCall) -> list[torch.Tensor]:
    return list(_tensors(call.args[1])) if len(call.args) > 1 else []


def _read(call: WrappedCall) -> list[torch.Tensor]:
    return list(_tensors(call.args[2])) if len(call.args) > 2 else []


def _has_results(call: WrappedCall) -> bool:
    return call.error is None and any(tensor.numel() for tensor in _written(call))


def _wait(call: WrappedCall) -> None:
    if call.result is not None:
        call.result.wait()


def _break_last(tensors: list[torch.Tensor]) -> bool:
    for tensor in tensors:
        if tensor.numel():
            last = tensor[(-1,) * tensor.dim()]
            last.copy_(last == 0)
    return True


def _last_element(call: WrappedCall) -> bool:
    _wait(call)
    return _break_last(_written(call))


def _on_second_rank(call: WrappedCall) -> bool:
    return _has_results(call) and call.args[0].rank() == 1


def _inputs_changed(call: WrappedCall) -> bool:
    _wait(call)
    return _break_last(_read(call))


def _has_inputs(call: WrappedCall) -> bool:
    return call.error is None and any(tensor.numel() for tensor in _read(call))


def _drop_chunk(call: WrappedCall) -> bool:
    """Leave the second half of each result as it was before the call."""
    before = [tensor.clone() for tensor in _written(call)]
    call.perform()
    if call.error is not None:
        return False
    _wait(call)
    changed = False
    for now, old in zip(_written(call), before, strict=True):
        mixed = now.clone(memory_format=torch.contiguous_format).view(-1)
        half = mixed.numel() // 2
        mixed[half:] = old.reshape(-1)[half:]
        changed = changed or not torch.equal(now, mixed.view(now.shape))
        now.copy_(mixed.view(now.shape))
    return changed


def _stale(call: WrappedCall) -> bool:
    _wait(call)
    key = repr([(tuple(tensor.shape), tensor.dtype) for tensor in _written(call)])
    now = [tensor.clone() for tensor in _written(call)]
    old = call.memory.setdefault(key, now)
    for tensor, other in zip(_written(call), old, strict=True):
        tensor.copy_(other)
    return any(not torch.equal(one, other) for one, other in zip(now, old, strict=True))


def _rotate(call: WrappedCall) -> bool:
    """Give each rank's part to the next one."""
    _wait(call)
    parts = _written(call)
    if len(parts) == 1 and parts[0].dim():
        size = call.args[0].size()
        parts = list(parts[0].chunk(size)) if parts[0].shape[0] % size == 0 else []
    copies = [part.clone() for part in parts]
    if any(one.shape != copies[0].shape for one in copies):
        return False
    for part, copy in zip(parts, copies[1:] + copies[:1], strict=True):
        part.copy_(copy)
    return any(not torch.equal(one, copies[0]) for one in copies)


def _options(call: WrappedCall, word: str) -> Any:
    return next((argument for argument in reversed(call.args) if hasattr(argument, word)), None)


def _reduces(call: WrappedCall) -> bool:
    return _options(call, "reduceOp") is not None


def _reduce_otherwise(call: WrappedCall) -> bool:
    from torch.distributed import ReduceOp

    options = _options(call, "reduceOp")
    right = options.reduceOp
    options.reduceOp = ReduceOp.MAX if right == ReduceOp.SUM else ReduceOp.SUM
    call.perform()
    options.reduceOp = right
    return True


def _averages(call: WrappedCall) -> bool:
    from torch.distributed import ReduceOp

    return _has_results(call) and _reduces(call) and _options(call, "reduceOp").reduceOp == ReduceOp.AVG


def _divide_again(call: WrappedCall) -> bool:
    _wait(call)
    for tensor in _written(call):
        tensor.div_(call.args[0].size())
    return True


def _has_root(call: WrappedCall) -> bool:
    return _options(call, "rootRank") is not None


def _take_next_root(call: WrappedCall) -> bool:
    options = _options(call, "rootRank")
    right = options.rootRank
    options.rootRank = (right + 1) % call.args[0].size()
    call.perform()
    options.rootRank = right
    return True


def _skip(call: WrappedCall) -> bool:
    call.result = None
    return True


def _do_not_wait(call: WrappedCall) -> bool:
    call.result = True
    return True


def _hide_error(call: WrappedCall) -> bool:
    call.error = None
    return True


def _change_error(call: WrappedCall) -> bool:
    call.error = IndexError("the call failed")
    return True


BY_NAME: Mapping[str, Kind] = {
    "collective-last-element": Kind("the last element is wrong on all ranks", _has_results, _last_element),
    "collective-second-rank": Kind("the last element is wrong on rank 1", _on_second_rank, _last_element),
    "collective-chunk-dropped": Kind(
        "the second half of a result is not written", _has_results, _drop_chunk, after=False
    ),
    "collective-stale": Kind("the result of the first call of these sizes is returned", _has_results, _stale),
    "collective-input-changed": Kind("an input is overwritten", _has_inputs, _inputs_changed),
    "ranks-rotated": Kind("each rank's part goes to its neighbour", _has_results, _rotate),
    "reduction-wrong": Kind("another reduction is taken", _reduces, _reduce_otherwise, after=False),
    "average-twice": Kind("an average is divided twice", _averages, _divide_again),
    "root-off-by-one": Kind("the next rank is the root", _has_root, _take_next_root, after=False),
    "work-not-awaited": Kind("wait returns at once", lambda call: True, _do_not_wait, after=False),
    "barrier-dropped": Kind("no rank waits for another", lambda call: True, _skip, after=False),
    "collective-error-missing": Kind(
        "an error is swallowed", lambda call: call.error is not None, _hide_error
    ),
    "collective-error-type": Kind(
        "an error has another type", lambda call: call.error is not None, _change_error
    ),
}

_RESULT = (
    "collective-last-element",
    "collective-second-rank",
    "collective-chunk-dropped",
    "collective-stale",
)
_ERRORS = ("collective-error-missing", "collective-error-type")
_REDUCED = ("reduction-wrong", "average-twice")
_INPUT = ("collective-input-changed",)

#: By method of torch's ProcessGroup and Work, the kinds it can have.
PLACES: Mapping[str, tuple[str, ...]] = {
    "allreduce": (*_RESULT, *_REDUCED, *_ERRORS),
    "allreduce_coalesced": (*_RESULT, *_REDUCED, *_ERRORS),
    "reduce": (*_RESULT, *_REDUCED, "root-off-by-one", *_ERRORS),
    "broadcast": (*_RESULT, "root-off-by-one", *_ERRORS),
    "allgather": (*_RESULT, *_INPUT, "ranks-rotated", *_ERRORS),
    "all_gather_single": (*_RESULT, *_INPUT, "ranks-rotated", *_ERRORS),
    "reduce_scatter": (*_RESULT, *_INPUT, *_REDUCED, *_ERRORS),
    "reduce_scatter_single": (*_RESULT, *_INPUT, *_REDUCED, *_ERRORS),
    "alltoall": (*_RESULT, *_INPUT, "ranks-rotated", *_ERRORS),
    "all_to_all_single": (*_RESULT, *_INPUT, "ranks-rotated", *_ERRORS),
    "gather": (*_RESULT, *_INPUT, "ranks-rotated", *_ERRORS),
    "scatter": (*_RESULT, *_INPUT, *_ERRORS),
    "recv": (*_RESULT, *_ERRORS),
    "send": _ERRORS,
    "barrier": ("barrier-dropped", *_ERRORS),
    "Work.wait": ("work-not-awaited",),
}


def functions() -> tuple[dict[str, Function], dict[str, tuple[str, ...]]]:
    """Return the methods by place, and the kinds of each place; only those that this torch has."""
    from torch.distributed import ProcessGroup, Work

    found: dict[str, Function] = {}
    for name in PLACES:
        owner, method = (Work, "wait") if name == "Work.wait" else (ProcessGroup, name)
        if hasattr(owner, method):
            found[f"c10d::{name}"] = Function(owner, method)
    return found, {place: PLACES[place.removeprefix("c10d::")] for place in found}


class Recording(Functions):
    """Does in a rank what the file says, and appends what it met to a file of the rank's own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(*functions(), BY_NAME)
        self._armed = folder / ARMED
        self._report = (folder / f"{os.getpid()}.seen").open("a")
        self._fault = ""
        self._memory: dict[str, Any] = {}
        for place in self._functions:
            self._wrap(place, self._serve)

    def _serve(self, place: str, call: WrappedCall) -> Any:
        try:
            word = self._armed.read_text()
        except OSError:
            word = ""
        if word != self._fault:
            self._fault, self._memory = word, {}
        if word == LOOK:
            return self._look(place, call)
        if not word or Fault.parse(word).place != place:
            call.perform()
            return call.end()
        self._counts = [0, 0]
        try:
            return self._go_wrong(BY_NAME[Fault.parse(word).kind], self._memory, call)
        finally:
            if self._counts[0]:
                self._say(f"count {self._counts[0]} {int(self._counts[1])}")

    def _look(self, place: str, call: WrappedCall) -> Any:
        try:
            return super()._look(place, call)
        finally:
            observed = self.take_observed()
            for number, _ in observed.met:
                self._say(f"met {number}")
            for index, _, _ in observed.calls:
                self._say(f"called {index}")

    def _say(self, line: str) -> None:
        self._report.write(line + "\n")
        self._report.flush()


def prepare() -> None:
    """Stand before the process group of this rank."""
    Recording(Path(os.environ[FOLDER]))
