"""Announcements of oracle values, for their recomputation in a process that never loads the backend."""

from __future__ import annotations

from collections.abc import Callable

#: Takes the operator, the dtype, the index of the sample and the digest of an oracle value.
Sink = Callable[[str, str, int, str], None]

_sink: Sink | None = None


def send_to(sink: Sink | None) -> None:
    """Make ``sink`` the receiver of this process's announcements; None drops them."""
    global _sink
    _sink = sink


def wanted() -> bool:
    """Return whether anything receives announcements, so that no digest is computed in vain."""
    return _sink is not None


def announce(operator: str, dtype: str, index: int, digest: str) -> None:
    """Hand an oracle value's digest to the receiver, if there is one."""
    if _sink is not None:
        _sink(operator, dtype, index, digest)
