"""Entry point of the group ``torch.backends``: ``import torch`` also loads the hpu device.

`habana_frameworks` is an implicit namespace package into which other distributions install modules. Therefore
this module imports nothing of `habana_frameworks.torch` before it has decided to load it.
"""

from __future__ import annotations

import sys
import warnings

from habana_frameworks.autoload_switch import autoload_requested

_PACKAGE = "habana_frameworks.torch"


def __getattr__(name: str) -> bool:
    if name == "is_loaded":
        # Also True while the package is being imported: it imports torch, which calls this entry point.
        return _PACKAGE in sys.modules
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __autoload() -> None:
    """Load `habana_frameworks.torch` if the environment requests it.

    This function never raises, because torch converts an exception of an entry point to a failing ``import
    torch``. A program that uses only the CPU would fail too. Instead, the reason is reported as a
    `RuntimeWarning`, and an explicit ``import habana_frameworks.torch`` raises the full error.
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
        # With `python -W error`, the warning is an exception and would break `import torch`.
        print(f"RuntimeWarning: {message}", file=sys.stderr)
