"""``conformance readiness``: how near backends are to the levels of PyTorch's cross-repository CI."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import Any

from conformance.report import relay_readiness


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "readiness",
        help="success and time of backends' runs against the levels of PyTorch's cross-repository CI",
        description=(
            f"Write a table of backends: runs of the last {relay_readiness.KEPT} days, share that succeeded, time "
            "per run, and what they lack for L2 and L3."
        ),
    )
    parser.add_argument("folder", type=Path, metavar="RESULTS", help="folder with BACKEND/RUN/results.json")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there (default: print)")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the table; runs that cannot be read are named."""
    backends = relay_readiness.read(arguments.folder)
    text = relay_readiness.table(backends, datetime.datetime.now(datetime.timezone.utc))
    if arguments.output is None:
        print(text, end="")
    else:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text)
        print(f"{arguments.output}: {len(backends)} backends")
    for problem in (each for backend in backends for each in backend.problems):
        print(f"note: {problem}", file=sys.stderr)
    return 0
