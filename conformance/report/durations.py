"""Words in which reports and progress give quantities."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds in the form that a person reads."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
