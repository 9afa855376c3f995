"""Property: composite operators support tensor subclasses."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt, one_line, report_error
from conformance.framework.compare import compare_values, fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.reference import Reference
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import copy_sample_to_device, samples_with_references
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2
MOST_TENSORS = 6
#: Operators that are not checked, because their purpose is to read a value or to change the memory of an
#: argument.
_OUTSIDE = frozenset({"item", "resize_", "resize_as_"})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if (
        torch_testing_internals.composite_checks() is None
        or subject.name in _OUTSIDE
        or subject.name.startswith("sparse.")
    ):
        return []
    return first_dtypes(target, subject, ("float32", "complex64", "int64", "bool"))


@register(
    "composite",
    subject_kind="operator",
    statement=(
        "A composite operator calls only operators and functions that tensor subclasses and modes can handle."
    ),
    documentation="notes/extending.html",
    basis="parity",
    ground="No page demands composite compliance; only torch's own tests and README define it",
    level="full",
    applies=dtypes_to_check,
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run torch's composite compliance checks on each sample."""
    checks = torch_testing_internals.composite_checks()
    assert checks is not None
    for sample, reference in samples_with_references(target, subject, recorder, LIMIT):
        unspecified = relations.is_only_metadata_specified(subject.name, sample)
        index = sample.index

        def equal(
            actual: Any,
            expected: Any,
            unspecified: bool = unspecified,
            index: int = index,
            reference: Reference = reference,
        ) -> None:
            if unspecified or not isinstance(expected, torch.Tensor) or expected.is_meta:
                return
            applied = rule(subject.name, expected.dtype)
            bound = applied.tolerance(
                expected.dtype,
                reference.coarsest_dtype,
                elements=reference.elements,
                precision=target.precision,
            )
            compare_values(
                recorder,
                actual,
                expected,
                tolerance=bound.widened(2),
                label="the result with a subclass",
                sample=index,
                sensitivity=_sensitivity_of(reference, expected),
            )

        names = ["check_with_mode"]
        if len(sample.tensors()) <= MOST_TENSORS:  # the checker tries every subset of the tensors
            names.append("check_all_permutations")
        for name in names:
            copy = copy_sample_to_device(target, recorder, sample)
            if copy is None:
                continue

            def call(name: str = name, copy: Any = copy, equal: Any = equal) -> None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    getattr(checks, name)(subject.info.op, (copy.input, *copy.args), copy.kwargs, equal)

            outcome = attempt(call)
            if outcome.error is not None and "could not run '" in str(outcome.error).lower():
                # A missing kernel does not show that the operator is composed incorrectly. Record the error
                # as for any call that raises.
                recorder.compared(1)
                report_error(target, recorder, outcome.error, label=name, sample=index)
                continue
            message = "" if outcome.error is None else f"{name}: {one_line(outcome.error, 600)}"
            fact(recorder, outcome.ok, Kind.METADATA, message, sample=index)


def _sensitivity_of(reference: Reference, expected: torch.Tensor) -> torch.Tensor | None:
    """Return the sensitivity of the part of the reference that has the shape of ``expected``.

    With a subclass, the operator may run other kernels, which round differently. The comparison therefore
    needs the sensitivity.
    """
    for part, sensitivity in zip(trees.tensors(reference.outputs), reference.sensitivity, strict=False):
        if sensitivity is not None and part.shape == expected.shape:
            return sensitivity
    return None
