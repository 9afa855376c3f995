"""Scripts that show failures, made by ``conformance repro`` in processes that the device may take down."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.commands import common
from conformance.model.records import Leg
from conformance.report import groups, scripts, summary

#: Seconds that making one may take.
_LIMIT = 400


def option(parser: argparse.ArgumentParser) -> None:
    """Add ``--snippets``."""
    parser.add_argument(
        "--snippets",
        type=common.positive,
        default=0,
        metavar="N",
        help="put a script that shows it, shrunk, beside each of the N largest causes of failures",
    )


def make(result_id: str, target: str, leg: Leg) -> str | None:
    """Return the script that shows a result's failure; None, with a line on stderr, if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.py"
        command = [sys.executable, "-m", "conformance", "repro", result_id, "--target", target]
        command += ["--mode", leg["mode"], "--samples", leg["samples"], "--snippet", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT)
            return file.read_text()
        except (OSError, subprocess.TimeoutExpired) as error:
            words = [] if isinstance(error, subprocess.TimeoutExpired) else done.stderr.strip().splitlines()
            why = words[-1] if words else "repro made none"
            print(f"no snippet: {why}; run {' '.join(command[3:-2])}", file=sys.stderr)
            return None


def write(folder: Path, legs: Sequence[Leg], number: int, target: str | None) -> None:
    """Write scripts of the largest causes beside the results.

    Args:
        folder: the output folder of the run.
        legs: of the run.
        number: of causes, from the largest on.
        target: the argument of ``--target``; None takes the one that the results name.
    """
    for group in groups.of(legs)[:number]:
        leg, row = group.example
        script = make(row["id"], target or summary.target_word(legs[leg]), legs[leg])
        if script is not None:
            file = scripts.path(folder, legs[leg]["mode"], row["id"])
            file.parent.mkdir(exist_ok=True)
            file.write_text(script)
