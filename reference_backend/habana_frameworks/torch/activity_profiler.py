"""Activities of `torch.profiler` on the device.

The rows themselves come from the device's part of Kineto, torch's collector: `torch.profiler.profile` with
``ProfilerActivity.HPU`` shows them with no import of this module. What it adds is the keyword of the public
bridge, ``debug_activities``.
"""

from __future__ import annotations

from .internal.patches.profiler_activity import DebugActivity, ProfilerActivity

__all__ = ["DebugActivity", "ProfilerActivity"]
