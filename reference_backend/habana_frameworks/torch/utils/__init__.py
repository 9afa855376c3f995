"""Modules that programs import to debug, profile, receive events and build extensions."""

from __future__ import annotations

from . import event_dispatcher as event_dispatcher
