"""Modules with which programs debug, profile, receive device events and build C++ extensions."""

from __future__ import annotations

from . import event_dispatcher as event_dispatcher
