"""Select the hardware limits that the device imitates. By default the device has no limits.

``HPU_REFERENCE_PROFILE`` may be ``gaudi2`` or ``gaudi3``. The core reads the variable when it is loaded and
applies the limits (``csrc/kernels/hardware_limits.h``):

* complex dtypes do not exist, and float64 is rounded to float32
* int64 has 32 bits unless ``PT_ENABLE_INT64_SUPPORT`` is set
* float8_e4m3fn has the hardware's range
* gelu uses the tanh approximation
* the values that the host passes to the device are checked
"""

from __future__ import annotations

import os

PROFILES = ("gaudi2", "gaudi3")


def hardware_limits_name() -> str:
    """Return the name in ``HPU_REFERENCE_PROFILE``, or an empty string if it is not set.

    Raises:
        ValueError: the name is not supported, or it contradicts ``HPU_REFERENCE_DEVICE_NAME``.
    """
    text = os.environ.get("HPU_REFERENCE_PROFILE", "")
    if not text:
        return ""
    if text not in PROFILES:
        raise ValueError(f"HPU_REFERENCE_PROFILE={text!r} is not supported. Use {' or '.join(PROFILES)}.")
    device = os.environ.get("HPU_REFERENCE_DEVICE_NAME", "").strip()
    if device and device.lower() != text:
        raise ValueError(
            f"HPU_REFERENCE_DEVICE_NAME={device!r} contradicts HPU_REFERENCE_PROFILE={text!r}. Unset one of "
            "them."
        )
    return text


def simulated_device_model() -> str:
    """Return the model of the simulated device in capitals, such as ``GAUDI3``.

    The model is ``HPU_REFERENCE_PROFILE`` or, if unset, ``HPU_REFERENCE_DEVICE_NAME``. The default is GAUDI2.
    """
    name = hardware_limits_name() or os.environ.get("HPU_REFERENCE_DEVICE_NAME", "").strip()
    return name.upper() or "GAUDI2"
