"""``conformance report``: rewrite the results, the JUnit XML and the report from the files of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common, run_snippets
from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.model.records import Leg
from conformance.report import output_files, sarif, summary
from conformance.results import document as results
from conformance.target import file as target_file


def add_parser(commands: Any) -> None:
    """Add the command ``report`` to the command line."""
    parser = commands.add_parser("report", help="write the report of a run, even of an interrupted run")
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "--target", metavar="NAME_OR_FILE", help="apply this target's expectations to the journal's results"
    )
    parser.add_argument(
        "--sarif", type=Path, metavar="FILE", help="write the causes as alerts of GitHub's code scanning"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="root of the repository that shows the alerts (default: .)",
    )
    run_snippets.add_snippets_option(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Rewrite the files, print the summary and return the exit code of the run.

    Journals are preferred to results.json: after an interrupted run they contain more results. Raise
    UsageError if a journal has lost results that results.json has, and write nothing.
    """
    folder: Path = arguments.directory
    book = None
    if arguments.target is not None:
        file = target_file.load(arguments.target)
        book = entries.load_expectations(entries.expectation_files(file.name, file.expectations))
    parts = output_files.leg_folders(folder)
    if (folder / "journal.jsonl").is_file():
        legs = [output_files.leg_from_journal(folder, book)]
        _check_journal_has_all_results(folder, legs[0])
    elif parts:
        legs = [output_files.leg_from_journal(part, book) for part in parts]
        for part, leg in zip(parts, legs, strict=True):
            _check_journal_has_all_results(part, leg)
        for part, leg in zip(parts, legs, strict=True):
            output_files.write_reports(part, [leg])
        legs += _legs_without_folder(folder, {leg["name"] for leg in legs})
    else:
        legs = output_files.read_legs(folder)
    document = output_files.write_reports(folder, legs, common.report_opening(legs))
    if arguments.snippets and run_snippets.write_snippets(folder, legs, arguments.snippets, arguments.target):
        output_files.write_reports(folder, legs, common.report_opening(legs))
    if arguments.sarif is not None:
        sarif.write_sarif(arguments.sarif, document, arguments.root)
    for line in summary.summary_lines(document, target=arguments.target, folder=folder):
        print(line)
    return int(document["exit"])


def _check_journal_has_all_results(folder: Path, leg: Leg) -> None:
    """Raise UsageError if results.json has more results than the journal, because the journal is damaged."""
    file = folder / "results.json"
    try:
        written_legs = results.read_results(file)["legs"] if file.is_file() else []
    except UsageError:
        return  # the journal replaces a damaged results.json
    for written in written_legs:
        if written["started"] == leg["started"] and len(written["results"]) > len(leg["results"]):
            raise UsageError(
                f"{folder / 'journal.jsonl'} has {len(leg['results'])} results, but results.json has "
                f"{len(written['results'])}: the journal was damaged after the run. Nothing was written; to "
                "write the report from results.json, move the journal away"
            )


def _legs_without_folder(folder: Path, names_with_folder: set[str]) -> list[Leg]:
    """Return the legs in ``results.json`` that have no folder, because they could not start."""
    if not (folder / "results.json").is_file():
        return []
    return [
        leg
        for leg in results.read_results(folder / "results.json")["legs"]
        if leg["name"] not in names_with_folder
    ]
