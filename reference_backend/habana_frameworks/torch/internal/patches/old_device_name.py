"""Explain the error that torch raises for ``habana``, the old name of the device."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

_OLD_NAME = "device type at start of device string: habana"
_ADVICE = "'habana' is the old name of the device. Write 'hpu'."


def explain_in_traceback() -> None:
    """Add the new name of the device to the traceback of a program that ends by this error.

    torch parses names of devices in C++ and has no hook for it.
    """
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> Any:
        previous(kind, error, traceback)
        if isinstance(error, RuntimeError) and _OLD_NAME in str(error) and sys.stderr is not None:
            print(_ADVICE, file=sys.stderr)

    sys.excepthook = excepthook
