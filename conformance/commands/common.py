"""Arguments and helpers that several commands use."""

from __future__ import annotations

import argparse
import datetime
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.certificate import level_progress
from conformance.errors import UsageError
from conformance.model import seeds
from conformance.model.records import Leg
from conformance.report.headline import ReportOpening
from conformance.results import diff
from conformance.results import document as results

Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_target_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--target`` to a command."""
    parser.add_argument(
        "--target",
        required=True,
        metavar="NAME_OR_FILE",
        help="name of a known target, or path of a target file",
    )


def add_extra_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--extra`` to a command."""
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="MODULE",
        help="module with additional properties; may be repeated",
    )


def parse_positive(text: str) -> int:
    """Return the value of an option that must be a positive integer."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def parse_samples(text: str) -> str:
    """Return the value of ``--samples``: ``all``, ``default`` or a positive integer as text."""
    if text in ("all", "default") or (text.isdigit() and int(text) > 0):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither 'all' nor a whole number above zero")


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--seed`` to a command."""
    parser.add_argument(
        "--seed",
        type=parse_seed,
        metavar="N|today",
        help="seed of the samples and programs; today is the date in UTC, e.g. 20270131 "
        f"(default: {seeds.RELEASE_SEED}, the seed of the release)",
    )


def parse_seed(text: str) -> int:
    """Return the value of ``--seed``: a whole number of at most 18 digits, or the date for ``today``."""
    if text == "today":
        return int(datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d"))
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither 'today' nor a whole number of at most 18 digits")


def set_run_seed(arguments: argparse.Namespace) -> None:
    """Set the seed of this process and of its children to the value of ``--seed``, or to the default."""
    os.environ[seeds.VARIABLE] = str(seeds.RELEASE_SEED if arguments.seed is None else arguments.seed)


def check_writable(folder: Path, option: str = "--output") -> None:
    """Raise UsageError if the folder, or its nearest existing parent, is not writable.

    Commands call this function before a long run.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"{option} {folder} cannot be written ({reason}); choose a writable folder"
        ) from None


def legs_of_replaced_run(folder: Path) -> list[Leg]:
    """Return the legs of the run in this folder that a new run replaces.

    The list is empty if the folder has no readable ``results.json``.
    """
    try:
        return results.read_results(folder / "results.json")["legs"]
    except (OSError, UsageError):
        return []


def report_opening(legs: Sequence[Leg], before: Sequence[Leg] | None = None) -> ReportOpening:
    """Return the first section of a report: the progress of each leg, and the changes since the previous run.

    Args:
        legs: the legs of the run.
        before: the legs of the previous run in the same folder, if any.
    """
    changes = None
    if before:
        try:
            changes = diff.compare_runs(before, legs)
        except UsageError:  # the two runs have no mode in common
            changes = None
    return ReportOpening(level_progress.level_progress_of(legs), changes)
