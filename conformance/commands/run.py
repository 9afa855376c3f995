"""``conformance run``: check a target and write down what was found."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from conformance import levels, results, selection, target_file, torch_build
from conformance.commands import common
from conformance.errors import UsageError
from conformance.plan import Shard
from conformance.report import files
from conformance.runner import leg as legs
from conformance.runner import modes, several, summary
from conformance.runner.options import Options, cores


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("run", help="check a target and write results, JUnit XML and a report")
    common.target(parser)
    parser.add_argument(
        "--mode",
        metavar="M[,M]",
        help="modes to run (default: all that the target declares and this torch can run)",
    )
    parser.add_argument("--level", default="full", metavar="L", help=f"one of {', '.join(levels.ALL_LEVELS)}")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="run one of N parts")
    parser.add_argument(
        "-n", "--workers", type=common.positive, metavar="N", help="processes (default: cores)"
    )
    parser.add_argument(
        "-k", dest="select", metavar="EXPR", help="words of property, subject and dtype names"
    )
    parser.add_argument(
        "--samples", default="default", type=common.samples, metavar="all|N", help="samples per result"
    )
    parser.add_argument(
        "--timeout", default=120.0, type=float, metavar="SECONDS", help="limit of one result (120)"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("conformance-out"), metavar="DIR")
    parser.add_argument(
        "--part",
        action="store_true",
        help="the run is to be merged: nothing to run is no error, and not to start is a result",
    )
    common.extra(parser)
    parser.set_defaults(execute=execute)


def options(arguments: argparse.Namespace) -> Options:
    """The checked options of a run; UsageError names what is wrong."""
    target = target_file.load(arguments.target)
    levels.check(arguments.level)
    if arguments.select is not None:
        selection.parse(arguments.select)
    if arguments.timeout <= 0:
        raise UsageError(f"--timeout is {arguments.timeout:g}; it must be above zero")
    known = Path(arguments.target)
    return Options(
        target=target,
        target_argument=str(known.resolve()) if known.suffix == ".toml" else arguments.target,
        modes=modes.chosen(target, arguments.mode),
        output=arguments.output.resolve(),
        level=arguments.level,
        shard=Shard.parse(arguments.shard),
        workers=arguments.workers or cores(),
        select=arguments.select,
        samples=arguments.samples,
        timeout=arguments.timeout,
        extra=tuple(arguments.extra),
        part=arguments.part,
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run all modes, write the files and print the summary."""
    chosen = options(arguments)
    common.check_writable(chosen.output)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if len(chosen.modes) == 1:
            found = [legs.run(chosen, chosen.modes[0], chosen.output)]
        else:
            found = several.run(chosen)
    except legs.Interrupted as stop:
        found = stop.found
        print("stopped by the user; what was found so far is written", file=sys.stderr)
    except legs.NothingToRun as nothing:
        if not chosen.part:
            raise
        print(f"nothing to run: {nothing}", file=sys.stderr)
        return 0
    except UsageError as error:
        if not chosen.part:
            raise
        legs.clear(chosen.output)
        mode, build = chosen.modes[0], torch_build.version()
        found = [results.not_run(chosen, mode, build, str(error))]
    finally:
        signal.signal(signal.SIGTERM, previous)
    document = files.write(chosen.output, found)
    for line in summary.lines(document, target=arguments.target, folder=_short(chosen.output)):
        print(line)
    return int(document["exit"])


def _short(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
