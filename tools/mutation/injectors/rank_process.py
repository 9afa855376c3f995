"""Inject mutants of a process group inside the rank processes.

A rank imports this module and calls :func:`prepare` before it joins the process group. Each collective reads
the enabled mutant from a file, and appends the triggered mutants to another file. Files are used because the
worker that started the ranks has no other channel to them, and because a rank may terminate at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tools.mutation.injectors.function_wrapper import (
    Function,
    FunctionInjector,
    MutationOperator,
    WrappedCall,
)
from tools.mutation.mutant import Mutant

#: The environment variable that names the folder of the command file and of the ranks' event files.
FOLDER = "CONFORMANCE_POWER_RANKS"
#: The file with the command to the ranks: the name of the enabled mutant, :data:`OBSERVE`, or nothing.
COMMAND_FILE = "armed"
#: The command that makes the ranks record triggered mutants.
OBSERVE = "look"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _written_tensors(call: WrappedCall) -> list[torch.Tensor]:
    return list(_tensors(call.args[1])) if len(call.args) > 1 else []


def _read_tensors(call: WrappedCall) -> list[torch.Tensor]:
    return list(_tensors(call.args[2])) if len(call.args) > 2 else []


def _has_results(call: WrappedCall) -> bool:
    return call.error is None and any(tensor.numel() for tensor in _written_tensors(call))


def _wait_for_work(call: WrappedCall) -> None:
    if call.result is not None:
        call.result.wait()


def _corrupt_last_elements(tensors: list[torch.Tensor]) -> bool:
    for tensor in tensors:
        if tensor.numel():
            last = tensor[(-1,) * tensor.dim()]
            last.copy_(last == 0)
    return True


def _corrupt_results(call: WrappedCall) -> bool:
    _wait_for_work(call)
    return _corrupt_last_elements(_written_tensors(call))


def _has_results_on_rank_1(call: WrappedCall) -> bool:
    return _has_results(call) and call.args[0].rank() == 1


def _overwrite_inputs(call: WrappedCall) -> bool:
    _wait_for_work(call)
    return _corrupt_last_elements(_read_tensors(call))


def _has_inputs(call: WrappedCall) -> bool:
    return call.error is None and any(tensor.numel() for tensor in _read_tensors(call))


def _leave_second_half_unwritten(call: WrappedCall) -> bool:
    """Leave the second half of each result unchanged."""
    before = [tensor.clone() for tensor in _written_tensors(call)]
    call.perform()
    if call.error is not None:
        return False
    _wait_for_work(call)
    changed = False
    for now, old in zip(_written_tensors(call), before, strict=True):
        mixed = now.clone(memory_format=torch.contiguous_format).view(-1)
        half = mixed.numel() // 2
        mixed[half:] = old.reshape(-1)[half:]
        changed = changed or not torch.equal(now, mixed.view(now.shape))
        now.copy_(mixed.view(now.shape))
    return changed


def _return_first_results(call: WrappedCall) -> bool:
    _wait_for_work(call)
    key = repr([(tuple(tensor.shape), tensor.dtype) for tensor in _written_tensors(call)])
    now = [tensor.clone() for tensor in _written_tensors(call)]
    old = call.memory.setdefault(key, now)
    for tensor, old_value in zip(_written_tensors(call), old, strict=True):
        tensor.copy_(old_value)
    return any(not torch.equal(now_value, old_value) for now_value, old_value in zip(now, old, strict=True))


def _shift_result_parts(call: WrappedCall) -> bool:
    """Move each rank's part of the result to the position of the previous rank."""
    _wait_for_work(call)
    parts = _written_tensors(call)
    if len(parts) == 1 and parts[0].dim():
        size = call.args[0].size()
        parts = list(parts[0].chunk(size)) if parts[0].shape[0] % size == 0 else []
    copies = [part.clone() for part in parts]
    if any(copy_of_part.shape != copies[0].shape for copy_of_part in copies):
        return False
    for part, copy in zip(parts, copies[1:] + copies[:1], strict=True):
        part.copy_(copy)
    return any(not torch.equal(copy_of_part, copies[0]) for copy_of_part in copies)


def _collective_options_with(call: WrappedCall, field: str) -> Any:
    return next((argument for argument in reversed(call.args) if hasattr(argument, field)), None)


def _has_reduction(call: WrappedCall) -> bool:
    return _collective_options_with(call, "reduceOp") is not None


def _use_other_reduction(call: WrappedCall) -> bool:
    from torch.distributed import ReduceOp

    options = _collective_options_with(call, "reduceOp")
    right = options.reduceOp
    options.reduceOp = ReduceOp.MAX if right == ReduceOp.SUM else ReduceOp.SUM
    call.perform()
    options.reduceOp = right
    return True


def _is_average(call: WrappedCall) -> bool:
    from torch.distributed import ReduceOp

    return (
        _has_results(call)
        and _has_reduction(call)
        and _collective_options_with(call, "reduceOp").reduceOp == ReduceOp.AVG
    )


