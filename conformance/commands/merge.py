"""``conformance merge``: merge the results of several runs, modes and builds into one report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.report import output_files, summary
from conformance.results import document as results
from conformance.results import merge, run_folder


def add_parser(commands: Any) -> None:
    """Add the command ``merge`` to the command line."""
    parser = commands.add_parser("merge", help="merge several runs, modes and builds into one report")
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder to write to")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the merged files and print the summary.

    Return the worst exit code of the legs.
    """
    output: Path = arguments.output
    _check_output(output, arguments.directories)
    parts = [(str(folder), leg) for folder in arguments.directories for leg in output_files.read_legs(folder)]
    legs = merge.merge_legs(parts, assembled=_are_legs_of_one_run(output, arguments.directories, parts))
    common.check_writable(output)
    output.mkdir(parents=True, exist_ok=True)
    document = output_files.write_reports(
        output,
        legs,
        common.report_opening(legs),
        [folder for folder in arguments.directories if folder != output],
    )
    for line in summary.summary_lines(document, folder=output):
        print(line)
    return int(document["exit"])


def _check_output(output: Path, sources: list[Path]) -> None:
    """Raise UsageError if the output folder contains a folder to merge, an unmerged leg or a separate run."""
    inputs = {folder.resolve() for folder in sources}
    if output.resolve() in inputs:
        raise UsageError(f"--output {output} is one of the folders to merge; choose another folder")
    unmerged = [part for part in output_files.leg_folders(output) if part.resolve() not in inputs]
    if unmerged:
        raise UsageError(
            f"--output {output} contains {unmerged[0]}, which is not merged; remove it, add it, or choose "
            "another folder"
        )
    if (output / "journal.jsonl").exists():
        raise UsageError(f"--output {output} contains a separate run; remove it or choose another folder")
    run_folder.check_foreign_files(output, run_folder.WRITTEN)
    if (output / "results.json").exists():
        results.read_results(output / "results.json")


def _are_legs_of_one_run(output: Path, sources: list[Path], parts: list[tuple[str, Leg]]) -> bool:
    """Return True if the parts are the legs of one run that used several environments.

    The folders of such legs are ``OUT/legs/NAME``. If the run is a shard, the merged run is a shard too.
    """
    inside = {folder.resolve().parent for folder in sources} == {(output / "legs").resolve()}
    return inside and all(Path(source).name == leg["name"] for source, leg in parts)
