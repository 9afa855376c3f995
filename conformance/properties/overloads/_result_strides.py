"""Check the strides of results, because ``torch.compile`` relies on them when it plans memory."""

from __future__ import annotations

import itertools

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.compare import fact, significant_strides
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.overloads._modified_calls import with_mapped_tensors
from conformance.properties.overloads._references import OverloadReference, call_without_warnings
from conformance.properties.shared.execution import copy_sample_to_device, run_operator
from conformance.samples.operators import Sample
from conformance.target.target import Target


def check_strides(target: Target, recorder: Recorder, reference: OverloadReference) -> None:
    """Check that the results of dense arguments have the required strides, if the target has strides."""
    if not recorder.compares_strides:
        return
    required = required_strides(reference)
    copy = (
        copy_sample_to_device(target, recorder, reference.sample)
        if any(entry is not None for entry in required)
        else None
    )
    outcome = None if copy is None else run_operator(target, reference.subject.info.op, copy)
    if outcome is None or not outcome.ok:
        return
    results = zip(trees.tensors(outcome.value), trees.tensors(reference.outputs), required, strict=False)
    for number, (value, reference_output, strides) in enumerate(results):
        if strides is not None and value.shape == reference_output.shape:
            actual_strides, reference_strides = list(value.stride()), list(reference_output.stride())
            text = f"part {number} of the result has strides {actual_strides}, expected {reference_strides}."
            fact(
                recorder,
                significant_strides(value) == strides,
                Kind.METADATA,
                text,
                sample=reference.sample.index,
            )


def required_strides(reference: OverloadReference) -> list[list[int] | None]:
    """Return the required strides of each result, without dimensions of size 1.

    The strides of the CPU's result are required if torch's Meta kernel predicts them, or cannot predict the
    sizes because they depend on values. Otherwise the entry of the result is None.
    """
    meta_call = attempt(
        lambda: call_without_warnings(reference.overload.op, sample_on_meta(reference.sample))
    )
    parts = trees.tensors(reference.outputs)
    if meta_call.ok:
        planned = trees.tensors(meta_call.value)
    elif torch.Tag.dynamic_output_shape in reference.overload.op.tags:
        planned = parts  # the Meta kernel cannot predict a size that depends on values
    else:
        planned = []
    pairs = itertools.zip_longest(
        map(significant_strides, parts), map(significant_strides, planned[: len(parts)])
    )
    return [cpu_strides if cpu_strides == meta_strides else None for cpu_strides, meta_strides in pairs]


def sample_on_meta(sample: Sample) -> Sample:
    """Return the call with tensors on the meta device."""
    return with_mapped_tensors(
        sample,
        lambda tensor: torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"),
    )