def _divide_again(call: WrappedCall) -> bool:
    _wait_for_work(call)
    for tensor in _written_tensors(call):
        tensor.div_(call.args[0].size())
    return True


def _has_root(call: WrappedCall) -> bool:
    return _collective_options_with(call, "rootRank") is not None


def _use_next_root(call: WrappedCall) -> bool:
    options = _collective_options_with(call, "rootRank")
    right = options.rootRank
    options.rootRank = (right + 1) % call.args[0].size()
    call.perform()
    options.rootRank = right
    return True


def _skip_call(call: WrappedCall) -> bool:
    call.result = None
    return True


def _skip_wait(call: WrappedCall) -> bool:
    call.result = True
    return True


def _hide_error(call: WrappedCall) -> bool:
    call.error = None
    return True


def _change_error(call: WrappedCall) -> bool:
    call.error = IndexError("the call failed")
    return True


BY_NAME: Mapping[str, MutationOperator] = {
    "collective-last-element": MutationOperator(
        "the last element is wrong on all ranks", _has_results, _corrupt_results
    ),
    "collective-second-rank": MutationOperator(
        "the last element is wrong on rank 1", _has_results_on_rank_1, _corrupt_results
    ),
    "collective-chunk-dropped": MutationOperator(
        "the second half of a result is not written", _has_results, _leave_second_half_unwritten, after=False
    ),
    "collective-stale": MutationOperator(
        "the result of the first call of these sizes is returned", _has_results, _return_first_results
    ),
    "collective-input-changed": MutationOperator("an input is overwritten", _has_inputs, _overwrite_inputs),
    "ranks-rotated": MutationOperator(
        "the parts of the ranks are shifted by one rank", _has_results, _shift_result_parts
    ),
    "reduction-wrong": MutationOperator(
        "a different reduction is computed", _has_reduction, _use_other_reduction, after=False
    ),
    "average-twice": MutationOperator(
        "an average is divided by the number of ranks twice", _is_average, _divide_again
    ),
    "root-off-by-one": MutationOperator("the next rank is the root", _has_root, _use_next_root, after=False),
    "work-not-awaited": MutationOperator(
        "Work.wait returns at once", lambda call: True, _skip_wait, after=False
    ),
    "barrier-dropped": MutationOperator(
        "a barrier does not wait for the other ranks", lambda call: True, _skip_call, after=False
    ),
    "collective-error-missing": MutationOperator(
        "an error is swallowed", lambda call: call.error is not None, _hide_error
    ),
    "collective-error-type": MutationOperator(
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

#: The mutation operators of each method of torch's ProcessGroup and Work.
POINTS: Mapping[str, tuple[str, ...]] = {
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


def functions_and_operators() -> tuple[dict[str, Function], dict[str, tuple[str, ...]]]:
    """Return the methods by point, and the names of the mutation operators by point.

    Methods that this torch does not have are omitted.
    """
    from torch.distributed import ProcessGroup, Work

    functions_by_point: dict[str, Function] = {}
    for name in POINTS:
        owner, method = (Work, "wait") if name == "Work.wait" else (ProcessGroup, name)
        if hasattr(owner, method):
            functions_by_point[f"c10d::{name}"] = Function(owner, method)
    return functions_by_point, {point: POINTS[point.removeprefix("c10d::")] for point in functions_by_point}


class RankProcessInjector(FunctionInjector):
    """Reads from the command file which mutant is active, injects it into this rank, and appends the
    observed events to the event file of this rank.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(*functions_and_operators(), BY_NAME)
        self._command_path = folder / COMMAND_FILE
        self._report = (folder / f"{os.getpid()}.seen").open("a")
        self._command = ""
        self._memory: dict[str, Any] = {}
        for point in self._functions:
            self._install_wrapper(point, self._handle_call)

    def _handle_call(self, point: str, call: WrappedCall) -> Any:
        try:
            command = self._command_path.read_text()
        except OSError:
            command = ""
        if command != self._command:
            self._command, self._memory = command, {}
        if command == OBSERVE:
            return self._observe_call(point, call)
        if not command or Mutant.parse(command).point != point:
            call.perform()
            return call.return_or_raise()
        self._counts = [0, 0]
        try:
            return self._alter_call(BY_NAME[Mutant.parse(command).operator], self._memory, call)
        finally:
            if self._counts[0]:
                self._write_event(f"count {self._counts[0]} {int(self._counts[1])}")

    def _observe_call(self, point: str, call: WrappedCall) -> Any:
        try:
            return super()._observe_call(point, call)
        finally:
            observed = self.take_observed()
            for number, _ in observed.triggered:
                self._write_event(f"met {number}")
            for index, _, _ in observed.calls:
                self._write_event(f"called {index}")

    def _write_event(self, line: str) -> None:
        self._report.write(line + "\n")
        self._report.flush()


def prepare() -> None:
    """Install the wrappers of this rank's process group."""
    RankProcessInjector(Path(os.environ[FOLDER]))
