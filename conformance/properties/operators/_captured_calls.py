"""Shared code of the properties of mode ``graph``: applicable subjects, capture, replay data and replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.device.capture import CapturedCall, capture_call
from conformance.framework import refusals, trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle.graph_replay_inputs import copy_values, replay_data_with_reference
from conformance.oracle.reference import Reference
from conformance.properties import mode_exclusions
from conformance.properties.shared.comparison import ComparisonPolicy, compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, unmodified_info
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    pair_with_references,
    report_failed_call,
)
from conformance.samples import sample_limit
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import kernels_needing_host, kernels_of
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def always_needs_host(subject: Subject) -> bool:
    """Return whether every call of the operator reads values on the host, so that capture may be refused."""
    return subject.name in mode_exclusions.exclusion_reasons("graph", "host")


def sometimes_needs_host(subject: Subject) -> bool:
    """Return whether some calls of the operator read values on the host."""
    return subject.name in mode_exclusions.exclusion_reasons("graph", "host_sometimes")


def can_capture(target: Target, subject: Subject) -> bool:
    """Return whether calls of the operator can be captured on the target, so that properties of mode
    ``graph`` apply.
    """
    if not target.has_graphs or always_needs_host(subject):
        return False
    if subject.name in mode_exclusions.exclusion_reasons("graph", "no_kernels"):
        return False
    return not subject.name.startswith("sparse.") and not subject.name.startswith("to_sparse")


def capturable_samples(
    target: Target, subject: Subject, recorder: Recorder, limit: int
) -> Iterator[tuple[Sample, Reference]]:
    """Yield samples, preferably with arguments of different types and ranks, and their references.

    Sparse samples, and samples whose calls need the host, are omitted with a note.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    chosen = samples.varied(sample_limit.limit(limit))
    for sample, reference in pair_with_references(target, subject, recorder, dtype, samples, chosen):
        kernels = kernels_of(unmodified_info(subject).op, sample) if sometimes_needs_host(subject) else None
        if kernels is not None and kernels.host:
            recorder.note(f"sample {sample.index} needs the host for {', '.join(sorted(kernels.host))}")
            continue
        if any(t.layout is not torch.strided for t in sample.tensors()):
            recorder.note(f"sample {sample.index} is omitted: sparse tensors cannot get other data")
            continue
        yield sample, reference


def wrapped_without_warnings(call: Callable[[], Any], *, grad: bool = False) -> Callable[[], Any]:
    """Return ``call`` with warnings silenced, and without gradients unless ``grad`` is set."""

    def call_without_warnings() -> Any:
        with warnings.catch_warnings(), torch.set_grad_enabled(grad):
            warnings.simplefilter("ignore")
            return call()

    return call_without_warnings


