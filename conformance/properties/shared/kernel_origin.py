"""Look up in torch's dispatch table which kernel a backend runs for an overload."""

from __future__ import annotations

import functools

import torch

from conformance.model.verdicts import Placement

_COMPOSITES = (
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def _has_kernel(name: str, key: str) -> bool:
    """Return whether an overload has a kernel that is registered for a dispatch key."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


@functools.cache
def composite_key(name: str, key: str) -> torch._C.DispatchKey | None:
    """Return the key of torch's composite kernel that an overload runs on a backend.

    ``key`` is the dispatch key of the backend. The result is None if the overload runs another kernel.
    """
    try:
        if not key or _has_kernel(name, key):
            return None
        composite_name = next((composite for composite in _COMPOSITES if _has_kernel(name, composite)), None)
    except RuntimeError:
        return None
    return None if composite_name is None else getattr(torch._C.DispatchKey, composite_name)


@functools.cache
def placement_by_dispatch_table(name: str, key: str) -> Placement:
    """Return the placement of an overload that is not composite.

    The placement is NATIVE if the dispatch table has a kernel for ``key``, and FALLBACK if it does not. It is
    UNKNOWN if ``key`` is empty or the table does not contain the overload.
    """
    if not key:
        return Placement.UNKNOWN
    try:
        return Placement.NATIVE if _has_kernel(name, key) else Placement.FALLBACK
    except RuntimeError:
        return Placement.UNKNOWN
