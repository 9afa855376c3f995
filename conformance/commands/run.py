"""``conformance run``: check a target and write the results."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from conformance.builds import installed_torch
from conformance.commands import common, run_snippets
from conformance.distributed import USUAL_LIMIT
from conformance.errors import UsageError
from conformance.model.records import Document
from conformance.plan import levels, selection
from conformance.plan.plan import Shard
from conformance.plan.run_request import Request
from conformance.report import output_files, summary
from conformance.report.headline import Opening
from conformance.results import document as results
from conformance.results import run_folder
from conformance.runner import leg as legs
from conformance.runner import modes, multi_mode, resume
from conformance.runner.child_environment import cores
from conformance.target import file as target_file


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("run", help="check a target and write results, JUnit XML and a report")
    parser.add_argument("--target", metavar="NAME_OR_FILE", help="a known target or a target file")
    parser.add_argument(
        "--mode",
        metavar="M[,M]",
        help="modes to run (default: all that the target declares and this torch can run)",
    )
    parser.add_argument("--level", metavar="L", help=f"one of {', '.join(levels.ALL_LEVELS)} (default: full)")
    parser.add_argument("--shard", metavar="I/N", help="run one of N parts")
    parser.add_argument(
        "-n",
        "--workers",
        type=common.positive,
        metavar="N",
        help="processes (default: cores), or ranks in mode distributed (at least 2, the default)",
    )
    parser.add_argument(
        "-k", dest="select", metavar="EXPR", help="words of property, subject and dtype names"
    )
    parser.add_argument("--samples", type=common.samples, metavar="all|N", help="samples per result")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help=f"limit of one result ({USUAL_LIMIT:g})"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder to write to (default: conformance-out)"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--resume", type=Path, metavar="DIR", help="run what is missing in the run of DIR, which was cut off"
    )
    group.add_argument(
        "--rerun-failed",
        type=Path,
        metavar="DIR",
        help="run what failed in DIR once more; a pass is then flaky",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="measure what the time goes into, and write conformance-profile.html and .json",
    )
    run_snippets.option(parser)
    parser.add_argument(
        "--part",
        action="store_true",
        help="the run will be merged: an empty plan is not an error, and a failed start is a result",
    )
    common.extra(parser)
    parser.set_defaults(execute=execute)


def options(arguments: argparse.Namespace) -> Request:
    """Check the options of a run; UsageError names a wrong one."""
    if arguments.target is None:
        raise UsageError("no --target is given; name a known target or a target file")
    target = target_file.load(arguments.target)
    level = arguments.level or "full"
    levels.check(level)
    if arguments.select is not None:
        selection.parse(arguments.select)
    _check_timeout(arguments)
    known = Path(arguments.target)
    return Request(
        target=target,
        target_argument=str(known.resolve()) if known.suffix == ".toml" else arguments.target,
        modes=modes.chosen(target, arguments.mode),
        output=(arguments.output or Path("conformance-out")).resolve(),
        level=level,
        shard=Shard.parse(arguments.shard or "1/1"),
        workers=arguments.workers or cores(),
        select=arguments.select,
        samples=arguments.samples or "default",
        timeout=arguments.timeout or USUAL_LIMIT,
        extra=tuple(arguments.extra),
        part=arguments.part,
        ranks=max(2, arguments.workers or 2),
        profile=arguments.profile,
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run all modes, write the files and print the summary."""
    folder = arguments.resume or arguments.rerun_failed
    failed = arguments.rerun_failed is not None
    chosen = options(arguments) if folder is None else _of_before(folder, arguments)
    common.check_writable(chosen.output)
    if folder is None:
        run_folder.check_narrower(chosen)
    else:
        document = resume.finished(chosen, failed=failed)
        if document is not None:
            why = "holds no failure to try again" if failed else "is complete"
            print(f"nothing to do: the run in {folder} {why}")
            _add_snippets(arguments, chosen, document)
            return _say(document, arguments, chosen)
    before = common.earlier(chosen.output) if folder is None else None
    stopped = False
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if folder is not None:
            legs_run = resume.run(chosen, failed=failed)
        elif len(chosen.modes) == 1:
            legs_run = [legs.run(chosen, chosen.modes[0], chosen.output)]
        else:
            legs_run = multi_mode.run(chosen)
    except legs.Interrupted as stop:
        legs_run, stopped = stop.found, True
        print("stopped by the user; the results so far are written", file=sys.stderr)
    except legs.NothingToRun as nothing:
        if not chosen.part:
            raise
        print(f"nothing to run: {nothing}", file=sys.stderr)
        return 0
    except UsageError as error:
        if not chosen.part or folder is not None:
            raise
        run_folder.clear(chosen.output)
        mode, build = chosen.modes[0], installed_torch.version()
        legs_run = [results.not_run(chosen, mode, build, str(error))]
    finally:
        signal.signal(signal.SIGTERM, previous)
    opening = common.opening(legs_run, before)
    document = output_files.write(chosen.output, legs_run, opening)
    if not stopped:
        _add_snippets(arguments, chosen, document, opening)
    return _say(document, arguments, chosen)


