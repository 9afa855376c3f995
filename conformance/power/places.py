"""The places of kernel faults: the overloads for which a device has a kernel."""

from __future__ import annotations

from typing import Any

import torch

#: Namespaces whose overloads are places.
_NAMESPACES = ("aten::",)


def places(key: str) -> list[str]:
    """Return the overloads with a kernel under a dispatch key, sorted."""
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith(_NAMESPACES))
    return sorted(name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def schema(place: str) -> Any:
    """Return torch's schema of an overload."""
    name, _, overload = place.partition(".")
    return torch._C._get_schema(name, overload)


def is_random(place: str) -> bool:
    """Return True if an overload draws random numbers."""
    namespace, _, rest = place.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    return torch.Tag.nondeterministic_seeded in getattr(packet, overload or "default").tags
