"""Activities of `torch.profiler` on the device.

The rows come from the device's part of Kineto, torch's collector: `torch.profiler.profile` with
``ProfilerActivity.HPU`` shows them without this module. This module provides the public bridge's argument
type ``debug_activities``.
"""

from __future__ import annotations

from .internal.patches.profiler_activity import DebugActivity, ProfilerActivity

__all__ = ["DebugActivity", "ProfilerActivity"]
