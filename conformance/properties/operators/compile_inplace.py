"""Compiled in-place calls write to their input."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.reference import Reference
from conformance.properties import mode_exclusions
from conformance.properties.operators import _compile_checks
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes, pristine
from conformance.properties.shared.execution import copy_in
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not callable(subject.info.inplace_variant):
        return []
    if not _compile_checks.has_graph(subject) or _compile_checks.is_seeded(subject):
        return []  # compile_random checks operators that draw in place
    if changes_metadata(subject.info.name) or subject.name in mode_exclusions.reasons(
        "compile", "no_inplace_graph"
    ):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool"), 2)


def changes_metadata(name: str) -> bool:
    """Return whether the in-place form gives its input another shape, which no graph may do to its inputs."""
    packet = getattr(torch.ops.aten, name.rpartition(".")[2] + "_", None)
    overloads = packet.overloads() if packet is not None and hasattr(packet, "overloads") else []
    return any(torch.Tag.inplace_view in getattr(packet, overload).tags for overload in overloads)


def fits(sample: Sample, want: Reference) -> bool:
    """Return whether the result can be written to the first input."""
    given, result = sample.input, want.outputs
    return (
        isinstance(given, torch.Tensor)
        and isinstance(result, torch.Tensor)
        and given.layout is torch.strided
        and result.dtype == given.dtype
        and result.shape == given.shape
    )


@register(
    "compile_inplace",
    subject_kind="operator",
    statement="Compiled, the in-place form returns its input, with its memory, holding the oracle's value.",
    documentation="generated/torch.compile.html",
    level="core",
    applies=applies,
    capabilities=("compile", "inplace"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    compiler = _compile_checks.Compiler(target, recorder)
    fitting = 0
    for sample, want in _compile_checks.cases(target, subject, recorder, 2 * LIMIT):
        if not fits(sample, want) or fitting == LIMIT:
            continue
        fitting += 1
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        given, address = copy.input, copy.input.data_ptr()
        form, reference = subject.info.inplace_variant, pristine(subject).inplace_variant
        again = copy_in(target, recorder, sample)
        outcome = compiler.forward(
            sample, copy, form, reference, again=again, label="the compiled in-place form"
        )
        if outcome is None:
            continue
        index = sample.index
        same = outcome.value is given
        fact(recorder, same, Kind.ALIASING, "the compiled form returns another tensor.", sample=index)
        message = "the compiled form has moved its input to other memory."
        fact(recorder, given.data_ptr() == address, Kind.ALIASING, message, sample=index)
        what = "the input after the compiled in-place form"
        compare_outputs(target, recorder, subject, sample, given, want, label=what)
    if fitting:
        compiler.settle()
    else:
        recorder.note("no sample has a result that fits into its input")
        recorder.compared(1)
