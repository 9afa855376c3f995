"""Property: a bool is true for any nonzero byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt_on
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators._transformed_samples import DEFINED_BY_MEMORY
from conformance.properties.shared.comparison import SAME_BITS_AGREE, compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtypes_of
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    samples_with_references,
)
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 4


def with_nonstandard_true_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same bools on their device, with True stored as bytes from 2 to 255."""
    if tensor.dtype != torch.bool or tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    positions = torch.arange(tensor.numel(), dtype=torch.int64).reshape(tensor.shape)
    numbers = (2 + positions * 37 % 254).to(torch.uint8).to(tensor.device)
    return (numbers * tensor.to(torch.uint8)).view(torch.bool)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name in DEFINED_BY_MEMORY:
        return []
    return dtypes_of(target, subject, ("bool",))


@register(
    "bool-bytes",
    subject_kind="operator",
    statement="A bool that view(torch.bool) makes of a byte from 2 to 255 behaves like any other True.",
    documentation="generated/torch.Tensor.view.html",
    basis="parity",
    ground="No page says how a bool whose byte is neither 0 nor 1 behaves",
    level="full",
    applies=dtypes_to_check,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator on bools made of bytes from 2 to 255 and compare with the reference."""
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue

        def with_bools_of_bytes(copy: Sample = copy) -> Sample:
            def leaf(value: Any) -> Any:
                return with_nonstandard_true_bytes(value) if isinstance(value, torch.Tensor) else value

            input, args, kwargs = trees.tree_map(leaf, copy.arguments)
            return copy.replace(input=input, args=args, kwargs=kwargs)

        converted = attempt_on(target, with_bools_of_bytes)
        if not converted.ok:
            report_failed_call(target, recorder, sample, converted, "making bools of bytes")
            continue
        outcome = run_operator(target, subject.info.op, converted.value)
        if outcome.ok:
            label = "the result for bools stored as bytes from 2 to 255"
            compare_outputs(target, recorder, reference, outcome.value, label=label, policy=SAME_BITS_AGREE)
        else:
            report_failed_call(target, recorder, sample, outcome)
