"""The calls that a check made on the device, written down as it runs, and the comparison that failed."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.framework import compare, trees
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT
from conformance.properties.operators import _gradients
from conformance.properties.shared import execution
from conformance.reproduction.rerun import Trial, signature
from conformance.samples import copies
from conformance.samples.operators import Sample


@dataclasses.dataclass
class RecordedCall:
    """A form of an operator that was called on a copy of ``source``; with ``info``, the operator's entry of
    torch's database, its gradients were taken.
    """

    form: Any
    source: Sample
    copy: Sample
    grad: bool = False
    info: Any = None
    value: Any = None
    error: Exception | None = None


@dataclasses.dataclass
class Comparison:
    """The comparison that failed. ``part`` is the place among the leaves of the call's value, or with
    ``written`` among those of its arguments.
    """

    call: RecordedCall
    part: int = 0
    written: bool = False
    #: Expected values and allowed differences, or metadata, or neither if the call raised.
    values: tuple[torch.Tensor, torch.Tensor] | None = None
    metadata: dict[str, Any] | None = None


class CallRecorder:
    """Calls of one run, as far as they have the usual form, and its first failure of a signature."""

    def __init__(self, wanted: str = "") -> None:
        self.wanted = wanted
        self.calls: list[RecordedCall] = []
        self.comparison: Comparison | None = None
        self._sources: dict[int, tuple[Sample, Sample]] = {}

    def to_device(self, sample: Sample, *args: Any, **kwargs: Any) -> Any:
        """Copy a sample to the device as :func:`conformance.samples.copies.to_device` does."""
        copy = _TO_DEVICE(sample, *args, **kwargs)
        if copy is not None:
            self._sources.update((id(tensor), (copy, sample)) for tensor in copy.tensors())
        return copy

    def call(self, form: Any, copy: Sample, *, grad: bool = False, info: Any = None) -> RecordedCall | None:
        """Write down a call on a copy; None if it has an argument (out=) that no sample has."""
        known = [self._sources[id(tensor)][1] for tensor in copy.tensors() if id(tensor) in self._sources]
        if not known or len(list(trees.leaves(known[0].arguments))) != len(
            list(trees.leaves(copy.arguments))
        ):
            return None
        self.calls.append(RecordedCall(form, known[0], copy, grad, info))
        return self.calls[-1]

    def run(self, target: Any, op: Any, sample: Sample, *, grad: bool = False) -> Any:
        """Call an operator as a property does."""
        call = self.call(op, sample, grad=grad)
        outcome = RUN(target, op, sample, grad=grad)
        if call is not None:
            call.value, call.error = outcome.value, outcome.error
        return outcome

    def differentiate(self, info: Any, op: Any, sample: Sample, **words: Any) -> Any:
        """Take gradients as a property does; those that have a graph of their own are not written down."""
        call = None if words.get("create_graph") else self.call(op, sample, grad=True, info=info)
        try:
            derivative = _DIFFERENTIATE(info, op, sample, **words)
        except Exception as error:
            call = call or self.call(op, sample, grad=True, info=info)
            if call is not None:
                call.error = error
            raise
        if call is not None:
            call.value = derivative.gradients
        return derivative

    def compare_values(self, recorder: Recorder, actual: Any, expected: Any, **words: Any) -> bool:
        """Compare values, and write down what was expected and allowed if the failure is the wanted one."""
        before = recorder.failure_count
        good = _COMPARE_VALUES(recorder, actual, expected, **words)
        if self._failed(recorder, before) and (comparison := self._place(actual)):
            want = compare.on_host(expected)
            size, spread = want.abs() if want.dtype != torch.bool else want, words.get("spread")
            magnitude = size.to(torch.float64) + (0 if spread is None else spread)
            allowed = words.get("tolerance", EXACT).allowed(magnitude).broadcast_to(want.shape).clone()
            comparison.values, self.comparison = (want, allowed), comparison
        return good

    def compare_metadata(self, recorder: Recorder, actual: Any, expected: Any, **words: Any) -> bool:
        """Compare metadata, and write down what was expected if the failure is the wanted one."""
        before = recorder.failure_count
        good = _COMPARE_METADATA(recorder, actual, expected, **words)
        failed = self._failed(recorder, before) and isinstance(expected, torch.Tensor)
        if failed and (comparison := self._place(actual)):
            metadata = compare.metadata(expected, stride=words.get("stride", False))
            if not words.get("dtype", True):
                del metadata["dtype"]
            if words.get("device") is not None:
                metadata["device"] = words["device"].type
            comparison.metadata, self.comparison = metadata, comparison
        return good

    def failed_call(self, target: Any, recorder: Recorder, *args: Any, **kwargs: Any) -> None:
        """Report a call that raised, and write it down if the failure is the wanted one."""
        before = recorder.failure_count
        _FAILED_CALL(target, recorder, *args, **kwargs)
        raised = [call for call in self.calls if call.error is not None]
        if raised and self._failed(recorder, before):
            self.comparison = Comparison(raised[-1])

    def _failed(self, recorder: Recorder, before: int) -> bool:
        """Return whether the recorder has a further failure that is the first of the wanted signature."""
        if self.comparison is not None or recorder.failure_count == before:
            return False
        return signature(recorder.result().failures[-1]) == self.wanted

    def _place(self, tensor: Any) -> Comparison | None:
        """The call that a value came from."""
        for call in reversed(self.calls):
            for written, tree in ((False, call.value), (True, call.copy.arguments)):
                for part, leaf in enumerate(trees.leaves(tree)):
                    if leaf is tensor and isinstance(leaf, torch.Tensor):
                        return Comparison(call, part, written)
        return None


_TO_DEVICE, RUN, _DIFFERENTIATE = copies.to_device, execution.run, _gradients.differentiate
_COMPARE_VALUES, _COMPARE_METADATA = compare.compare_values, compare.compare_metadata
_FAILED_CALL = execution.report_failed_call


def record(trial: Trial, wanted: str) -> Comparison | None:
    """Run the check once; the comparison behind its first failure of that signature, or None."""
    tape = CallRecorder(wanted)
    with (
        replaced(_TO_DEVICE, tape.to_device),
        replaced(RUN, tape.run),
        replaced(_DIFFERENTIATE, tape.differentiate),
        replaced(_COMPARE_VALUES, tape.compare_values),
        replaced(_COMPARE_METADATA, tape.compare_metadata),
        replaced(_FAILED_CALL, tape.failed_call),
    ):
        trial.run()
    return tape.comparison


@contextlib.contextmanager
def replaced(original: Callable[..., Any], substitute: Callable[..., Any]) -> Iterator[None]:
    """Put a function in the place of another, wherever the suite has imported it."""
    places = [
        (module, name)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("conformance.") and not module_name.startswith("conformance.reproduction.")
        for name, value in list(vars(module).items())
        if value is original
    ]
    for module, name in places:
        setattr(module, name, substitute)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)
