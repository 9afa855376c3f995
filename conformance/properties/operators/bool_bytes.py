"""Booleans are true whatever the bits of their byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt_on
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtypes_of
from conformance.properties.shared.execution import cases, copy_in, report_failed_call, run
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def odd_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same booleans on their device, true ones stored as bytes from 2 to 255."""
    if tensor.dtype != torch.bool or tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    places = torch.arange(tensor.numel(), dtype=torch.int64).reshape(tensor.shape)
    numbers = (2 + places * 37 % 254).to(torch.uint8).to(tensor.device)
    return (numbers * tensor.to(torch.uint8)).view(torch.bool)


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in ABOUT_MEMORY:
        return []
    return dtypes_of(target, subject, ("bool",))


@register(
    "bool-bytes",
    subject_kind="operator",
    statement="Booleans that view(torch.bool) makes of bytes from 2 to 255 are true like any others.",
    documentation="generated/torch.Tensor.view.html",
    level="full",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    for sample, want in cases(target, subject, recorder, LIMIT):
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue

        def changed(copy: Sample = copy) -> Sample:
            def leaf(value: Any) -> Any:
                return odd_bytes(value) if isinstance(value, torch.Tensor) else value

            input, args, kwargs = trees.tree_map(leaf, copy.arguments)
            return copy.replace(input=input, args=args, kwargs=kwargs)

        made = attempt_on(target, changed)
        if not made.ok:
            report_failed_call(target, recorder, sample, made, "making booleans of bytes")
            continue
        outcome = run(target, subject.info.op, made.value)
        if outcome.ok:
            what = "the result for booleans of other bytes"
            compare_outputs(target, recorder, subject, sample, outcome.value, want, label=what, bits=True)
        else:
            report_failed_call(target, recorder, sample, outcome)
