"""Read the variable ``PT_HPU_AUTOLOAD``, which decides whether ``import torch`` loads the hpu device.

Both `autoload` and `habana_frameworks.torch` import this module. This module imports neither, because
importing `habana_frameworks.torch` loads the device.
"""

from __future__ import annotations

import os


def autoload_requested() -> bool:
    """Return whether ``import torch`` should load the hpu device: yes unless ``PT_HPU_AUTOLOAD`` is ``0``.

    Raises:
        ValueError: ``PT_HPU_AUTOLOAD`` is neither ``0`` nor ``1``.
    """
    switch = os.environ.get("PT_HPU_AUTOLOAD", "").strip()
    if switch not in ("", "0", "1"):
        raise ValueError(
            f"PT_HPU_AUTOLOAD={switch!r} is not valid. Use 1 (load the hpu device with torch), "
            "0 (do not load it), or unset it."
        )
    return switch != "0"
