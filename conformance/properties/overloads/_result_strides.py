"""The strides of results: those by which torch.compile plans memory."""

from __future__ import annotations

import itertools

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.overloads._modified_calls import mapped
from conformance.properties.overloads._references import OverloadReference, call_without_warnings
from conformance.properties.shared.execution import copy_in, run
from conformance.samples.operators import Sample
from conformance.target.target import Target


def hold_strides(target: Target, recorder: Recorder, reference: OverloadReference) -> None:
    """Check that results of dense arguments have the strides that are promised."""
    due = promised(reference)
    copy = copy_in(target, recorder, reference.sample) if any(one is not None for one in due) else None
    outcome = None if copy is None else run(target, reference.subject.info.op, copy)
    if outcome is None or not outcome.ok:
        return
    results = zip(trees.tensors(outcome.value), trees.tensors(reference.outputs), due, strict=False)
    for number, (value, plain, strides) in enumerate(results):
        if strides is not None and value.shape == plain.shape:
            got, want = list(value.stride()), list(plain.stride())
            text = f"part {number} of the result has strides {got}, expected {want}."
            fact(recorder, _moving(value) == strides, Kind.METADATA, text, sample=reference.sample.index)


def promised(reference: OverloadReference) -> list[list[int] | None]:
    """Return for each result the strides that move anything; None if no device is held to any.

    They are those of torch's Meta kernel, unless there is none or the CPU has others.
    """
    due = attempt(lambda: call_without_warnings(reference.overload.op, on_meta(reference.sample)))
    parts = trees.tensors(reference.outputs)
    if due.ok:
        planned = trees.tensors(due.value)
    elif torch.Tag.dynamic_output_shape in reference.overload.op.tags:
        planned = parts  # Meta cannot know a size that depends on values
    else:
        planned = []
    pairs = itertools.zip_longest(map(_moving, parts), map(_moving, planned[: len(parts)]))
    return [mine if mine == theirs else None for mine, theirs in pairs]


def _moving(tensor: torch.Tensor) -> list[int]:
    """The strides that move anything."""
    if not tensor.numel():
        return []
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def on_meta(sample: Sample) -> Sample:
    """Return the call with tensors that have no values."""
    return mapped(
        sample,
        lambda tensor: torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"),
    )
