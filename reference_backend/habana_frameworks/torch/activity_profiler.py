"""The classes `DebugActivity` and `ProfilerActivity` under the public bridge's import path.

`DebugActivity` is the type of the bridge's argument ``debug_activities``. Recording the device's work does
not need this module: `torch.profiler.profile` with ``ProfilerActivity.HPU`` records it through Kineto.
"""

from __future__ import annotations

from .internal.patches.profiler_activity import DebugActivity, ProfilerActivity

__all__ = ["DebugActivity", "ProfilerActivity"]
