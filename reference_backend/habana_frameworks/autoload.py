"""Entry point of the group ``torch.backends``: makes ``import torch`` bring the hpu device along.

`habana_frameworks` is an implicit namespace package that other distributions install into, so this module
stands alone: it imports nothing of `habana_frameworks.torch` before it has decided to load it.
"""

from __future__ import annotations

import sys
import warnings

from habana_frameworks.autoload_switch import autoload_requested

_PACKAGE = "habana_frameworks.torch"


def __getattr__(name: str) -> bool:
    if name == "is_loaded":
        # An import under way counts: the package imports torch, and torch runs this entry point.
        return _PACKAGE in sys.modules
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __autoload() -> None:
    """Load `habana_frameworks.torch` if the environment asks for it.

    Never raises: torch turns an exception of an entry point into a failing ``import torch``, which would take
    the CPU away from a program that may not need the device. The reason becomes a `RuntimeWarning` instead,
    and an explicit ``import habana_frameworks.torch`` raises it in full.
    """
    if _PACKAGE in sys.modules:
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
