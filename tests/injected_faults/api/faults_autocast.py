"""Faults of autocast: missing casts, and casts of outdated weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from conformance.behaviours.lab import Lab
from conformance.framework import trees
from conformance.properties.api.autocast import declared
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def autocast_disabled(lab: Lab) -> Iterator[None]:
    """Run operators on the device side without autocast."""
    right = declared._call_under_autocast

    def faulty_call(lab: Lab, op: Any, arguments: Any, options: Any, *dtypes: torch.dtype, **how: Any) -> Any:
        return (
            op(*arguments, **options) if lab.on_target else right(lab, op, arguments, options, *dtypes, **how)
        )

    declared._call_under_autocast = faulty_call
    try:
        yield
    finally:
        declared._call_under_autocast = right


@contextlib.contextmanager
def first_argument_values_reused(lab: Lab) -> Iterator[None]:
    """Run repeated calls with the argument values of the first call, like a cast cache that is
    never cleared.
    """
    right = declared._call_under_autocast
    old_copies: dict[int, Any] = {}

    def faulty_call(lab: Lab, op: Any, arguments: Any, *rest: Any, **how: Any) -> Any:
        if lab.on_target:
            copies = trees.tree_map(
                lambda x: x.clone() if isinstance(x, torch.Tensor) else x, list(arguments)
            )
            arguments = old_copies.setdefault(id(arguments), copies)
        return right(lab, op, arguments, *rest, **how)

    declared._call_under_autocast = faulty_call
    try:
        yield
    finally:
        declared._call_under_autocast = right


NAMED["operators-declared-to-be-lowered"] = first_argument_values_reused
NAMED["operators-declared-to-keep-float32"] = autocast_disabled
NAMED["operators-declared-to-promote"] = autocast_disabled
