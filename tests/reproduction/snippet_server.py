"""Server process: for each request, run a script in a fork of this process.

This process has loaded torch and the torch modules that the broken backend imports. It has loaded no module
of the suite. A request has ``path``, ``arguments`` and ``variables``.
"""

from __future__ import annotations

import runpy
import sys
import warnings
from typing import Any

import torch._dynamo  # noqa: F401  (slow to import; forks inherit it)
from fork_server import serve_requests


def run_without_suite(request: Any) -> None:
    """Run the script ``request["path"]`` in this process, in which imports of the suite fail."""
    warnings.simplefilter("ignore")
    for name in ("conformance", "expecttest", "forks"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.argv = [request["path"], *request["arguments"]]
    runpy.run_path(request["path"], run_name="__main__")


if __name__ == "__main__":
    serve_requests(run_without_suite)
