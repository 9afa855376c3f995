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
        "matrix", help="builds of torch × modes: which cells to run, what became of them"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    one = actions.add_parser("plan", help="print the cells as the matrix of a workflow")
    common.target(one)
    one.add_argument(
        "--build",
        action="append",
        required=True,
        metavar="SPEC[:KIND[:LEVEL]]",
        help="2.6.0, 2.13.0:fork-like, newest:public:core; may be given again",
    )
    one.add_argument("--mode", metavar="M[,M]", help="modes (default: all of the target)")
    one.add_argument("--level", default="smoke", metavar="L", help="level (default: smoke)")
    one.add_argument("-o", "--output", type=Path, metavar="FILE", help="write them here instead")
    one.set_defaults(execute=_plan)

    one = actions.add_parser("collect", help="one table of all cells; none is left out")
    one.add_argument("plan", type=Path, help="what 'conformance matrix plan' has written")
    one.add_argument("folder", type=Path, help="folder with a folder of results for each cell, by its id")
    one.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder to write to")
    one.set_defaults(execute=_collect)


def _plan(arguments: argparse.Namespace) -> int:
    file = target_file.load(arguments.target)
    modes = arguments.mode.split(",") if arguments.mode else list(file.modes)
    builds = [plan.Wanted.parse(text) for text in arguments.build]
    found = plan.written(plan.cells(file, builds, modes, arguments.level))
    if arguments.output is None:
        print(found)
    else:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(found + "\n")
    return 0


def _collect(arguments: argparse.Namespace) -> int:
    cells = plan.read(arguments.plan)
    if not arguments.folder.is_dir():
        raise UsageError(f"there is no folder {arguments.folder}; name the one with the results of the cells")
    outcomes = collect.collect(cells, arguments.folder)
    common.check_writable(arguments.output)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "matrix.json").write_text(collect.document(outcomes) + "\n")
    (arguments.output / "matrix.md").write_text(table.markdown(outcomes))
    print(table.text(outcomes))
    bad = [one for one in outcomes if not one.good]
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} cells as they should be")
    return collect.exit_code(outcomes)
