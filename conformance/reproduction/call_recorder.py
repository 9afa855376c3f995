"""Record the calls that a check makes on the device, and the comparison that failed."""

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
from conformance.reproduction.rerun import RerunTrial, failure_signature
from conformance.samples import copies
from conformance.samples.operators import Sample


@dataclasses.dataclass
class RecordedCall:
    """A call of the function ``form`` on a copy of the sample ``source``.

    If the call's gradients were computed, ``info`` is the operator's OpInfo; otherwise it is None.
    """

    form: Any
    source: Sample
    copy: Sample
    grad: bool = False
    info: Any = None
    value: Any = None
    error: Exception | None = None


@dataclasses.dataclass
class FailedComparison:
    """The comparison that failed.

    ``part`` is the index of the compared leaf in the return value of the call, or in its arguments if
    ``written`` is true.
    """

    call: RecordedCall
    part: int = 0
    written: bool = False
    #: ``values`` are the expected values and the allowed differences, if values were compared. ``metadata``
    #: is the expected metadata, if metadata was compared. Both are None if the call raised an exception.
    values: tuple[torch.Tensor, torch.Tensor] | None = None
    metadata: dict[str, Any] | None = None


class CallRecorder:
    """Records the calls that a check makes on the device, and the first failure with the wanted signature."""

    def __init__(self, wanted_signature: str = "") -> None:
        self.wanted_signature = wanted_signature
        self.calls: list[RecordedCall] = []
        self.comparison: FailedComparison | None = None
        self._sources: dict[int, tuple[Sample, Sample]] = {}

    def to_device(self, sample: Sample, *args: Any, **kwargs: Any) -> Any:
        """Copy a sample to the device as :func:`conformance.samples.copies.to_device` does."""
        copy = _TO_DEVICE(sample, *args, **kwargs)
        if copy is not None:
            self._sources.update((id(tensor), (copy, sample)) for tensor in copy.tensors())
        return copy

    def call(self, form: Any, copy: Sample, *, grad: bool = False, info: Any = None) -> RecordedCall | None:
        """Record a call on a copied sample. Return None if the copy has more arguments than the sample (an
        ``out=`` tensor).
        """
        source_samples = [
            self._sources[id(tensor)][1] for tensor in copy.tensors() if id(tensor) in self._sources
        ]
        if not source_samples or len(list(trees.leaves(source_samples[0].arguments))) != len(
            list(trees.leaves(copy.arguments))
        ):
            return None
        self.calls.append(RecordedCall(form, source_samples[0], copy, grad, info))
        return self.calls[-1]

    def run(self, target: Any, op: Any, sample: Sample, *, grad: bool = False) -> Any:
        """Call an operator as a property does, and record the call."""
        call = self.call(op, sample, grad=grad)
        outcome = RUN(target, op, sample, grad=grad)
        if call is not None:
            call.value, call.error = outcome.value, outcome.error
        return outcome

    def differentiate(self, info: Any, op: Any, sample: Sample, **options: Any) -> Any:
        """Compute gradients as a property does. Calls with ``create_graph`` are not recorded."""
        call = None if options.get("create_graph") else self.call(op, sample, grad=True, info=info)
        try:
            derivative = _DIFFERENTIATE(info, op, sample, **options)
        except Exception as error:
            call = call or self.call(op, sample, grad=True, info=info)
            if call is not None:
                call.error = error
            raise
        if call is not None:
            call.value = derivative.gradients
        return derivative

    def compare_values(self, recorder: Recorder, actual: Any, expected: Any, **options: Any) -> bool:
        """Compare values. For the wanted failure, record the expected values and the allowed differences."""
        before = recorder.failure_count
        passed = _COMPARE_VALUES(recorder, actual, expected, **options)
        if self._is_wanted_failure(recorder, before) and (comparison := self._comparison_of(actual)):
            expected_host = compare.to_host_tensor(expected)
            size, sensitivity = (
                expected_host.abs() if expected_host.dtype != torch.bool else expected_host,
                options.get("sensitivity"),
            )
            magnitude = size.to(torch.float64) + (0 if sensitivity is None else sensitivity)
            allowed = (
                options.get("tolerance", EXACT).allowed(magnitude).broadcast_to(expected_host.shape).clone()
            )
            comparison.values, self.comparison = (expected_host, allowed), comparison
        return passed

    def compare_metadata(self, recorder: Recorder, actual: Any, expected: Any, **options: Any) -> bool:
        """Compare metadata. For the wanted failure, record the expected metadata."""
        before = recorder.failure_count
        passed = _COMPARE_METADATA(recorder, actual, expected, **options)
        failed = self._is_wanted_failure(recorder, before) and isinstance(expected, torch.Tensor)
        if failed and (comparison := self._comparison_of(actual)):
            metadata = compare.metadata(expected, stride=options.get("stride", False))
            if not options.get("dtype", True):
                del metadata["dtype"]
            if options.get("device") is not None:
                metadata["device"] = options["device"].type
            comparison.metadata, self.comparison = metadata, comparison
        return passed

    def failed_call(self, target: Any, recorder: Recorder, *args: Any, **kwargs: Any) -> None:
        """Report a call that raised an exception. For the wanted failure, record the call."""
        before = recorder.failure_count
        _FAILED_CALL(target, recorder, *args, **kwargs)
        raised = [call for call in self.calls if call.error is not None]
        if raised and self._is_wanted_failure(recorder, before):
            self.comparison = FailedComparison(raised[-1])

    def _is_wanted_failure(self, recorder: Recorder, before: int) -> bool:
        """Return whether the recorder has more than ``before`` failures and the last is the wanted failure.

        The wanted failure is the first with the wanted signature.
        """
        if self.comparison is not None or recorder.failure_count == before:
            return False
        return failure_signature(recorder.result().failures[-1]) == self.wanted_signature

    def _comparison_of(self, tensor: Any) -> FailedComparison | None:
        """Return a comparison with the recorded call that returned or wrote ``tensor``, or None if no
        recorded call did so.
        """
        for call in reversed(self.calls):
            for written, tree in ((False, call.value), (True, call.copy.arguments)):
                for part, leaf in enumerate(trees.leaves(tree)):
                    if leaf is tensor and isinstance(leaf, torch.Tensor):
                        return FailedComparison(call, part, written)
        return None


