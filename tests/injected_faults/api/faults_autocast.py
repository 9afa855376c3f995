"""Faults of autocast: casts that are missing, and casts of weights as they were."""

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
def no_casts(lab: Lab) -> Iterator[None]:
    """Autocast is entered and casts nothing."""
    right = declared._call_under_autocast

    def call(lab: Lab, op: Any, given: Any, options: Any, *dtypes: torch.dtype, **how: Any) -> Any:
        return op(*given, **options) if lab.on_target else right(lab, op, given, options, *dtypes, **how)

    declared._call_under_autocast = call
    try:
        yield
    finally:
        declared._call_under_autocast = right


@contextlib.contextmanager
def old_weights(lab: Lab) -> Iterator[None]:
    """Arguments are those of the first call, as in a cache of casts that never ends."""
    right = declared._call_under_autocast
    kept: dict[int, Any] = {}

    def call(lab: Lab, op: Any, given: Any, *rest: Any, **how: Any) -> Any:
        if lab.on_target:
            copies = trees.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, list(given))
            given = kept.setdefault(id(given), copies)
        return right(lab, op, given, *rest, **how)

    declared._call_under_autocast = call
    try:
        yield
    finally:
        declared._call_under_autocast = right


NAMED["operators-declared-to-be-lowered"] = old_weights
NAMED["operators-declared-to-keep-float32"] = no_casts
NAMED["operators-declared-to-promote"] = no_casts
