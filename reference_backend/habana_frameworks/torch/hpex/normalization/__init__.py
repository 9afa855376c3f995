"""Root-mean-square normalisation, and clipping of gradients by their norm."""

from __future__ import annotations

from .clip_norm import FusedClipNorm
from .rms_norm import FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedRMSNorm", "RmsNormBwdMode"]
