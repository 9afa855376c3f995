"""Norms of data and of gradients."""

from __future__ import annotations

from .clip_norm import FusedClipNorm
from .rms_norm import FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedRMSNorm", "RmsNormBwdMode"]
