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
from conformance.model import seeds
from conformance.model.records import Document
from conformance.model.vocabulary import PARITY
from conformance.plan import levels, selection
from conformance.plan.plan import Shard
from conformance.plan.run_request import RunRequest
from conformance.report import output_files, summary
from conformance.report.headline import ReportOpening
from conformance.results import document as results
from conformance.results import run_folder
from conformance.runner import leg as legs
from conformance.runner import modes, multi_mode, resume
from conformance.runner.child_environment import usable_cores
from conformance.target import file as target_file


def add_parser(commands: Any) -> None:
    """Add the command ``run`` to the command line."""
    parser = commands.add_parser("run", help="check a target and write results, JUnit XML and a report")
    parser.add_argument(
        "--target", metavar="NAME_OR_FILE", help="name of a known target, or path of a target file"
    )
    parser.add_argument(
        "--mode",
        metavar="M[,M]",
        help="modes to run (default: all that the target declares and this torch can run)",
    )
    parser.add_argument("--level", metavar="L", help=f"one of {', '.join(levels.ALL_LEVELS)} (default: full)")
    parser.add_argument("--shard", metavar="I/N", help="run part I of N of the plan")
    parser.add_argument(
        "-n",
        "--workers",
        type=common.parse_positive,
        metavar="N",
        help="processes (default: cores), or ranks in mode distributed (at least 2, the default)",
    )
    parser.add_argument(
        "-k",
        dest="select",
        metavar="EXPR",
        help="run the results whose property, subject or dtype names match",
    )
    parser.add_argument(
        "--parity",
        choices=PARITY,
        help="what a result of verdict parity does (the device differs from the CPU, and no page says which "
        "is right): apart lists it separately, strict makes it fail (default: the target file's, else apart)",
    )
    parser.add_argument("--samples", type=common.parse_samples, metavar="all|N", help="samples per result")
    common.add_seed_option(parser)
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help=f"limit of one result ({USUAL_LIMIT:g})"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder to write to (default: conformance-out)"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--resume", type=Path, metavar="DIR", help="run the missing results of the interrupted run in DIR"
    )
    group.add_argument(
        "--rerun-failed",
        type=Path,
        metavar="DIR",
        help="rerun the failed results of DIR; a pass becomes flaky",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="measure the time of each phase, and write conformance-profile.html and .json",
    )
    run_snippets.add_snippets_option(parser)
    parser.add_argument(
        "--part",
        action="store_true",
        help="the run will be merged: an empty plan is not an error, and a failed start is a result",
    )
    common.add_extra_option(parser)
    parser.set_defaults(execute=execute)


