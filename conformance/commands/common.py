"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.certificate import level_progress
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.report.headline import Opening
from conformance.results import diff
from conformance.results import document as results

Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def target(parser: argparse.ArgumentParser) -> None:
    """Add ``--target``."""
    parser.add_argument(
        "--target", required=True, metavar="NAME_OR_FILE", help="a known target or a target file"
    )


def extra(parser: argparse.ArgumentParser) -> None:
    """Add ``--extra``."""
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="MODULE",
        help="module with properties of your own; may repeat",
    )


def positive(text: str) -> int:
    """Parse an argument that is a whole number above zero."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def samples(text: str) -> str:
    """Parse the word of ``--samples``."""
    if text in ("all", "default") or (text.isdigit() and int(text) > 0):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither 'all' nor a whole number above zero")


def check_writable(folder: Path, option: str = "--output") -> None:
    """Try to write to the folder, or the nearest one above it, before a long run; UsageError if it
    refuses.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{option} {folder} cannot be written ({reason}); name a folder that can") from None


def earlier(folder: Path) -> list[Leg]:
    """The legs of the run that a new one in this folder replaces; none if there is none that can be read."""
    try:
        return results.read(folder / "results.json")["legs"]
    except (OSError, UsageError):
        return []


def opening(legs: Sequence[Leg], before: Sequence[Leg] | None = None) -> Opening:
    """Make the opening of a report.

    Args:
        legs: of the run.
        before: those of the run before it, if there was one.
    """
    changes = None
    if before:
        try:
            changes = diff.compare(before, legs)
        except UsageError:  # runs of other modes
            changes = None
    return Opening(level_progress.of(legs), changes)
