"""``conformance expect import``: lists of PyTorch's own tests as proposed expectations of a target."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path
from typing import Any

from conformance.commands import expectation_targets
from conformance.errors import UsageError
from conformance.expectations import edit, entries
from conformance.target import file as target_file


def add(commands: Any) -> argparse.ArgumentParser:
    """Add the command to those of ``conformance expect``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "import",
        help="propose entries from a list of PyTorch's own tests",
        description=(
            "Propose entries from a Python file with DecorateInfo, as 'conformance export' writes it, or "
            "from a list of tests, one a line. The file is read, never run. The entries have the reason "
            "'unread', which no run accepts until you replace it; what matches no result of the target is "
            "named. Exit code 1 if something is proposed and not written."
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="FILE.py, or any other name for a list")
    parser.add_argument("--write", action="store_true", help="write the entries rather than show them")
    parser.add_argument(
        "--until", metavar="DAY", help=f"expiry (default: in {expectation_targets.DAYS} days)"
    )
    parser.set_defaults(execute=execute)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    """Show or write the proposed entries, and say what was not understood."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

    from conformance.upstream import import_expectations, import_overrides, import_test_names, upstream_list
    from conformance.upstream.matching_tests import Databases

    today = datetime.date.today()
    until = arguments.until or str(today + datetime.timedelta(days=expectation_targets.DAYS))
    if not entries.is_expiry(until):
        raise UsageError(f"--until {until!r} is neither a date like 2030-01-31 nor like 'torch 2.15'")
    text, name = upstream_list.content(arguments.file), arguments.file.name
    file = target_file.load(arguments.target)
    if arguments.file.suffix == ".py":
        listing = import_overrides.read(text, name, file.device)
    else:
        listing = import_test_names.read(text, name, file.device, Databases.load())
    plans = expectation_targets.plans(file, arguments.extra)
    book = entries.load(entries.sources(file.name, file.expectations), unread=True)
    found = import_expectations.propose(
        listing, name, frozenset().union(*plans.values()), book.entries, until
    )
    _show(file, found.entries, write=arguments.write)
    for problem in found.problems:
        print(f"note: {problem}", file=sys.stderr)
    print(
        f"{len(found.entries)} entries are proposed, {found.known} are expected already, "
        f"{len(found.problems)} parts of the list were not understood or match nothing",
        file=sys.stderr,
    )
    return int(bool(found.entries) and not arguments.write)


def _show(file: target_file.TargetFile, new: tuple[entries.Expectation, ...], *, write: bool) -> None:
    if not new:
        return
    if not write:
        print(edit.appended(edit.HEAD, new), end="")
        return
    place = expectation_targets.new_file(file)
    if place is None:
        raise UsageError(
            f"target file {file.path} names no expectations; add the line "
            'expectations = "expectations" and make that folder'
        )
    old = place.read_text() if place.is_file() else edit.HEAD
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(edit.appended(old, new))
    print(f"wrote {place}; run the suite, then give each entry that is true its reason and link")
