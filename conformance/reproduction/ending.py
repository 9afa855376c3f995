"""Snippets of calls that take the process down: each is on disk before the call is made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.checking import trees
from conformance.reproduction import short, tape, whole
from conformance.reproduction.guard import Watch
from conformance.reproduction.making import title_of
from conformance.reproduction.modules import Unwritable
from conformance.reproduction.tape import Call, Comparison
from conformance.reproduction.trial import Trial
from conformance.samples.modules import module_samples
from conformance.samples.operators import samples_of
from conformance.samples.optimizers import optimizer_samples

_ADVICE = "Ends the process, or hangs, while the failure is there; exits with 0 once it is gone."


def make_samples(trial: Trial) -> None:
    """Make the samples that a check may take from, without running it."""
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


def traced(trial: Trial, watch: Watch, say: Callable[[str], None]) -> int:
    """Run the check with the snippet of each call written to the watch's file before the call."""
    assert watch.trace is not None
    path = watch.trace
    title = title_of(trial)
    make_samples(trial)
    with contextlib.suppress(Unwritable):
        path.write_text(whole.write(trial, title=title, advice=_ADVICE, rules=False).text)
    sources: dict[int, Any] = {}
    to_device, run = tape.originals()

    def watched_copy(sample: Any, *args: Any, **kwargs: Any) -> Any:
        copy = to_device(sample, *args, **kwargs)
        for tensor in trees.tensors(copy.arguments) if copy is not None else ():
            sources[id(tensor)] = (copy, sample)
        return copy

    def watched_run(target: Any, op: Any, sample: Any, *, grad: bool = False) -> Any:
        known = [sources[id(one)] for one in sample.tensors() if id(one) in sources]
        if known and len(list(trees.leaves(known[0][1].arguments))) == len(
            list(trees.leaves(sample.arguments))
        ):
            call = Call(op, known[0][1], sample, grad, error=RuntimeError("not yet"))
            with contextlib.suppress(Unwritable):
                made = short.write(
                    target, Comparison(call), title=title, statement=trial.entry.statement, advice=_ADVICE
                )
                path.write_text(made.text)
        return run(target, op, sample, grad=grad)

    with tape.replaced(to_device, watched_copy), tape.replaced(run, watched_run):
        result = trial.run()
    say(f"this time: {result.verdict.value}")
    path.unlink(missing_ok=True)
    return 1
