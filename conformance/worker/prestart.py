"""``python -m conformance.worker.prestart``: a worker that imports while the target is still brought up.

It imports what every worker needs and no backend may influence (torch, numpy, SciPy, pytest), then waits for
a line of JSON on its standard input: the arguments of pytest. It then is an ordinary worker. Without a line
it ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

from conformance.process_control import exit_with_parent

#: Imported in this order; torch's databases import the others by and by.
_MODULES = ("torch", "pytest", "numpy", "scipy.signal", "scipy.special", "scipy.linalg", "hypothesis")


def main() -> int:
    """Import, wait, run pytest; exit code of pytest, or 0 if this worker was not needed."""
    if exit_with_parent.VARIABLE in os.environ:
        exit_with_parent.follow()
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    line = sys.stdin.readline()
    if not line:
        return 0
    # A test that asks for input must not wait for it.
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    import pytest

    return int(pytest.main(json.loads(line)))


if __name__ == "__main__":
    sys.exit(main())
