"""Helpers that programs import from their modules."""

from __future__ import annotations

from . import event_dispatcher as event_dispatcher
