"""What a check did on the device, written down as it runs: its calls, and the comparison that failed."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.checking import compare, invocation, trees
from conformance.checking.compare import metadata
from conformance.checking.recorder import Recorder
from conformance.checking.tolerances import EXACT
from conformance.properties.operators import _common, _gradients
from conformance.reproduction.trial import Trial, signature
from conformance.samples import copies
from conformance.samples.operators import Sample


@dataclasses.dataclass
class Call:
    """A form of an operator that was called on a copy of ``source``; ``derivative`` tells that its gradients
    were taken.
    """

    form: Any
    source: Sample
    copy: Sample
    grad: bool = False
    info: Any = None
    value: Any = None
    error: Exception | None = None

    @property
    def derivative(self) -> bool:
        return self.info is not None


@dataclasses.dataclass
class Comparison:
    """The comparison that failed. ``part`` is the place among the leaves of the call's value, or with
    ``written`` among those of its arguments.
    """

    call: Call
    part: int = 0
    written: bool = False
    #: Expected values and allowed differences, or metadata, or neither where the call raised.
    values: tuple[torch.Tensor, torch.Tensor] | None = None
    metadata: dict[str, Any] | None = None


class Tape:
    """Calls of one run and its first failure of a given signature, as far as they have the usual form."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.calls: list[Call] = []
        self.found: Comparison | None = None
        self._sources: dict[int, tuple[Sample, Sample]] = {}

    def source_of(self, copy: Sample) -> Sample | None:
        """The sample on the host of which this one is a copy, further keywords of the call left out."""
        for tensor in copy.tensors():
            known = self._sources.get(id(tensor))
            if known is not None:
                return known[1]
        return None

    def remember(self, source: Sample, copy: Sample | None) -> None:
        if copy is not None:
            for tensor in copy.tensors():
                self._sources[id(tensor)] = (copy, source)

    def add(self, form: Any, copy: Sample, outcome: Any, *, grad: bool, info: Any = None) -> None:
        source = self.source_of(copy)
        if source is None or len(list(trees.leaves(source.arguments))) != len(
            list(trees.leaves(copy.arguments))
        ):
            return  # a further argument (out=) that no literal is known of
        self.calls.append(Call(form, source, copy, grad, info, outcome.value, outcome.error))

    def matches(self, recorder: Recorder, before: int) -> bool:
        if self.found is not None or recorder.failure_count == before or not recorder._failures:
            return False
        return signature(recorder._failures[-1]) == self.wanted

    def place(self, tensor: Any) -> Comparison | None:
        """The call that a value came from."""
        for call in reversed(self.calls):
            for written, tree in ((False, call.value), (True, call.copy.arguments)):
                for part, leaf in enumerate(trees.leaves(tree)):
                    if leaf is tensor and isinstance(leaf, torch.Tensor):
                        return Comparison(call, part, written)
        return None


def record(trial: Trial, wanted: str) -> Tape:
    """Run the check once with everything written down."""
    tape = Tape(wanted)
    with contextlib.ExitStack() as stack:
        for original, made in _watchers(tape):
            stack.enter_context(replaced(original, made))
        trial.run()
    return tape


def originals() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions by which samples get to the device and operators are called there."""
    return copies.to_device, _common.run


def _watchers(tape: Tape) -> Iterator[tuple[Any, Any]]:
    to_device, run, differentiate = copies.to_device, _common.run, _gradients.differentiate
    compare_values, compare_metadata, failed_call = (
        compare.compare_values,
        compare.compare_metadata,
        _common.failed_call,
    )

    def watched_copy(sample: Sample, *args: Any, **kwargs: Any) -> Any:
        copy = to_device(sample, *args, **kwargs)
        tape.remember(sample, copy)
        return copy

    def watched_run(target: Any, op: Any, sample: Sample, *, grad: bool = False) -> Any:
        outcome = run(target, op, sample, grad=grad)
        tape.add(op, sample, outcome, grad=grad)
        return outcome

    def watched_differentiate(info: Any, op: Any, sample: Sample, **words: Any) -> Any:
        try:
            found = differentiate(info, op, sample, **words)
        except Exception as error:
            tape.add(op, sample, invocation.Outcome(error=error), grad=True, info=info)
            raise
        if not words.get("create_graph"):
            tape.add(op, sample, invocation.Outcome(value=found.gradients), grad=True, info=info)
        return found

    def watched_values(recorder: Recorder, actual: Any, expected: Any, **words: Any) -> bool:
        before = recorder.failure_count
        good = compare_values(recorder, actual, expected, **words)
        if tape.matches(recorder, before):
            tape.found = tape.place(actual)
            if tape.found is not None:
                tape.found.values = _bounds(expected, words)
        return good

    def watched_metadata(recorder: Recorder, actual: Any, expected: Any, **words: Any) -> bool:
        before = recorder.failure_count
        good = compare_metadata(recorder, actual, expected, **words)
        if tape.matches(recorder, before) and isinstance(expected, torch.Tensor):
            tape.found = tape.place(actual)
            if tape.found is not None:
                tape.found.metadata = metadata(expected, stride=words.get("stride", False))
                if not words.get("dtype", True):
                    del tape.found.metadata["dtype"]
                if words.get("device") is not None:
                    tape.found.metadata["device"] = words["device"].type
        return good

    def watched_failed(
        target: Any, recorder: Recorder, sample: Sample, outcome: Any, *words: Any, **more: Any
    ) -> None:
        before = recorder.failure_count
        failed_call(target, recorder, sample, outcome, *words, **more)
        if tape.matches(recorder, before):
            last = next((one for one in reversed(tape.calls) if one.error is not None), None)
            if last is not None:
                tape.found = Comparison(last)

    yield to_device, watched_copy
    yield run, watched_run
    yield differentiate, watched_differentiate
    yield compare_values, watched_values
    yield compare_metadata, watched_metadata
    yield failed_call, watched_failed


def _bounds(expected: Any, words: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected values and the allowed difference of each, both of float64 or as they are."""
    want = compare.on_host(expected)
    size = want.abs().to(torch.float64) if want.dtype != torch.bool else want.to(torch.float64)
    spread = words.get("spread")
    tolerance = words.get("tolerance", EXACT)
    allowed = tolerance.allowed(size if spread is None else size + spread)
    return want, allowed.broadcast_to(want.shape).clone()


@contextlib.contextmanager
def replaced(original: Callable[..., Any], made: Callable[..., Any]) -> Iterator[None]:
    """Put a function in the place of another, wherever the suite has imported it."""
    places = [
        (module, name)
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("conformance.")
        and not getattr(module, "__name__", "").startswith("conformance.reproduction")
        for name, value in list(vars(module).items())
        if value is original
    ]
    for module, name in places:
        setattr(module, name, made)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)
