"""Shared code of the properties of mode ``compile``: subjects, compiled calls and proof of compilation."""

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
from conformance.properties.shared.distribution_tests import UNSEEDED_OPERATORS
from conformance.properties.shared.dtypes import dtype_under_test, unmodified_info
from conformance.properties.shared.execution import pair_with_references, report_failed_call, run_operator
from conformance.samples import sample_limit
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The dtypes that mode ``compile`` checks, because their graphs can differ. float64 and float16 give no
#: further graphs; mode eager checks these dtypes.
DTYPES = ("float32", "bfloat16", "complex64", "int64", "bool")

#: Maps each operator that torch's database wraps in a function that seeds a generator to the operator without
#: this wrapper. Seeding breaks every graph.
_UNSEEDED: dict[str, Callable[..., Any]] = {
    **UNSEEDED_OPERATORS,
    "empty_strided": torch.empty_strided,
    "nn.functional.feature_alpha_dropout.without_train": torch.nn.functional.feature_alpha_dropout,
    "nn.functional.multi_head_attention_forward": torch.nn.functional.multi_head_attention_forward,
    "nn.functional.rrelu": torch.nn.functional.rrelu,
    "nn.functional.scaled_dot_product_attention": torch.nn.functional.scaled_dot_product_attention,
}


def can_be_captured_by_dynamo(subject: Subject) -> bool:
    """Return whether Dynamo can capture the operator in a graph, so that properties of mode ``compile``
    apply.
    """
    return subject.name not in mode_exclusions.exclusion_reasons("compile", "no_graph")


def is_seeded(subject: Subject) -> bool:
    """Return whether torch's database wraps the operator in a function that seeds a generator."""
    return subject.name in _UNSEEDED


def unseeded_operator(subject: Subject) -> Callable[..., Any]:
    """Return the operator of a subject without the wrapper of torch's database that seeds a generator.

    If a test has replaced the operator by a broken one, the broken operator is returned unchanged.
    """
    op: Callable[..., Any] = subject.info.op
    return _UNSEEDED.get(subject.name, op) if op is unmodified_info(subject).op else op


def varied_samples_with_references(
    target: Target, subject: Subject, recorder: Recorder, limit: int
) -> Iterator[tuple[Sample, Reference]]:
    """Yield samples, preferably with arguments of different types and ranks, and their references."""
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    recorder.samples(0, samples.available)
    yield from pair_with_references(
        target, subject, recorder, dtype, samples, samples.varied(sample_limit.limit(limit))
    )


class CompiledCallRunner:
    """Compiles the calls of one result, and counts the calls that ran as a graph."""

    def __init__(self, target: Target, recorder: Recorder, *, fused: bool = False) -> None:
        self.target = target
        self.recorder = recorder
        self.fused = fused
        self.graph_call_count = 0
        #: The outcome of the first call if :meth:`call_without_gradients` made two calls.
        self.first_outcome: CallOutcome | None = None
        self.exclusion_reasons: list[str] = []

    def call(
        self,
        sample: Sample,
        function: Callable[..., Any],
        work: Callable[[Callable[..., Any]], Any],
        on_cpu: Callable[[Callable[..., Any]], Any],
        *,
        cpu_function: Callable[..., Any] | None = None,
        label: str = "the compiled operator",
    ) -> CallOutcome | None:
        """Return the outcome of ``work(compiled)``, with ``function`` compiled for the device.

        The result is None if ``work`` raises. ``on_cpu`` then repeats the work on the CPU, with
        ``cpu_function`` (default: ``function``) captured without a backend. If ``on_cpu`` raises too, the
        error is a limit of torch and becomes a note. Otherwise the error is a failure of the device.
        """
        call, log = compile_with_log(self.target, function, fused=self.fused)
        outcome = attempt(lambda: work(call))
        if isinstance(outcome.value, CallOutcome):
            outcome = outcome.value
        if outcome.ok:
            self.graph_call_count += log.has_run_operator_calls
            if not log.has_run_operator_calls:
                self.exclusion_reasons.append("no graph that contains a call ran")
            return outcome
        assert outcome.error is not None
        cpu_compiled, _ = compile_with_log(None, cpu_function or function)
        captured = attempt(lambda: on_cpu(cpu_compiled))
        if not captured.ok:
            assert captured.error is not None
            text = f"sample {sample.index} is not captured on the CPU either: {one_line(captured.error, 160)}"
            self.recorder.note(text)
            self.exclusion_reasons.append(text)
            return None
        report_failed_call(self.target, self.recorder, sample, outcome, label)
        return None

    def call_without_gradients(
        self,
        sample: Sample,
        copy: Sample,
        function: Callable[..., Any],
        cpu_function: Callable[..., Any],
        *,
        first_copy: Sample | None = None,
        **options: Any,
    ) -> CallOutcome | None:
        """Call ``function``, compiled and without gradients, on the device's copy of a sample.

        If ``first_copy`` is given, the compiled operator is called on it first. A backend may behave
        differently in its first call, in which it traces, learns or captures.
        """

        def on_cpu(call: Callable[..., Any]) -> Any:
            with (
                torch_testing_internals.torch_seeded(0),
                torch_testing_internals.silence_warnings(),
                torch.no_grad(),
            ):
                return to_host(sample).call(call)

        def call_device_copies(call: Callable[..., Any]) -> Any:
            if first_copy is not None:
                first_outcome = run_operator(self.target, call, first_copy)
                if not first_outcome.ok:
                    return first_outcome
                self.first_outcome = first_outcome
            return run_operator(self.target, call, copy)

        return self.call(
            sample,
            function,
            call_device_copies,
            on_cpu,
            cpu_function=cpu_function,
            **options,
        )

    def require_evidence(self) -> None:
        """Mark the result as vacuous if no compiled call ran as a graph."""
        if not self.graph_call_count:
            reason = self.exclusion_reasons[0] if self.exclusion_reasons else "no sample was compiled"
            self.recorder.vacuous(f"no call of the subject ran compiled: {reason}")
