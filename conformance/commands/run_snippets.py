"""Scripts that show failures, made by ``conformance repro`` in processes that the device may take down."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.builds import installed_torch
from conformance.commands import common
from conformance.model.records import Leg, ResultRow
from conformance.process_control import supervisor
from conformance.process_control.child import How
from conformance.report import causes, snippet_files, summary

#: Seconds that the result of a script may take, and that all of it may take: a result that ends its process
#: is repeated, and the script is run once.
_RESULT, _LIMIT = 120, 400


def option(parser: argparse.ArgumentParser) -> None:
    """Add ``--snippets``."""
    parser.add_argument(
        "--snippets",
        type=common.positive,
        default=0,
        metavar="N",
        help="put a script that shows it, shrunk, beside each of the N largest causes of failures",
    )


def make(row: ResultRow, target: str, leg: Leg, extra: Sequence[str] = ()) -> str | None:
    """Return the script that shows a result's failure; None, with a line on stderr, if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.py"
        command = [sys.executable, "-m", "conformance", "repro", "--target", target, "--mode", leg["mode"]]
        command += ["--samples", leg["samples"], *(word for module in extra for word in ("--extra", module))]
        shown = [*command[3:], row["id"]]
        command += ["--timeout", str(_RESULT), "--snippet", str(file), "--", row["id"]]
        why = _run(command, Path(folder) / "log.txt")
        try:
            return file.read_text()
        except OSError:
            print(f"no snippet: {why}; run {' '.join(shown)}", file=sys.stderr)
            return None


def _run(command: Sequence[str], log: Path) -> str:
    """Run a command, and end all that it has started if it takes too long; return its last word."""
    try:
        end = supervisor.run(command, log=log, limit=_LIMIT, stdout=False)
    except (OSError, ValueError) as error:  # an id that no command line takes
        return str(error)
    if end.how is How.TIMED_OUT:
        return f"it took more than {_LIMIT} s"
    return end.last_line or "repro made none"


def write(
    folder: Path, legs: Sequence[Leg], number: int, target: str | None, extra: Sequence[str] = ()
) -> bool:
    """Write scripts of the largest causes beside the results, those that are not there.

    Args:
        folder: the output folder of the run.
        legs: of the run.
        number: of causes, from the largest on.
        target: the argument of ``--target``; None takes the one that the results name.
        extra: modules with properties of the user's own.

    Returns:
        True if there is a new one.
    """
    new = False
    for group in causes.causes_of(legs)[:number]:
        place, row = group.example
        leg = legs[place]
        file = snippet_files.path(folder, leg, row)
        if file.exists():
            continue
        if leg["torch"] != installed_torch.version():
            print(f"no snippet for {row['id']}: it ran on torch {leg['torch']}", file=sys.stderr)
            continue
        script = make(row, target or summary.target_word(leg), leg, extra)
        if script is None:
            continue
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_text(script)
            new = True
        except OSError as error:
            print(f"no snippet for {row['id']}: {file} cannot be written ({error.strerror})", file=sys.stderr)
    return new
