"""``conformance report``: make results, JUnit XML and the report anew from the files of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common, run_snippets
from conformance.expectations import entries
from conformance.model.records import Leg
from conformance.report import output_files, sarif, summary
from conformance.results import document as results
from conformance.target import file as target_file


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("report", help="make the report of a run, even of one that was cut off")
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "--target", metavar="NAME_OR_FILE", help="take the expectations of this target (from a journal)"
    )
    parser.add_argument(
        "--sarif", type=Path, metavar="FILE", help="write the causes as alerts of GitHub's code scanning"
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="root of the repository of the alerts (.)"
    )
    run_snippets.option(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the files again and print the summary; the exit code is that of the run.

    Reads journals if there are any, since they hold more than results.json after a run that was cut off.
    """
    folder: Path = arguments.directory
    book = None
    if arguments.target is not None:
        file = target_file.load(arguments.target)
        book = entries.load(entries.sources(file.name, file.expectations))
    parts = output_files.parts(folder)
    if (folder / "journal.jsonl").is_file():
        legs = [output_files.from_journal(folder, book)]
    elif parts:
        legs = [output_files.from_journal(part, book) for part in parts]
        for part, leg in zip(parts, legs, strict=True):
            output_files.write(part, [leg])
        legs += _without_part(folder, {leg["name"] for leg in legs})
    else:
        legs = output_files.read(folder)
    document = output_files.write(folder, legs, common.opening(legs))
    if arguments.snippets and run_snippets.write(folder, legs, arguments.snippets, arguments.target):
        output_files.write(folder, legs, common.opening(legs))
    if arguments.sarif is not None:
        sarif.write(arguments.sarif, document, arguments.root)
    for line in summary.lines(document, target=arguments.target, folder=folder):
        print(line)
    return int(document["exit"])


def _without_part(folder: Path, known: set[str]) -> list[Leg]:
    """List the legs of a results file that have no folder: those that could not start."""
    if not (folder / "results.json").is_file():
        return []
    return [leg for leg in results.read(folder / "results.json")["legs"] if leg["name"] not in known]
