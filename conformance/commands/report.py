"""``conformance report``: make results, JUnit XML and the report anew from what a run left behind."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance import expectation, results, target_file
from conformance.commands import run
from conformance.runner import summary


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("report", help="make the report of a run, also of one that was cut off")
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "--target", metavar="NAME_OR_FILE", help="take the expectations of this target (from a journal)"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the files again and print the summary; the exit code is that of the run.

    Reads the journal where there is one, which holds more than results.json after a run that was cut off.
    """
    folder: Path = arguments.directory
    journal = folder / "journal.jsonl"
    if journal.is_file():
        paths = []
        if arguments.target is not None:
            file = target_file.load(arguments.target)
            paths = expectation.sources(file.name, file.expectations)
        found = [results.from_journal(journal, expectation.load(paths))] if paths else [_own(journal)]
        document = run.write(folder, found)
    else:
        document = run.write(folder, results.read(folder / "results.json")["legs"])
    target = arguments.target or summary.target_word(document["legs"][0])
    for line in summary.lines(document, target=target, folder=folder):
        print(line)
    return int(document["exit"])


def _own(journal: Path) -> dict[str, Any]:
    """The leg of a journal with the expectations of the target that it names, where the suite has them."""
    from conformance.journal import Tail

    header = next((event for event in Tail(journal).read(final=True) if event["event"] == "run"), None)
    name = header["target"]["name"] if header is not None else ""
    return results.from_journal(journal, expectation.load(expectation.sources(name)))
