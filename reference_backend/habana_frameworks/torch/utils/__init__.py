"""Helper modules for programs."""

from __future__ import annotations

from . import event_dispatcher as event_dispatcher
