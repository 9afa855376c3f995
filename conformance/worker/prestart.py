"""``python -m conformance.worker.prestart``: a worker that imports modules while the target is brought up.

The worker imports modules that every worker needs and that no backend may influence: torch, numpy, SciPy and
pytest. It then waits for a message from its parent: the arguments of pytest in JSON. The worker runs pytest
with these arguments, or exits if its parent closes the channel.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys

from conformance.process_control.parent_link import ParentLink

#: The modules to import, in this order. The modules after pytest are needed by torch's test databases.
_MODULES = ("torch", "pytest", "numpy", "scipy.signal", "scipy.special", "scipy.linalg", "hypothesis")


def main() -> int:
    """Import modules, wait for arguments and run pytest. Return pytest's exit code, or 0 without
    arguments.
    """
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
