"""Dtypes of a target in which a property of an operator has results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework.recorder import Recorder
from conformance.samples.operators import dtype_name, dtype_of
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

COMPLEX = ("complex64", "complex128")


def declared(target: Target, subject: Subject) -> frozenset[str]:
    """Return the names of the dtypes that the target declares for an operator.

    They are its own list, else those that the CPU supports.
    """
    listed = target.dtype_overrides.get(subject.name)
    if listed is not None:
        return listed
    return (
        frozenset(dtype_name(d) for d in torch_testing_internals.forward_dtypes(subject.info)) & target.dtypes
    )


def dtypes_of(target: Target, subject: Subject, among: Sequence[str] | None = None) -> list[str]:
    """Return the declared dtypes for which the CPU has an oracle, in order of ``among`` or of their names."""
    able = {dtype_name(d) for d in torch_testing_internals.forward_dtypes(subject.info)}
    names = declared(target, subject) & able
    return [name for name in among if name in names] if among is not None else sorted(names)


def first_dtypes(target: Target, subject: Subject, among: Sequence[str], count: int = 1) -> list[str]:
    """Return the first ``count`` dtypes of ``among`` that the target declares for the operator."""
    return dtypes_of(target, subject, among)[:count]


def has_fixed_derivative(subject: Subject) -> bool:
    """Return whether derivatives are dense and the same everywhere.

    Those of sparse arguments are sparse, which no property here compares; those of the low-rank
    factorisations follow a random start that each device draws for itself; mode passes its gradient to any
    of the values that appear most often, all of which do in most samples.
    """
    free = ("svd_lowrank", "pca_lowrank", "mode")
    return not subject.name.startswith("sparse.") and subject.name not in free


def differentiable(target: Target, subject: Subject, among: Sequence[str]) -> list[str]:
    """Return the dtypes of ``among`` with a backward on the CPU that the target declares."""
    info = subject.info
    if not info.supports_autograd or not has_fixed_derivative(subject):
        return []
    able = {dtype_name(d) for d in torch_testing_internals.backward_dtypes(info)}
    return [name for name in dtypes_of(target, subject, among) if name in able]


def dtype_under_test(recorder: Recorder) -> torch.dtype:
    """Return the dtype of the result that is being recorded."""
    return dtype_of(recorder.id.dtype)


def pristine(subject: Subject) -> Any:
    """Return torch's own record of the operator, even if a test hands in a broken one."""
    return find(subject.kind, subject.name).info