_TO_DEVICE, RUN, _DIFFERENTIATE = copies.to_device, execution.run_operator, _gradients.differentiate
_COMPARE_VALUES, _COMPARE_METADATA = compare.compare_values, compare.compare_metadata
_FAILED_CALL = execution.report_failed_call


def record_failed_comparison(trial: RerunTrial, wanted_signature: str) -> FailedComparison | None:
    """Run the check once and return the comparison of its first failure with the signature, or None."""
    recorder = CallRecorder(wanted_signature)
    with (
        replaced_in_suite_modules(_TO_DEVICE, recorder.to_device),
        replaced_in_suite_modules(RUN, recorder.run),
        replaced_in_suite_modules(_DIFFERENTIATE, recorder.differentiate),
        replaced_in_suite_modules(_COMPARE_VALUES, recorder.compare_values),
        replaced_in_suite_modules(_COMPARE_METADATA, recorder.compare_metadata),
        replaced_in_suite_modules(_FAILED_CALL, recorder.failed_call),
    ):
        trial.run()
    return recorder.comparison


@contextlib.contextmanager
def replaced_in_suite_modules(original: Callable[..., Any], substitute: Callable[..., Any]) -> Iterator[None]:
    """Replace a function wherever the suite has imported it."""
    imports = [
        (module, name)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("conformance.") and not module_name.startswith("conformance.reproduction.")
        for name, value in list(vars(module).items())
        if value is original
    ]
    for module, name in imports:
        setattr(module, name, substitute)
    try:
        yield
    finally:
        for module, name in imports:
            setattr(module, name, original)
