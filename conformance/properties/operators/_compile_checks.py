"""The shared parts of the properties of mode ``compile``: which results exist, calls, and proofs of
compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.device.compilation import compile_with_log
from conformance.framework.calls import CallOutcome, attempt, one_line
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import Reference
from conformance.properties import mode_exclusions
from conformance.properties.shared.distribution_tests import RAW
from conformance.properties.shared.dtypes import dtype_under_test, pristine
from conformance.properties.shared.execution import _with_expected, report_failed_call, run
from conformance.samples import sample_limit
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Each of these is another graph; what a graph does not see (float64, float16) is left to eager mode.
DTYPES = ("float32", "bfloat16", "complex64", "int64", "bool")

#: Operators that torch's database wraps so that a generator is seeded, which breaks every graph.
_UNSEEDED: dict[str, Callable[..., Any]] = {
    **RAW,
    "empty_strided": torch.empty_strided,
    "nn.functional.feature_alpha_dropout.without_train": torch.nn.functional.feature_alpha_dropout,
    "nn.functional.multi_head_attention_forward": torch.nn.functional.multi_head_attention_forward,
    "nn.functional.rrelu": torch.nn.functional.rrelu,
    "nn.functional.scaled_dot_product_attention": torch.nn.functional.scaled_dot_product_attention,
}


def has_graph(subject: Subject) -> bool:
    """Return whether results exist: Dynamo can put the operator into a graph at all."""
    return subject.name not in mode_exclusions.reasons("compile", "no_graph")


def is_seeded(subject: Subject) -> bool:
    """Return whether torch's database seeds a generator around the operator."""
    return subject.name in _UNSEEDED


def unseeded_operator(subject: Subject) -> Callable[..., Any]:
    """Return the operator of an entry without the seeding around it; a test's broken one as it is."""
    op: Callable[..., Any] = subject.info.op
    return _UNSEEDED.get(subject.name, op) if op is pristine(subject).op else op


def cases(
    target: Target, subject: Subject, recorder: Recorder, limit: int
) -> Iterator[tuple[Sample, Reference]]:
    """Yield samples that differ in the form of the call, with the oracle's values."""
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    yield from _with_expected(
        target, subject, recorder, dtype, samples, samples.varied(sample_limit.limit(limit))
    )


class Compiler:
    """Compiles calls for one result and keeps count of those that ran as a graph."""

    def __init__(self, target: Target, recorder: Recorder, *, fused: bool = False) -> None:
        self.target = target
        self.recorder = recorder
        self.fused = fused
        self.captured = 0
        #: The outcome of the call before, if there was one.
        self.first: CallOutcome | None = None
        self.reasons: list[str] = []

    def call(
        self,
        sample: Sample,
        function: Callable[..., Any],
        work: Callable[[Callable[..., Any]], Any],
        on_cpu: Callable[[Callable[..., Any]], Any],
        *,
        reference: Callable[..., Any] | None = None,
        label: str = "the compiled operator",
    ) -> CallOutcome | None:
        """Return the outcome of ``work`` with ``function`` compiled, or None if there is nothing to compare.

        If it raises, ``on_cpu`` shows whose fault it is: it does the same with ``reference`` (default:
        ``function``) captured on the CPU, no backend behind it. A failure there too is torch's own limit.
        """
        call, log = compile_with_log(self.target, function, fused=self.fused)
        outcome = attempt(lambda: work(call))
        if isinstance(outcome.value, CallOutcome):
            outcome = outcome.value
        if outcome.ok:
            self.captured += log.ran_a_call
            if not log.ran_a_call:
                self.reasons.append("no graph with a call in it ran")
            return outcome
        assert outcome.error is not None
        again, _ = compile_with_log(None, reference or function)
        captured = attempt(lambda: on_cpu(again))
        if not captured.ok:
            assert captured.error is not None
            text = f"sample {sample.index} is not captured on the CPU either: {one_line(captured.error, 160)}"
            self.recorder.note(text)
            self.reasons.append(text)
            return None
        report_failed_call(self.target, self.recorder, sample, outcome, label)
        return None

    def forward(
        self,
        sample: Sample,
        copy: Sample,
        function: Callable[..., Any],
        reference: Callable[..., Any],
        *,
        again: Sample | None = None,
        **words: Any,
    ) -> CallOutcome | None:
        """Call ``function``, compiled and without gradients, on the device's copy of a sample.

        With ``again``, a copy of its own, the compiled operator is called on that first: what a backend does
        the first time (tracing, learning, capturing) need not be what it does from then on.
        """

        def on_cpu(call: Callable[..., Any]) -> Any:
            with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), torch.no_grad():
                return to_host(sample).call(call)

        def work(call: Callable[..., Any]) -> Any:
            if again is not None:
                first = run(self.target, call, again)
                if not first.ok:
                    return first
                self.first = first
            return run(self.target, call, copy)

        return self.call(
            sample,
            function,
            work,
            on_cpu,
            reference=reference,
            **words,
        )

    def settle(self) -> None:
        """Mark the result vacuous if no call of it ran as a graph."""
        if not self.captured:
            reason = self.reasons[0] if self.reasons else "no sample was compiled"
            self.recorder.vacuous(f"nothing of the subject ran compiled: {reason}")
