"""Write the snippet of a call that terminates the process. Each call's snippet is on disk before the call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.reproduction import call_recorder, call_snippet, check_snippet
from conformance.reproduction.call_recorder import CallRecorder, FailedComparison
from conformance.reproduction.guarded_run import GuardedRunLink
from conformance.reproduction.module_ast import NotWritableAsSource
from conformance.reproduction.rerun import RerunTrial
from conformance.samples.copies import to_device
from conformance.samples.modules import module_samples
from conformance.samples.operators import samples_of
from conformance.samples.optimizers import optimizer_samples

_ADVICE = "Terminates the process, or hangs, while the failure exists. Exits with 0 once it is fixed."


def make_samples(trial: RerunTrial) -> None:
    """Create and cache the samples that the check of a trial may use, without running the check."""
    dtype, subject = getattr(torch, trial.id.dtype, None), trial.subject
    if not isinstance(dtype, torch.dtype):
        return
    with contextlib.suppress(Exception):
        if subject.kind == "operator":
            samples_of(subject, dtype)
            if trial.target.capable("autograd") and subject.info.supports_autograd:
                samples_of(subject, dtype, requires_grad=True)
        elif subject.kind == "module":
            module_samples(subject, dtype)
        elif subject.kind == "optimizer":
            for capturable in {False, trial.target.capable("capturable_optimizers")}:
                optimizer_samples(subject, dtype, capturable=capturable)


def run_with_trace(trial: RerunTrial, watch: GuardedRunLink, report_line: Callable[[str], None]) -> int:
    """Run the check, and write the snippet of each call to the trace file before the call.

    Return 1 in any case, because the process crashed in an earlier run.
    """
    assert watch.trace is not None
    path = watch.trace
    make_samples(trial)
    with contextlib.suppress(NotWritableAsSource):
        path.write_text(check_snippet.write_check_snippet(trial, advice=_ADVICE, rules=False).text)
    calls = CallRecorder()

    def run(target: Any, op: Any, sample: Any, *, grad: bool = False) -> Any:
        call = calls.call(op, sample, grad=grad)
        if call is not None:
            call.error = RuntimeError("not yet")
            with contextlib.suppress(NotWritableAsSource):
                path.write_text(
                    call_snippet.write_call_snippet(trial, FailedComparison(call), advice=_ADVICE).text
                )
        return call_recorder.RUN(target, op, sample, grad=grad)

    with (
        call_recorder.replaced_in_suite_modules(to_device, calls.to_device),
        call_recorder.replaced_in_suite_modules(call_recorder.RUN, run),
    ):
        result = trial.run()
    report_line(f"this time: {result.verdict.value}")
    path.unlink(missing_ok=True)
    return 1
