"""``conformance matrix``: builds of torch × modes, planned and collected."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.matrix import collect, plan, table
from conformance.target import file as target_file


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "matrix", help="builds of torch × modes: the cells to run, and their outcomes"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    command = actions.add_parser("plan", help="print the cells as the matrix of a workflow")
    common.target(command)
    command.add_argument(
        "--build",
        action="append",
        required=True,
        metavar="SPEC[:KIND[:LEVEL]]",
        help="2.6.0, 2.13.0:fork-like, newest:public:core; may be given again",
    )
    command.add_argument("--mode", metavar="M[,M]", help="modes (default: all of the target)")
    command.add_argument("--level", default="smoke", metavar="L", help="level (default: smoke)")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="write them here instead")
    command.set_defaults(execute=_plan)

    command = actions.add_parser("collect", help="one table of all cells; none is left out")
    command.add_argument("plan", type=Path, help="output of 'conformance matrix plan'")
    command.add_argument("folder", type=Path, help="folder with a folder of results for each cell, by its id")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder to write to")
    command.set_defaults(execute=_collect)


def _plan(arguments: argparse.Namespace) -> int:
    file = target_file.load(arguments.target)
    modes = arguments.mode.split(",") if arguments.mode else list(file.modes)
    builds = [plan.Wanted.parse(text) for text in arguments.build]
    cells = plan.written(plan.cells(file, builds, modes, arguments.level))
    if arguments.output is None:
        print(cells)
    else:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(cells + "\n")
    return 0


def _collect(arguments: argparse.Namespace) -> int:
    cells = plan.read(arguments.plan)
    if not arguments.folder.is_dir():
        raise UsageError(f"{arguments.folder} does not exist; name the folder with the results of the cells")
    outcomes = collect.collect(cells, arguments.folder)
    common.check_writable(arguments.output)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "matrix.json").write_text(collect.document(outcomes) + "\n")
    (arguments.output / "matrix.md").write_text(table.markdown(outcomes))
    print(table.text(outcomes))
    bad = [outcome for outcome in outcomes if not outcome.good]
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} cells are good")
    return collect.exit_code(outcomes)
