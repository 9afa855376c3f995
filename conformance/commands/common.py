"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from conformance.errors import UsageError

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
