"""Send digests of reference values to a receiver. A process that does not load the backend later recomputes
the reference values and compares the digests.
"""

from __future__ import annotations

from collections.abc import Callable

#: Receives the operator, the dtype, the sample index and the digest of a reference value.
Receiver = Callable[[str, str, int, str], None]

_receiver: Receiver | None = None


def set_digest_receiver(receiver: Receiver | None) -> None:
    """Make ``receiver`` the receiver of this process's digests. With None, digests are dropped."""
    global _receiver
    _receiver = receiver


def has_digest_receiver() -> bool:
    """Return whether a receiver is registered. If none is registered, callers do not compute the digest."""
    return _receiver is not None


def send_digest(operator: str, dtype: str, index: int, digest: str) -> None:
    """Send the digest of a reference value to the receiver, if one is registered."""
    if _receiver is not None:
        _receiver(operator, dtype, index, digest)
