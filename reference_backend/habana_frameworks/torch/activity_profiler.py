"""The classes `DebugActivity` and `ProfilerActivity` under the public bridge's import path.

`DebugActivity` is the type of the bridge's argument ``debug_activities``. The device's activities do not need
this module: `torch.profiler.profile` with ``ProfilerActivity.HPU`` records them through Kineto, torch's
collector.
"""

from __future__ import annotations

from .internal.patches.profiler_activity import DebugActivity, ProfilerActivity

__all__ = ["DebugActivity", "ProfilerActivity"]
