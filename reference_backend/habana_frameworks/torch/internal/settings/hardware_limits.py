"""The device profile: limits of hardware that the device takes on, off by default.

``HPU_REFERENCE_PROFILE`` may be ``gaudi2`` or ``gaudi3``. The core reads it when it is loaded, and applies
the limits (``csrc/kernels/hardware_limits.h``): no complex dtypes, float64 rounded to float32, int64 with 32 bits
unless ``PT_ENABLE_INT64_SUPPORT``, the range of float8_e4m3fn, gelu by tanh, and a check of values that the
host hands over.
"""

from __future__ import annotations

import os

PROFILES = ("gaudi2", "gaudi3")


def name() -> str:
    """Name of the profile of this process, empty if it has none.

    Raises:
        ValueError: the variable has another name, or one that disagrees with ``HPU_REFERENCE_DEVICE_NAME``.
    """
    text = os.environ.get("HPU_REFERENCE_PROFILE", "")
    if not text:
        return ""
    if text not in PROFILES:
        raise ValueError(f"HPU_REFERENCE_PROFILE={text!r} is no profile: use {' or '.join(PROFILES)}")
    device = os.environ.get("HPU_REFERENCE_DEVICE_NAME", "").strip()
    if device and device.lower() != text:
        raise ValueError(
            f"HPU_REFERENCE_DEVICE_NAME={device!r} disagrees with HPU_REFERENCE_PROFILE={text!r}: unset one"
        )
    return text
