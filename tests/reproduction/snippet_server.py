"""Run scripts, each in a fork of this process.

This process has loaded torch and the torch modules that the broken backend imports, and nothing of the suite.
A request has ``path``, ``arguments`` and ``variables``.
"""

from __future__ import annotations

import runpy
import sys
import warnings
from typing import Any

import torch._dynamo  # noqa: F401  (what takes long)
from fork_server import serve


def alone(request: Any) -> None:
    """Run the script in a process that cannot import the suite."""
    warnings.simplefilter("ignore")
    for name in ("conformance", "expecttest", "forks"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.argv = [request["path"], *request["arguments"]]
    runpy.run_path(request["path"], run_name="__main__")


if __name__ == "__main__":
    serve(alone)
