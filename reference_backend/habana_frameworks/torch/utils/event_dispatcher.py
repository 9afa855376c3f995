"""Public import path of the device's telemetry events (`habana_frameworks.torch.internal.events`)."""

from __future__ import annotations

from habana_frameworks.torch.internal.events import EventCallback, EventDispatcher, EventId, EventParams

__all__ = ["EventCallback", "EventDispatcher", "EventId", "EventParams"]
