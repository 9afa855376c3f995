"""The choice between two variants of fused attention; one recomputes in the backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_recompute = True


def enable_recompute_sdp(enabled: bool) -> None:
    """Choose the variant whose backward pass computes the attention matrix again (true at start)."""
    global _recompute
    _recompute = bool(enabled)


def recompute_sdp_enabled() -> bool:
    """Say whether `enable_recompute_sdp` is in effect."""
    return _recompute


@contextlib.contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[None]:
    """Choose the variant for the length of a ``with`` block."""
    before = recompute_sdp_enabled()
    enable_recompute_sdp(enable_recompute)
    try:
        yield
    finally:
        enable_recompute_sdp(before)
