"""Select whether the backward pass of fused attention recomputes or saves the attention matrix."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_recompute = True


def enable_recompute_sdp(enabled: bool) -> None:
    """Select whether the backward pass of fused attention recomputes the attention matrix (default: true)."""
    global _recompute
    _recompute = bool(enabled)


def recompute_sdp_enabled() -> bool:
    """Return whether the backward pass of fused attention recomputes the attention matrix."""
    return _recompute


@contextlib.contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[None]:
    """Context manager that calls `enable_recompute_sdp` and restores the old choice after its block."""
    before = recompute_sdp_enabled()
    enable_recompute_sdp(enable_recompute)
    try:
        yield
    finally:
        enable_recompute_sdp(before)
