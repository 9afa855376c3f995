"""Entry point of the group ``torch.backends``: ``import torch`` also loads the hpu device.

``import habana_frameworks.torch`` loads the device. Therefore this module imports nothing of that package
before `autoload_requested` has returned True.
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

    If the device cannot be loaded, this function only warns (`RuntimeWarning`). An exception would make
    ``import torch`` fail, even for a program that uses only the CPU. An explicit
    ``import habana_frameworks.torch`` raises the full error.
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
