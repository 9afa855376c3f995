"""Inputs that must be refused, from torch's database."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from conformance import torch_private
from conformance.invocation import Outcome, attempt, report_error
from conformance.properties.operators._common import run
from conformance.recorder import Recorder
from conformance.samples import wrap
from conformance.subjects import Subject, find
from conformance.target import Target


@functools.lru_cache(maxsize=None)
def count(name: str) -> int:
    """How many error inputs an operator has on the CPU."""
    found = attempt(lambda: torch_private.error_inputs(find("operator", name).info, "cpu", seed=0))
    return len(found.value) if found.ok else 0


def outcomes(target: Target, subject: Subject, recorder: Recorder) -> Iterator[tuple[int, str, Any, Outcome]]:
    """(index, arguments in words, torch's ErrorInput, outcome on the device) of every error input."""
    seed = torch_private.seed_for("errors", subject.name)
    made = attempt(lambda: torch_private.error_inputs(subject.info, target.device, seed=seed))
    if not made.ok:
        assert made.error is not None
        report_error(target, recorder, made.error, what="making the wrong arguments on the device")
        return
    recorder.samples(len(made.value), len(made.value))
    for index, item in enumerate(made.value):
        sample = wrap([item.sample_input])[0].replace(index=index)
        yield index, sample.describe(), item, run(target, subject.info.op, sample, grad=True)