class GraphReplays:
    """Captures the calls of one result, and counts proofs that replays use the current input values."""

    def __init__(self, target: Target, subject: Subject, recorder: Recorder) -> None:
        self.target = target
        self.subject = subject
        self.recorder = recorder
        self.proofs = 0
        self.computes = False
        self.refused = False

    def capture(
        self,
        sample: Sample,
        function: Callable[[Sample], Any],
        *,
        label: str = "capturing the operator",
        grad: bool = False,
        transformed_sample: Sample | None = None,
        cpu_call: Callable[[Any, Sample], Any] = lambda info, sample: sample.call(info.op),
    ) -> tuple[Sample, CapturedCall] | None:
        """Return a copy of the sample on the device, and the captured call of ``function`` on this copy.

        The result is None if the capture failed. If ``transformed_sample`` is given, it replaces the sample.
        Before the capture, ``function`` runs once on a separate copy, because the initialisation of a device
        is not part of a graph.
        """
        warm, copy = (
            copy_sample_to_device(self.target, self.recorder, transformed_sample or sample) for _ in range(2)
        )
        if warm is None or copy is None:
            return None
        outcome = attempt(wrapped_without_warnings(lambda: function(warm), grad=grad))
        if outcome.ok:
            outcome = attempt(
                wrapped_without_warnings(lambda: capture_call(self.target, lambda: function(copy)), grad=grad)
            )
        if outcome.ok:
            return copy, outcome.value
        assert outcome.error is not None
        info = unmodified_info(self.subject)
        host = kernels_needing_host(
            wrapped_without_warnings(lambda: cpu_call(info, to_host(transformed_sample or sample)), grad=grad)
        )
        if host and refusals.is_deliberate_error(outcome.error):
            # If the CPU's kernels read values on the host, the kernels of the device may read them too. The
            # refusal is then correct.
            self.refused = True
            self.recorder.note(
                f"sample {sample.index} is refused; the call needs the host for {', '.join(sorted(host))}"
            )
            check_clean_refusal(self.target, self.recorder, sample, outcome.error)
        else:
            report_failed_call(self.target, self.recorder, sample, outcome, label)
        return None

    def replay(self, sample: Sample, graph: CapturedCall, label: str = "replaying the operator") -> bool:
        """Replay a graph and wait. If the replay fails, record the error and return False."""
        outcome = attempt(graph.replay)
        if not outcome.ok:
            report_failed_call(self.target, self.recorder, sample, outcome, label)
        return outcome.ok

    def sample_with_replay_data(self, sample: Sample) -> tuple[Sample, Reference] | None:
        """Return a sample with other data of the same form, and its reference.

        If no other data can be made, record a note and return None. Data for which the CPU's own result is
        within the tolerance is preferred. For some operators no such data exists: for example, the rounded
        mean of two close numbers loses the difference of the numbers.
        """

        def cpu_result_is_within_tolerance(other: Sample, reference: Reference) -> bool:
            trial, cpu = self.recorder.scratch(), self.target.on_cpu()
            # Compare copies, because torch cannot compare an 8-bit float tensor with itself.
            cpu_outputs = trees.tree_map(
                lambda t: t.clone() if isinstance(t, torch.Tensor) else t, reference.outputs
            )
            return compare_outputs(cpu, trial, reference, cpu_outputs, policy=ComparisonPolicy(device=False))

        renewed = replay_data_with_reference(
            self.subject, dtype_under_test(self.recorder), sample, cpu_result_is_within_tolerance
        )
        if renewed is None:
            self.recorder.note(f"no other data can be made for sample {sample.index}")
        return renewed

    def copy_into_captured_inputs(self, copy: Sample, other: Sample) -> bool:
        """Copy other data into the captured inputs. If that fails, record the error and return False."""

        def copy_and_synchronize() -> None:
            copy_values(copy, other)
            self.target.synchronize()

        outcome = attempt(copy_and_synchronize)
        if not outcome.ok:
            report_failed_call(
                self.target, self.recorder, other, outcome, "copying new data into captured inputs"
            )
        return outcome.ok

    def overwrite_results(self, copy: Sample, value: Any, constants: Sequence[torch.Tensor] = ()) -> bool:
        """Overwrite the results of a graph, so that only a replay can restore their values.

        Views of the graph's inputs are not overwritten. ``constants`` are further tensors that the graph
        reads. Return True if anything was overwritten.
        """
        read_tensors = [*copy.tensors(), *constants]
        inputs = {t.untyped_storage()._cdata for t in read_tensors if t.layout is torch.strided}
        overwritten = False
        for tensor in trees.tensors(value):
            if tensor.layout is not torch.strided or not tensor.numel():
                continue
            if tensor.device.type != torch.device(self.target.device).type:
                continue  # a call without ``device=`` created the tensor on the host, outside the graph
            if tensor.untyped_storage()._cdata in inputs:
                continue
            self.computes = True
            with torch.no_grad():
                overwritten |= attempt(lambda tensor=tensor: _overwrite_with_zeros_or_ones(tensor)).ok  # type: ignore[misc]
        self.target.synchronize()
        return overwritten

    def record_proof(self, agrees: bool = True) -> None:
        """Count a proof if ``agrees`` is true.

        A proof is a comparison that would have failed if the replay had done nothing.
        """
        self.proofs += agrees

    def require_evidence(self) -> None:
        """Mark the result as vacuous if no comparison proves that a replay computed something."""
        if not self.proofs and not self.computes:
            self.recorder.note("all results are views of the inputs: there is nothing to compute")
        elif not self.proofs and not self.refused:
            self.recorder.vacuous("no replay provably computed a result: each result equals an earlier one")


def _overwrite_with_zeros_or_ones(tensor: torch.Tensor) -> None:
    detached = tensor.detach()
    if bool((detached.cpu() != 0).any()):
        detached.zero_()
    else:
        detached.fill_(1)


def check_clean_refusal(target: Target, recorder: Recorder, sample: Sample, error: Exception) -> bool:
    """Check that an error at capture is a clean refusal: of the right type and with a message."""
    is_clean = refusals.is_deliberate_error(error) and bool(str(error).strip())
    message = f"capture raises {one_line(error)}, expected a clean refusal (RuntimeError with a reason)."
    return fact(recorder, is_clean, Kind.ERROR_TYPE, message, sample=sample.index, basis=Basis.PARITY)
