"""Entry point of the group ``torch.backends``: makes ``import torch`` bring the hpu device along.

`habana_frameworks` is an implicit namespace package that other distributions install into, so this module
stands alone: it imports nothing of `habana_frameworks.torch` before it has decided to load it.
"""

from __future__ import annotations

import os
import sys
import warnings

# Set by `habana_frameworks.torch` as its first act: that package imports torch, and torch runs this entry
# point.
is_loaded = False


def autoload_requested() -> bool:
    """Say whether ``import torch`` should load the hpu device.

    ``PT_HPU_AUTOLOAD=1`` and ``PT_HPU_AUTOLOAD=0`` decide; without it the device is loaded unless
    ``PT_HPU_LAZY_MODE`` is explicitly ``1``, because lazy programs import `habana_frameworks.torch`
    themselves.

    Raises:
        ValueError: ``PT_HPU_AUTOLOAD`` is neither ``0`` nor ``1``.
    """
    switch = os.environ.get("PT_HPU_AUTOLOAD", "").strip()
    if switch not in ("", "0", "1"):
        raise ValueError(
            f"PT_HPU_AUTOLOAD={switch!r} is not understood: use 1 (load the hpu device with torch), "
            "0 (do not load it), or leave it unset"
        )
    if switch:
        return switch == "1"
    return os.environ.get("PT_HPU_LAZY_MODE", "").strip() != "1"


def __autoload() -> None:
    """Load `habana_frameworks.torch` if the environment asks for it.

    Never raises: torch turns an exception of an entry point into a failing ``import torch``, which would take
    the CPU away from a program that may not need the device. The reason becomes a `RuntimeWarning` instead,
    and an explicit ``import habana_frameworks.torch`` raises it in full.
    """
    if is_loaded:
        return
    try:
        if autoload_requested():
            import habana_frameworks.torch  # noqa: F401
    except Exception as error:
        _warn(f"import torch did not load the hpu device: {error}")


def _warn(message: str) -> None:
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except Warning:
        # Under `python -W error` the warning itself would break `import torch`.
        print(f"RuntimeWarning: {message}", file=sys.stderr)
