"""The choice between torch's ``ProfilerActivity`` and one of the device's own.

The public bridge replaces ``torch.profiler.ProfilerActivity`` by an enumeration with the members CPU, CUDA
and HPU. lightning's profiler insists on that: it refuses activities of torch's own class. Other programs test
``isinstance(activity, torch._C._profiler.ProfilerActivity)``, which the replacement fails. torch 2.13 has HPU
in its own class, so that stays by default; ``HPU_REFERENCE_PROFILER_ACTIVITY=replaced`` is the bridge's way.
"""

from __future__ import annotations

import enum
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.profiler
from torch._C._profiler import ProfilerActivity as Native

from .wrap_function import replace

_VARIABLE = "HPU_REFERENCE_PROFILER_ACTIVITY"


class ProfilerActivity(enum.Enum):
    """Activities that a profile covers, as the public bridge has them."""

    CPU = 1
    CUDA = 2
    HPU = 3


class DebugActivity(enum.Enum):
    """Calls of the bridge's own layers, which the real one adds to a profile.

    The reference device has no layer beneath its kernels: `torch.profiler.profile` accepts them, and its rows
    are the same without. No public document lists the members; these are the simulator's own.
    """

    SYNAPSE_FUNCTION_CALLS = 1
    BRIDGE_FUNCTION_CALLS = 2


def choose() -> None:
    """Replace torch's class if the environment asks for it.

    Raises:
        ValueError: the variable is neither ``native`` nor ``replaced``.
    """
    choice = os.environ.get(_VARIABLE, "") or "native"
    if choice not in ("native", "replaced"):
        raise ValueError(f"{_VARIABLE}={choice!r} is no choice: use native or replaced")
    if choice == "native":
        return
    torch.profiler.ProfilerActivity = ProfilerActivity  # type: ignore[misc]
    for profiler in (torch.profiler.profile, torch.profiler.profiler._KinetoProfile):
        replace(profiler, "__init__", _taking_both)
    replace(torch.profiler, "supported_activities", _giving_own)


def _native(activities: Iterable[Any] | None) -> list[Any] | None:
    if activities is None:
        return None
    activities = list(activities)
    own = [one for one in activities if isinstance(one, ProfilerActivity)]
    others = [one for one in activities if not isinstance(one, ProfilerActivity)]
    if lacking := [one.name for one in own if one.name not in Native.__members__]:
        warnings.warn(
            f"torch {torch.__version__} has no activity {' and '.join(lacking)}: the profile has only the "
            "rows of the others; torch 2.13 has HPU",
            stacklevel=4,
        )
    native = others + [getattr(Native, one.name) for one in own if one.name in Native.__members__]
    # Without any torch would take all that it supports.
    return native or [Native.CPU]


def _taking_both(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, *, activities: Iterable[Any] | None = None, **kwargs: Any) -> None:
        original(self, activities=_native(activities), **kwargs)

    return init


def _giving_own(original: Callable[[], Iterable[Any]]) -> Callable[[], Iterable[Any]]:
    def supported_activities() -> set[Any]:
        names = {one.name for one in original()}
        return {one for one in ProfilerActivity if one.name in names}

    return supported_activities
