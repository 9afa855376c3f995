"""``conformance run``: check a target and write down what was found."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from conformance import junit, levels, results, selection, target_file
from conformance.commands import common
from conformance.errors import UsageError
from conformance.plan import Shard
from conformance.report import html
from conformance.runner import leg as legs
from conformance.runner import summary
from conformance.runner.options import Options, cores


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("run", help="check a target and write results, JUnit XML and a report")
    common.target(parser)
    parser.add_argument("--mode", metavar="M[,M]", help="modes to run (default: eager)")
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
    common.extra(parser)
    parser.set_defaults(execute=execute)


def options(arguments: argparse.Namespace) -> Options:
    """The checked options of a run; UsageError names what is wrong."""
    target = target_file.load(arguments.target)
    modes = arguments.mode.split(",") if arguments.mode else [target.default_mode]
    for mode in modes:
        target.check_mode(mode)
    if len(set(modes)) != len(modes):
        raise UsageError(f"--mode {arguments.mode} names a mode twice; name each once")
    levels.check(arguments.level)
    if arguments.select is not None:
        selection.parse(arguments.select)
    if arguments.timeout <= 0:
        raise UsageError(f"--timeout is {arguments.timeout:g}; it must be above zero")
    known = Path(arguments.target)
    return Options(
        target=target,
        target_argument=str(known.resolve()) if known.suffix == ".toml" else arguments.target,
        modes=modes,
        output=arguments.output.resolve(),
        level=arguments.level,
        shard=Shard.parse(arguments.shard),
        workers=arguments.workers or cores(),
        select=arguments.select,
        samples=arguments.samples,
        timeout=arguments.timeout,
        extra=tuple(arguments.extra),
    )


def _check_writable(folder: Path) -> None:
    """Try the folder, or the nearest one above it, before minutes are spent; UsageError where it refuses."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--output {folder} cannot be written ({reason}); name a folder that can") from None


def execute(arguments: argparse.Namespace) -> int:
    """Run all modes, write the files and print the summary."""
    chosen = options(arguments)
    _check_writable(chosen.output)
    found: list[dict[str, Any]] = []
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if len(chosen.modes) > 1:
            legs.clear(chosen.output)
        for mode in chosen.modes:
            folder = chosen.output if len(chosen.modes) == 1 else chosen.output / "legs" / mode
            found.append(legs.run(chosen, mode, folder))
            if len(chosen.modes) > 1:
                _settle(folder, found[-1:])
    except legs.Interrupted as stop:
        found.append(stop.found)
        print("stopped by the user; what was found so far is written", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, previous)
    document = write(chosen.output, found)
    for line in summary.lines(document, target=arguments.target, folder=_short(chosen.output)):
        print(line)
    return int(document["exit"])


def write(folder: Path, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Write results, JUnit XML and the report of some legs; returns the results document."""
    document = results.document(found)
    results.write(folder / "results.json", document)
    junit.write(folder / "junit.xml", document)
    html.write(folder / "report.html", document)
    return document


def _settle(folder: Path, found: list[dict[str, Any]]) -> None:
    write(folder, found)
    folder.rename(folder.parent / found[0]["name"])


def _short(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
