"""Normalisation of data, and clipping of gradient norms."""

from __future__ import annotations

from .clip_norm import FusedClipNorm
from .rms_norm import FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedRMSNorm", "RmsNormBwdMode"]
