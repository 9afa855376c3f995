"""``conformance matrix``: plan the cells (builds of torch × modes), and collect their outcomes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.matrix import collect, plan, table
from conformance.target import file as target_file


def add_parser(commands: Any) -> None:
    """Add the command ``matrix`` to the command line."""
    parser = commands.add_parser(
        "matrix", help="plan the cells of builds of torch × modes, or collect their outcomes"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    command = actions.add_parser("plan", help="print the cells as the matrix of a workflow")
    common.add_target_option(command)
    command.add_argument(
        "--build",
        action="append",
        required=True,
        metavar="SPEC[:KIND[:LEVEL]]",
        help="2.6.0, 2.13.0:fork-like, newest:public:core; may be repeated",
    )
    command.add_argument("--mode", metavar="M[,M]", help="modes (default: all modes of the target)")
    command.add_argument("--level", default="smoke", metavar="L", help="level (default: smoke)")
    command.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to this file instead of printing"
    )
    command.set_defaults(execute=_execute_plan)

    command = actions.add_parser("collect", help="write one table of all cells, including missing cells")
    command.add_argument("plan", type=Path, help="output of 'conformance matrix plan'")
    command.add_argument("folder", type=Path, help="folder with one results folder per cell, named by its id")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder to write to")
    command.set_defaults(execute=_execute_collect)


def _execute_plan(arguments: argparse.Namespace) -> int:
    file = target_file.load(arguments.target)
    modes = arguments.mode.split(",") if arguments.mode else list(file.modes)
    builds = [plan.RequestedBuild.parse(text) for text in arguments.build]
    cells = plan.plan_json(plan.plan_cells(file, builds, modes, arguments.level))
    if arguments.output is None:
        print(cells)
    else:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(cells + "\n")
    return 0


def _execute_collect(arguments: argparse.Namespace) -> int:
    cells = plan.read_plan(arguments.plan)
    if not arguments.folder.is_dir():
        raise UsageError(f"{arguments.folder} does not exist; give the folder with the results of the cells")
    outcomes = collect.collect_outcomes(cells, arguments.folder)
    common.check_writable(arguments.output)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "matrix.json").write_text(collect.outcomes_json(outcomes) + "\n")
    (arguments.output / "matrix.md").write_text(table.markdown_table(outcomes))
    print(table.terminal_table(outcomes))
    bad = [outcome for outcome in outcomes if not outcome.is_as_expected]
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} cells are good")
    return collect.exit_code(outcomes)
