"""``conformance readiness``: compare backends with the levels of PyTorch's cross-repository CI."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import Any

from conformance.report import relay_readiness


def add_parser(commands: Any) -> None:
    """Add the command ``readiness`` to the command line."""
    parser = commands.add_parser(
        "readiness",
        help="compare success and time of runs with the levels of PyTorch's cross-repository CI",
        description=(
            f"Write a table of backends: runs of the last {relay_readiness.DAYS_TO_KEEP_LEVEL} days, share "
            "of successful runs, time per run, and the unmet conditions of L2 and L3."
        ),
    )
    parser.add_argument("folder", type=Path, metavar="RESULTS", help="folder with BACKEND/RUN/results.json")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file for the table (default: print it)"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print or write the table, and report the unreadable runs."""
    backends = relay_readiness.read_backends(arguments.folder)
    text = relay_readiness.markdown_table(backends, datetime.datetime.now(datetime.timezone.utc))
    if arguments.output is None:
        print(text, end="")
    else:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text)
        print(f"{arguments.output}: {len(backends)} backends")
    for problem in (each for backend in backends for each in backend.problems):
        print(f"note: {problem}", file=sys.stderr)
    return 0
