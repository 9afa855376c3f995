"""Format durations for reports and progress messages."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """Return seconds as text, such as ``42 s``, ``3 min 05 s`` or ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
