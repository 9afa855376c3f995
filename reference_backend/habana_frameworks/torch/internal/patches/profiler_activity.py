"""Choose between torch's ``ProfilerActivity`` and the enumeration of the Intel Gaudi bridge.

The Intel Gaudi bridge replaces ``torch.profiler.ProfilerActivity`` by an enumeration with the members CPU,
CUDA and HPU. lightning's profiler requires the replacement: it rejects activities of torch's own class. Other
programs test ``isinstance(activity, torch._C._profiler.ProfilerActivity)``, which is False for the
replacement. By default, torch's own class is used, which has the member HPU in torch 2.13.
``HPU_REFERENCE_PROFILER_ACTIVITY=replaced`` selects the replacement.
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

from .wrap_function import replace_function

_VARIABLE = "HPU_REFERENCE_PROFILER_ACTIVITY"


class ProfilerActivity(enum.Enum):
    """Replacement of torch's class of this name, with the members of the Intel Gaudi bridge's enumeration."""

    CPU = 1
    CUDA = 2
    HPU = 3


class DebugActivity(enum.Enum):
    """Kinds of internal calls that the Intel Gaudi bridge can add to a profile.

    The reference device makes no such calls, so `torch.profiler.profile` accepts these activities and
    ignores them. The members of the bridge's class are not public, so the simulator defines other members.
    """

    SYNAPSE_FUNCTION_CALLS = 1
    BRIDGE_FUNCTION_CALLS = 2


def patch_profiler_activity() -> None:
    """Replace torch's class if the environment requests it.

    Raises:
        ValueError: the variable is neither ``native`` nor ``replaced``.
    """
    choice = os.environ.get(_VARIABLE, "") or "native"
    if choice not in ("native", "replaced"):
        raise ValueError(f"{_VARIABLE}={choice!r} is not supported. Use native or replaced.")
    if choice == "native":
        return
    torch.profiler.ProfilerActivity = ProfilerActivity  # type: ignore[misc,assignment]
    for profiler in (torch.profiler.profile, torch.profiler.profiler._KinetoProfile):
        replace_function(profiler, "__init__", _wrap_profiler_init)
    replace_function(torch.profiler, "supported_activities", _wrap_supported_activities)


def _native_activities(activities: Iterable[Any] | None) -> list[Any] | None:
    if activities is None:
        return None
    activities = list(activities)
    own = [activity for activity in activities if isinstance(activity, ProfilerActivity)]
    native_activities = [activity for activity in activities if not isinstance(activity, ProfilerActivity)]
    if lacking := [activity.name for activity in own if activity.name not in Native.__members__]:
        warnings.warn(
            f"torch {torch.__version__} does not have the activity {' and '.join(lacking)}, so the profile "
            "does not contain its rows. torch 2.13 has the activity HPU.",
            stacklevel=4,
        )
    native = native_activities + [
        getattr(Native, activity.name) for activity in own if activity.name in Native.__members__
    ]
    # Without any activity, torch would record all activities that it supports.
    return native or [Native.CPU]


def _wrap_profiler_init(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, *, activities: Iterable[Any] | None = None, **kwargs: Any) -> None:
        original(self, activities=_native_activities(activities), **kwargs)

    return init


def _wrap_supported_activities(original: Callable[[], Iterable[Any]]) -> Callable[[], Iterable[Any]]:
    def supported_activities() -> set[Any]:
        names = {activity.name for activity in original()}
        return {activity for activity in ProfilerActivity if activity.name in names}

    return supported_activities
