"""Select the dtypes in which a property of an operator has results on a target."""

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


def declared_dtypes(target: Target, subject: Subject) -> frozenset[str]:
    """Return the names of the dtypes that the target declares for an operator.

    If the target lists dtypes for the operator, return this list. Otherwise return the target's dtypes that
    the CPU supports for the operator.
    """
    listed = target.dtype_overrides.get(subject.name)
    if listed is not None:
        return listed
    return (
        frozenset(dtype_name(d) for d in torch_testing_internals.forward_dtypes(subject.info)) & target.dtypes
    )


def dtypes_of(target: Target, subject: Subject, among: Sequence[str] | None = None) -> list[str]:
    """Return the declared dtypes of an operator that the CPU supports, so that references exist.

    The dtypes are in the order of ``among``, which restricts them, or sorted by name.
    """
    supported = {dtype_name(d) for d in torch_testing_internals.forward_dtypes(subject.info)}
    names = declared_dtypes(target, subject) & supported
    return [name for name in among if name in names] if among is not None else sorted(names)


def first_dtypes(target: Target, subject: Subject, among: Sequence[str], count: int = 1) -> list[str]:
    """Return the first ``count`` dtypes of ``among`` that the target declares for the operator."""
    return dtypes_of(target, subject, among)[:count]


def has_fixed_derivative(subject: Subject) -> bool:
    """Return whether the operator's derivatives are dense and specified.

    Derivatives of sparse arguments are sparse, and no property compares them. Derivatives of the low-rank
    factorisations depend on a random start that each device draws. ``mode`` passes its gradient to any of the
    most frequent values, and in most samples all values are equally frequent.
    """
    unspecified = ("svd_lowrank", "pca_lowrank", "mode")
    return not subject.name.startswith("sparse.") and subject.name not in unspecified


def differentiable_dtypes(target: Target, subject: Subject, among: Sequence[str]) -> list[str]:
    """Return the dtypes of ``among`` that the target declares and for which the CPU has a backward."""
    info = subject.info
    if not info.supports_autograd or not has_fixed_derivative(subject):
        return []
    supported = {dtype_name(d) for d in torch_testing_internals.backward_dtypes(info)}
    return [name for name in dtypes_of(target, subject, among) if name in supported]


def derivatives_crash(target: Target, dtype: str) -> bool:
    """Return True if derivatives in a dtype need conjugate views, which terminate the target's process.

    Autograd makes such views in the derivatives of complex operators.
    """
    return "conj_neg_views" in target.crashing and dtype.startswith("complex")


def dtype_under_test(recorder: Recorder) -> torch.dtype:
    """Return the dtype of the recorded result."""
    return dtype_of(recorder.id.dtype)


def unmodified_info(subject: Subject) -> Any:
    """Return torch's own OpInfo of the operator, even if a test passes a broken subject."""
    return find(subject.kind, subject.name).info