def request_from_options(arguments: argparse.Namespace) -> RunRequest:
    """Return the checked options of a new run.

    Raise UsageError for the first wrong option.
    """
    if arguments.target is None:
        raise UsageError("--target is missing; give a known target or a target file")
    target = target_file.load(arguments.target)
    level = arguments.level or "full"
    levels.check_level(level)
    if arguments.select is not None:
        selection.parse_selection(arguments.select)
    _check_timeout(arguments)
    target_path = Path(arguments.target)
    return RunRequest(
        target=target,
        target_argument=str(target_path.resolve()) if target_path.suffix == ".toml" else arguments.target,
        modes=modes.selected_modes(target, arguments.mode),
        output=(arguments.output or Path("conformance-out")).resolve(),
        level=level,
        shard=Shard.parse(arguments.shard or "1/1"),
        workers=arguments.workers or usable_cores(),
        select=arguments.select,
        samples=arguments.samples or "default",
        seed=seeds.RELEASE_SEED if arguments.seed is None else arguments.seed,
        parity=arguments.parity or target.parity,
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
    chosen = request_from_options(arguments) if folder is None else _request_of_earlier_run(folder, arguments)
    common.check_writable(chosen.output)
    if folder is None:
        run_folder.check_keeps_unrestricted_run(chosen)
    else:
        document = resume.finished_results(chosen, failed=failed)
        if document is not None:
            why = "has no failure to rerun" if failed else "is complete"
            print(f"nothing to do: the run in {folder} {why}")
            _add_snippets(arguments, chosen, document)
            return _print_summary(document, arguments, chosen)
    before = common.legs_of_replaced_run(chosen.output) if folder is None else None
    stopped = False
    previous = signal.signal(signal.SIGTERM, _raise_keyboard_interrupt)
    try:
        if folder is not None:
            legs_run = resume.resume_run(chosen, failed=failed)
        elif len(chosen.modes) == 1:
            legs_run = [legs.run_new_leg(chosen, chosen.modes[0], chosen.output)]
        else:
            legs_run = multi_mode.run_modes(chosen)
    except legs.RunInterrupted as stop:
        legs_run, stopped = stop.legs, True
        print("stopped by the user; the results so far are written", file=sys.stderr)
    except legs.NothingToRun as nothing:
        if not chosen.part:
            raise
        print(f"nothing to run: {nothing}", file=sys.stderr)
        return 0
    except UsageError as error:
        if not chosen.part or folder is not None:
            raise
        run_folder.clear_folder(chosen.output)
        mode, build = chosen.modes[0], installed_torch.version()
        legs_run = [results.leg_not_run(chosen, mode, build, str(error))]
    finally:
        signal.signal(signal.SIGTERM, previous)
    opening = common.report_opening(legs_run, before)
    document = output_files.write_reports(chosen.output, legs_run, opening)
    if not stopped:
        _add_snippets(arguments, chosen, document, opening)
    return _print_summary(document, arguments, chosen)


def _add_snippets(
    arguments: argparse.Namespace,
    chosen: RunRequest,
    document: Document,
    opening: ReportOpening | None = None,
) -> None:
    """Write snippets of the largest causes if ``--snippets`` requests them, and add them to the report.

    The results are already written. If the user stops this step, only snippets are lost.
    """
    if not arguments.snippets:
        return
    folder, legs_run = chosen.output, document["legs"]
    try:
        new = run_snippets.write_snippets(
            folder, legs_run, arguments.snippets, chosen.target_argument, chosen.extra
        )
    except KeyboardInterrupt:
        print("stopped by the user; the results are written", file=sys.stderr)
        new = True
    if new:
        output_files.write_reports(folder, legs_run, opening)


def _print_summary(document: Document, arguments: argparse.Namespace, chosen: RunRequest) -> int:
    """Print the summary of a run and return its exit code."""
    for line in summary.summary_lines(
        document, target=arguments.target, folder=run_folder.short_path(chosen.output)
    ):
        print(line)
    page = chosen.output / "conformance-profile.html"
    if chosen.profile and page.is_file():
        print(f"Time by phase: {run_folder.short_path(page)}")
    return int(document["exit"])


def _check_timeout(arguments: argparse.Namespace) -> None:
    if arguments.timeout is not None and arguments.timeout <= 0:
        raise UsageError(f"--timeout is {arguments.timeout:g}; it must be above zero")


def _request_of_earlier_run(folder: Path, arguments: argparse.Namespace) -> RunRequest:
    """Return the options of the run to resume or rerun.

    Raise UsageError if the command line contradicts the recorded options.
    """
    _check_timeout(arguments)
    chosen = resume.resume_request(folder, resume.ResumeOptions(arguments.workers, arguments.timeout))
    recorded_options = {
        "--target": str(chosen.target.path.resolve()),
        "--mode": ",".join(chosen.modes),
        "--level": chosen.level,
        "--shard": str(chosen.shard),
        "-k": chosen.select,
        "--samples": chosen.samples,
        "--seed": str(chosen.seed),
        "--parity": chosen.parity,
        "--extra": ",".join(chosen.extra),
        "--output": str(chosen.output),
    }
    target = arguments.target and str(target_file.find_target_file(arguments.target).resolve())
    requested_options = {
        "--target": target,
        "--mode": arguments.mode,
        "--level": arguments.level,
        "--shard": arguments.shard,
        "-k": arguments.select,
        "--samples": arguments.samples,
        "--seed": None if arguments.seed is None else str(arguments.seed),
        "--parity": arguments.parity,
        "--extra": ",".join(arguments.extra) or None,
        "--output": arguments.output and str(arguments.output.resolve()),
    }
    if arguments.profile and not chosen.profile:
        raise UsageError(f"the run in {folder} started without --profile; omit it, or start a new run")
    for option, value in requested_options.items():
        if value is not None and value != recorded_options[option]:
            raise UsageError(
                f"{option} is {value}, but the run in {folder} has {recorded_options[option] or 'none'}; "
                "omit it, or start a new run"
            )
    return chosen


def _raise_keyboard_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
