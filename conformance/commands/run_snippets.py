"""Write snippets for the failures of a run. ``conformance repro`` makes each snippet in a child process."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.builds import installed_torch
from conformance.commands import common
from conformance.model import seeds
from conformance.model.records import Leg, ResultRow
from conformance.process_control import supervisor
from conformance.process_control.child import EndKind
from conformance.report import causes, snippet_lookup, summary

#: Time limits in seconds: ``_RESULT`` for the result, ``_LIMIT`` for the whole command. The command may check
#: the result a second time after a crash, and it runs the snippet once.
_RESULT, _LIMIT = 120, 400


def add_snippets_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--snippets`` to a command."""
    parser.add_argument(
        "--snippets",
        type=common.parse_positive,
        default=0,
        metavar="N",
        help="add a shrunk snippet to each of the N largest causes of failures",
    )


def make_snippet_in_child_process(
    row: ResultRow, target: str, leg: Leg, extra: Sequence[str] = ()
) -> str | None:
    """Return a snippet that reproduces the failure of a result.

    Return None and print the reason to stderr if no snippet was made.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.py"
        command = [sys.executable, "-m", "conformance", "repro", "--target", target, "--mode", leg["mode"]]
        command += [
            "--samples",
            leg["samples"],
            "--seed",
            str(leg.get("seed", seeds.RELEASE_SEED)),
            *(argument for module in extra for argument in ("--extra", module)),
        ]
        shown_command = [*command[3:], row["id"]]
        command += ["--timeout", str(_RESULT), "--snippet", str(file), "--", row["id"]]
        why = _run_command(command, Path(folder) / "log.txt")
        try:
            return file.read_text()
        except OSError:
            print(f"no snippet: {why}; run {' '.join(shown_command)}", file=sys.stderr)
            return None


def _run_command(command: Sequence[str], log: Path) -> str:
    """Run a command and return its last line on stderr, or the reason why it was stopped.

    If the command takes longer than the limit, all processes that it started are stopped.
    """
    try:
        end = supervisor.run_command(command, log=log, limit=_LIMIT, stdout=False)
    except (
        OSError,
        ValueError,
    ) as error:  # the result id contains a null character
        return str(error)
    if end.how is EndKind.TIMED_OUT:
        return f"it took more than {_LIMIT} s"
    return end.last_line or "repro wrote no snippet"


def write_snippets(
    folder: Path, legs: Sequence[Leg], number: int, target: str | None, extra: Sequence[str] = ()
) -> bool:
    """Write the missing snippets of the largest causes into the output folder of a run.

    Args:
        folder: the output folder of the run.
        legs: the legs of the run.
        number: the number of causes, starting with the largest.
        target: the argument of ``--target``; None uses the target that the results name.
        extra: the modules of ``--extra``.

    Returns:
        True if a new snippet was written.
    """
    new = False
    for group in causes.causes_of(legs)[:number]:
        leg_index, row = group.example
        leg = legs[leg_index]
        file = snippet_lookup.snippet_path(folder, leg, row)
        if file.exists():
            continue
        if leg["torch"] != installed_torch.version():
            print(f"no snippet for {row['id']}: it ran on torch {leg['torch']}", file=sys.stderr)
            continue
        script = make_snippet_in_child_process(row, target or summary.target_argument(leg), leg, extra)
        if script is None:
            continue
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_text(script)
            new = True
        except OSError as error:
            print(f"no snippet for {row['id']}: {file} cannot be written ({error.strerror})", file=sys.stderr)
    return new