def _add_snippets(
    arguments: argparse.Namespace, chosen: Request, document: Document, opening: Opening | None = None
) -> None:
    """Write scripts of the largest causes if they are asked for, and the report with them.

    The results are written by then: whoever stops this loses scripts alone.
    """
    if not arguments.snippets:
        return
    folder, legs_run = chosen.output, document["legs"]
    try:
        new = run_snippets.write(folder, legs_run, arguments.snippets, chosen.target_argument, chosen.extra)
    except KeyboardInterrupt:
        print("stopped by the user; the results are written", file=sys.stderr)
        new = True
    if new:
        output_files.write(folder, legs_run, opening)


def _say(document: Document, arguments: argparse.Namespace, chosen: Request) -> int:
    """Print the summary of a run and return its exit code."""
    for line in summary.lines(document, target=arguments.target, folder=run_folder.short(chosen.output)):
        print(line)
    page = chosen.output / "conformance-profile.html"
    if chosen.profile and page.is_file():
        print(f"Time by phase: {run_folder.short(page)}")
    return int(document["exit"])


def _check_timeout(arguments: argparse.Namespace) -> None:
    if arguments.timeout is not None and arguments.timeout <= 0:
        raise UsageError(f"--timeout is {arguments.timeout:g}; it must be above zero")


def _of_before(folder: Path, arguments: argparse.Namespace) -> Request:
    """Read the options of the run to continue; UsageError if the user names other ones."""
    _check_timeout(arguments)
    chosen = resume.options(folder, resume.ResumeOptions(arguments.workers, arguments.timeout))
    kept = {
        "--target": str(chosen.target.path.resolve()),
        "--mode": ",".join(chosen.modes),
        "--level": chosen.level,
        "--shard": str(chosen.shard),
        "-k": chosen.select,
        "--samples": chosen.samples,
        "--extra": ",".join(chosen.extra),
        "--output": str(chosen.output),
    }
    target = arguments.target and str(target_file.find(arguments.target).resolve())
    given = {
        "--target": target,
        "--mode": arguments.mode,
        "--level": arguments.level,
        "--shard": arguments.shard,
        "-k": arguments.select,
        "--samples": arguments.samples,
        "--extra": ",".join(arguments.extra) or None,
        "--output": arguments.output and str(arguments.output.resolve()),
    }
    if arguments.profile and not chosen.profile:
        raise UsageError(f"the run in {folder} began without --profile; leave it out, or begin a new run")
    for word, value in given.items():
        if value is not None and value != kept[word]:
            raise UsageError(
                f"{word} is {value}, but the run in {folder} has {kept[word] or 'none'}; leave it out, or "
                "begin a new run"
            )
    return chosen


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
