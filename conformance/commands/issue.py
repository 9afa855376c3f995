"""``conformance issue``: print the text of an issue about one cause of unexpected results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common, run_snippets
from conformance.errors import UsageError
from conformance.report import causes as groups
from conformance.report import issue, output_files, snippet_lookup, summary


def add_parser(commands: Any) -> None:
    """Add the command ``issue`` to the command line."""
    parser = commands.add_parser(
        "issue", help="write an issue about one cause of a run's failures, as Markdown"
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "cause",
        nargs="?",
        type=common.parse_positive,
        default=None,
        metavar="CAUSE",
        help="number of the cause; 1 is the largest; without it, the causes are listed",
    )
    parser.add_argument(
        "--target",
        metavar="NAME_OR_FILE",
        help="value of --target in the run, for the commands and the snippet",
    )
    parser.add_argument(
        "--no-snippet", action="store_true", help="omit the snippet; making it runs the result again"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the issue, starting with its title, or list the causes with their numbers."""
    legs = output_files.read_legs(arguments.directory)
    causes = groups.causes_of(legs)
    if not causes:
        print(f"nothing to report: every result in {arguments.directory} is as expected")
        return 0
    if arguments.cause is None:
        for number, group in enumerate(causes, 1):
            print(f"{number}: {issue.issue_title(group)} ({group.verdict_counts_text()})")
        return 0
    if arguments.cause > len(causes):
        raise UsageError(
            f"cause {arguments.cause} does not exist; {arguments.directory} has 1 to {len(causes)}"
        )
    group = causes[arguments.cause - 1]
    number, row = group.example
    target = arguments.target or summary.target_argument(legs[number])
    snippet = None
    if not arguments.no_snippet:
        stored_snippet = snippet_lookup.read_snippet([arguments.directory], legs[number], row)
        snippet = stored_snippet or run_snippets.make_snippet_in_child_process(row, target, legs[number])
    print(f"# {issue.issue_title(group)}\n")
    # Readers of the issue cannot use the path of a target file, only its name.
    print(issue.issue_body(group, legs, Path(target).name, snippet), end="")
    return 0
