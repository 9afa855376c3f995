"""Runs scripts, each in a fork of this process, which has loaded nothing of the suite: torch, and what the
broken backend imports of it.

A request has ``path``, ``arguments`` and ``variables``.
"""

from __future__ import annotations

import runpy
import sys
import warnings
from typing import Any

import torch._dynamo  # noqa: F401  (what takes long)
from forks import serve


def alone(request: Any) -> None:
    """Run the script as one that cannot import the suite."""
    warnings.simplefilter("ignore")
    for name in ("conformance", "expecttest", "forks"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.argv = [request["path"], *request["arguments"]]
    runpy.run_path(request["path"], run_name="__main__")


if __name__ == "__main__":
    serve(alone)
