"""Entries of torch's dispatch table."""

from __future__ import annotations

import functools

import torch

from conformance.model.verdicts import Placement

_COMPOSITES = (
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def _has(name: str, key: str) -> bool:
    """Return True if an overload has a kernel that is registered under a key."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


@functools.cache
def composite_key(name: str, key: str) -> torch._C.DispatchKey | None:
    """Return the key of torch's composite kernel that an overload runs on a backend; None for any other."""
    try:
        if not key or _has(name, key):
            return None
        found = next((composite for composite in _COMPOSITES if _has(name, composite)), None)
    except RuntimeError:
        return None
    return None if found is None else getattr(torch._C.DispatchKey, found)


@functools.cache
def placed(name: str, key: str) -> Placement:
    """Return the origin of the kernel of an overload that is not composite, by the dispatch table."""
    if not key:
        return Placement.UNKNOWN
    try:
        return Placement.NATIVE if _has(name, key) else Placement.FALLBACK
    except RuntimeError:
        return Placement.UNKNOWN
