"""``conformance issue``: the text of an issue about one cause of a run's unexpected results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common, run_snippets
from conformance.errors import UsageError
from conformance.report import causes as groups
from conformance.report import issue, output_files, snippet_files, summary


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
    legs = output_files.read(arguments.directory)
    causes = groups.causes_of(legs)
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
    snippet = None
    if not arguments.no_snippet:
        made = snippet_files.read([arguments.directory], legs[number], row)
        snippet = made or run_snippets.make(row, target, legs[number])
    print(f"# {issue.title(group)}\n")
    # A file's name is as much of it as others can use.
    print(issue.body(group, legs, Path(target).name, snippet), end="")
    return 0
