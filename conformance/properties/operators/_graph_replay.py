"""The shared parts of the properties of mode ``graph``: which results exist, capture, new data, replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.device.capture import Captured, capture_call
from conformance.framework import refusals, trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.reference import Reference
from conformance.oracle.replay_data import copy_into, renewed_with_oracle
from conformance.properties import mode_exclusions
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, pristine
from conformance.properties.shared.execution import _with_expected, copy_in, report_failed_call
from conformance.samples import sample_limit
from conformance.samples.copies import to_host
from conformance.samples.dispatched_kernels import asks_host, kernels_of
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def needs_host(subject: Subject) -> bool:
    """Return whether every call of the operator needs the host, so that a device may refuse to capture it."""
    return subject.name in mode_exclusions.reasons("graph", "host")


def sometimes_needs_host(subject: Subject) -> bool:
    """Return whether some calls of the operator need the host."""
    return subject.name in mode_exclusions.reasons("graph", "host_sometimes")


def can_graph(target: Target, subject: Subject) -> bool:
    """Return whether the operator has results of a capture that must succeed."""
    if not target.has_graphs or needs_host(subject):
        return False
    if subject.name in mode_exclusions.reasons("graph", "no_kernels"):
        return False
    return not subject.name.startswith("sparse.") and not subject.name.startswith("to_sparse")


def cases(
    target: Target, subject: Subject, recorder: Recorder, limit: int
) -> Iterator[tuple[Sample, Reference]]:
    """Yield samples that differ in the form of the call and that need nothing of the host."""
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    chosen = samples.varied(sample_limit.limit(limit))
    for sample, want in _with_expected(target, subject, recorder, dtype, samples, chosen):
        kernels = kernels_of(pristine(subject).op, sample) if sometimes_needs_host(subject) else None
        if kernels is not None and kernels.host:
            recorder.note(f"sample {sample.index} needs the host: {', '.join(sorted(kernels.host))}")
            continue
        if any(t.layout is not torch.strided for t in sample.tensors()):
            recorder.note(f"sample {sample.index} is sparse: its memory cannot be given other data")
            continue
        yield sample, want


def quietly(call: Callable[[], Any], *, grad: bool = False) -> Callable[[], Any]:
    """Return ``call`` with warnings silenced and without gradients unless ``grad``."""

    def run() -> Any:
        with warnings.catch_warnings(), torch.set_grad_enabled(grad):
            warnings.simplefilter("ignore")
            return call()

    return run


class Replays:
    """Captures calls for one result and keeps count of what proves that a replay followed its inputs."""

    def __init__(self, target: Target, subject: Subject, recorder: Recorder) -> None:
        self.target = target
        self.subject = subject
        self.recorder = recorder
        self.proofs = 0
        self.computing = False
        self.refused = False

    def capture(
        self,
        sample: Sample,
        function: Callable[[Sample], Any],
        *,
        label: str = "capturing the operator",
        grad: bool = False,
        given: Sample | None = None,
        reference: Callable[[Any, Sample], Any] = lambda info, sample: sample.call(info.op),
    ) -> tuple[Sample, Captured] | None:
        """Return a copy of the sample on the device and ``function`` of it captured; None if that failed.

        ``given`` is the sample in another form. The call runs once before, on a copy of its own: what a
        device sets up the first time is not part of a graph.
        """
        warm, copy = (copy_in(self.target, self.recorder, given or sample) for _ in range(2))
        if warm is None or copy is None:
            return None
        outcome = attempt(quietly(lambda: function(warm), grad=grad))
        if outcome.ok:
            outcome = attempt(quietly(lambda: capture_call(self.target, lambda: function(copy)), grad=grad))
        if outcome.ok:
            return copy, outcome.value
        assert outcome.error is not None
        info = pristine(self.subject)
        host = asks_host(quietly(lambda: reference(info, to_host(given or sample)), grad=grad))
        if host and refusals.is_deliberate_error(outcome.error):
            # Kernels of the CPU that ask the host inside may do so on a device: that is an answer, too.
            self.refused = True
            self.recorder.note(
                f"sample {sample.index} is refused, and needs the host: {', '.join(sorted(host))}"
            )
            clean_refusal(self.target, self.recorder, sample, outcome.error)
        else:
            report_failed_call(self.target, self.recorder, sample, outcome, label)
        return None

    def replay(self, sample: Sample, graph: Captured, label: str = "replaying the operator") -> bool:
        """Replay and wait; return False if that failed, which is then recorded."""
        outcome = attempt(graph.replay)
        if not outcome.ok:
            report_failed_call(self.target, self.recorder, sample, outcome, label)
        return outcome.ok

    def fresh_data(self, sample: Sample) -> tuple[Sample, Reference] | None:
        """Return other data for the sample's tensors with the oracle's values; None, which is noted, if there
        is none.

        Which data it is does not matter here. It is data for which the CPU is as accurate as a device has to
        be, if there is some: a mean of two close numbers, rounded, leaves nothing of their difference.
        """

        def accurate(fresh: Sample, want: Reference) -> bool:
            trial, cpu = self.recorder.trial(), self.target.on_cpu()
            # Copies: torch cannot compare a tensor of 8 bit floats with itself.
            own = trees.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, want.outputs)
            return compare_outputs(cpu, trial, self.subject, fresh, own, want, place=False)

        renewed = renewed_with_oracle(self.subject, dtype_under_test(self.recorder), sample, accurate)
        if renewed is None:
            self.recorder.note(f"no other data can be made for sample {sample.index}")
        return renewed

    def give(self, copy: Sample, fresh: Sample) -> bool:
        """Copy other data into the captured inputs; return False if that failed, which is then recorded."""

        def work() -> None:
            copy_into(copy, fresh)
            self.target.synchronize()

        outcome = attempt(work)
        if not outcome.ok:
            report_failed_call(
                self.target, self.recorder, fresh, outcome, "copying new data into captured inputs"
            )
        return outcome.ok

    def spoil(self, copy: Sample, value: Any, constants: Sequence[torch.Tensor] = ()) -> bool:
        """Overwrite the results of a graph, so that only a replay can bring their values back.

        Views of its inputs are left alone. ``constants`` are further tensors that it reads. Returns whether
        anything was overwritten.
        """
        given = [*copy.tensors(), *constants]
        inputs = {t.untyped_storage()._cdata for t in given if t.layout is torch.strided}
        spoilt = False
        for tensor in trees.tensors(value):
            if tensor.layout is not torch.strided or not tensor.numel():
                continue
            if tensor.device.type != torch.device(self.target.device).type:
                continue  # a call that names no device made it on the host: the graph has no part in it
            if tensor.untyped_storage()._cdata in inputs:
                continue
            self.computing = True
            with torch.no_grad():
                spoilt |= attempt(lambda tensor=tensor: _overwrite(tensor)).ok  # type: ignore[misc]
        self.target.synchronize()
        return spoilt

    def proved(self, good: bool = True) -> None:
        """Count a comparison that a replay which did nothing would not have passed."""
        self.proofs += good

    def settle(self) -> None:
        """Mark the result vacuous if nothing shows that a replay computed anything."""
        if not self.proofs and not self.computing:
            self.recorder.note("all results are views of what was given: there is nothing to compute")
        elif not self.proofs and not self.refused:
            self.recorder.vacuous(
                "no replay was seen to compute: no result could be distinguished from an earlier one"
            )


def _overwrite(tensor: torch.Tensor) -> None:
    plain_tensor = tensor.detach()
    if bool((plain_tensor.cpu() != 0).any()):
        plain_tensor.zero_()
    else:
        plain_tensor.fill_(1)


def clean_refusal(target: Target, recorder: Recorder, sample: Sample, error: Exception) -> bool:
    """Count whether an error at capture is an answer: of the right type, with words in it."""
    good = refusals.is_deliberate_error(error) and bool(str(error).strip())
    message = (
        f"capture is refused by {one_line(error)}, which is not a clean error (RuntimeError with a reason)."
    )
    return fact(recorder, good, Kind.ERROR_TYPE, message, sample=sample.index)
