"""``python -m conformance.worker.prestart``: a worker that imports while the target is still brought up.

It imports what every worker needs and no backend may influence (torch, numpy, SciPy, pytest), then waits for
a message of its parent: the arguments of pytest in JSON. It then is an ordinary worker. Without a message it
ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys

from conformance.process_control.parent_link import ParentLink

#: Imported in this order; torch's databases import the others by and by.
_MODULES = ("torch", "pytest", "numpy", "scipy.signal", "scipy.special", "scipy.linalg", "hypothesis")


def main() -> int:
    """Import, wait, run pytest; exit code of pytest, or 0 if this worker was not needed."""
    link = ParentLink.connect()
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    message = link.receive()
    if message is None:
        return 0
    import pytest

    return int(pytest.main(json.loads(message)))


if __name__ == "__main__":
    sys.exit(main())
