"""Explain torch's errors for device names that this process does not have: ``habana``, the old name of hpu,
and the name of the device with the other dispatch key.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from ..device_type import DEVICE_TYPE

_UNKNOWN = "device type at start of device string: "
_ON_REFDEV = "The device of this process is refdev, because HPU_REFERENCE_KEY is PrivateUse1"
#: For each device type of a process: parts of error messages, and the advice that follows them.
_ADVICE = {
    "hpu": {
        f"{_UNKNOWN}habana": "'habana' is the old name of the device. Write 'hpu'.",
        f"{_UNKNOWN}refdev": (
            "'refdev' is this device with the dispatch key PrivateUse1. Start the process with "
            "HPU_REFERENCE_KEY=PrivateUse1, or write 'hpu'."
        ),
    },
    "refdev": {
        f"{_UNKNOWN}habana": f"{_ON_REFDEV}. Write 'refdev'.",
        "No module named 'torch.hpu'": f"{_ON_REFDEV}. Write 'refdev', or unset HPU_REFERENCE_KEY.",
        "module 'torch' has no attribute 'hpu'": (
            f"{_ON_REFDEV}. Write torch.refdev, or unset HPU_REFERENCE_KEY."
        ),
        "HPU device module is not registered": f"{_ON_REFDEV}. Load the file with map_location='refdev'.",
    },
}


def install_advice_excepthook() -> None:
    """Print advice below the traceback if the program ends with an error in `_ADVICE`.

    The error itself cannot be changed, because torch parses device names in C++.
    """
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> Any:
        previous(kind, error, traceback)
        for part, advice in _ADVICE[DEVICE_TYPE].items():
            if part in str(error) and sys.stderr is not None:
                print(advice, file=sys.stderr)

    sys.excepthook = excepthook
