"""``conformance issue``: the text of an issue about one cause of a run's unexpected results."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.report import files, groups, issue, summary

#: Seconds that making a snippet may take.
_SNIPPET_SECONDS = 400


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "issue", help="write an issue about one cause of a run's failures, as Markdown"
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "cause",
        nargs="?",
        type=common.positive,
        default=None,
        metavar="CAUSE",
        help="number of the cause, the largest is 1; without it the causes are listed",
    )
    parser.add_argument(
        "--target", metavar="NAME_OR_FILE", help="as in the run, for commands and the snippet"
    )
    parser.add_argument(
        "--no-snippet", action="store_true", help="leave the script out, which runs the result again"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the issue, its title first, or the causes with their numbers."""
    legs = files.read(arguments.directory)
    causes = groups.of(legs)
    if not causes:
        print(f"nothing to report: every result in {arguments.directory} is as expected")
        return 0
    if arguments.cause is None:
        for number, group in enumerate(causes, 1):
            print(f"{number}: {issue.title(group)} ({group.counts()})")
        return 0
    if arguments.cause > len(causes):
        raise UsageError(
            f"cause {arguments.cause} does not exist; {arguments.directory} has 1 to {len(causes)}"
        )
    group = causes[arguments.cause - 1]
    number, row = group.example
    target = arguments.target or summary.target_word(legs[number])
    snippet = None if arguments.no_snippet else _snippet(row["id"], target, legs[number])
    print(f"# {issue.title(group)}\n")
    # A file's name is as much of it as others can use.
    print(issue.body(group, legs, Path(target).name, snippet), end="")
    return 0


def _snippet(result_id: str, target: str, leg: Leg) -> str | None:
    """The script that shows a result's failure; None, with a line on stderr, if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snippet.py"
        command = [sys.executable, "-m", "conformance", "repro", result_id, "--target", target]
        command += ["--mode", leg["mode"], "--samples", leg["samples"], "--snippet", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SNIPPET_SECONDS)
            return file.read_text()
        except (OSError, subprocess.TimeoutExpired) as error:
            words = [] if isinstance(error, subprocess.TimeoutExpired) else done.stderr.strip().splitlines()
            why = words[-1] if words else "repro made none"
            print(f"no snippet: {why}; run {' '.join(command[3:-2])}", file=sys.stderr)
            return None
