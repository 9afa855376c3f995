"""Select a variant of fused attention. One variant recomputes the attention matrix in the backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_recompute = True


def enable_recompute_sdp(enabled: bool) -> None:
    """Select the variant whose backward pass recomputes the attention matrix (initially true)."""
    global _recompute
    _recompute = bool(enabled)


def recompute_sdp_enabled() -> bool:
    """Return whether `enable_recompute_sdp` is in effect."""
    return _recompute


@contextlib.contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[None]:
    """Select the variant for the duration of a ``with`` block."""
    before = recompute_sdp_enabled()
    enable_recompute_sdp(enable_recompute)
    try:
        yield
    finally:
        enable_recompute_sdp(before)
