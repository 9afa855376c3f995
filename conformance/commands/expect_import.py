"""``conformance expect import``: propose expectations of a target from a list of PyTorch's own tests that
fail or are skipped on it.
"""

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


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the subcommand ``import`` to ``conformance expect``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "import",
        help="propose entries from a list of PyTorch's own tests",
        description=(
            "Propose entries from a Python file with DecorateInfo, as 'conformance export' writes it, or "
            "from a text file with one test per line. The file is read, never executed. The entries have "
            "the reason 'unread', which no run accepts until you replace it. Tests that match no result of "
            "the target are reported. Exit code 1 if a proposal was not written."
        ),
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="FILE.py, or a text file with any other suffix"
    )
    parser.add_argument("--write", action="store_true", help="write the entries instead of printing them")
    parser.add_argument(
        "--until", metavar="DAY", help=f"expiry (default: in {expectation_targets.DAYS} days)"
    )
    parser.set_defaults(execute=execute)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    """Print or write the proposed entries, and report the parts of the list that were not understood."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

    from conformance.upstream import import_expectations, import_overrides, import_test_names, upstream_list
    from conformance.upstream.matching_tests import Databases

    today = datetime.date.today()
    until = arguments.until or str(today + datetime.timedelta(days=expectation_targets.DAYS))
    if not entries.is_valid_expiry(until):
        raise UsageError(f"--until {until!r} is neither a date like 2030-01-31 nor like 'torch 2.15'")
    text, name = upstream_list.read_list_text(arguments.file), arguments.file.name
    file = target_file.load(arguments.target)
    if arguments.file.suffix == ".py":
        listing = import_overrides.read_overrides(text, name, file.device)
    else:
        listing = import_test_names.read_test_list(text, name, file.device, Databases.load())
    plans = expectation_targets.result_ids_by_mode(file, arguments.extra)
    book = entries.load_expectations(entries.expectation_files(file.name, file.expectations), unread=True)
    proposals = import_expectations.propose_expectations(
        listing, name, frozenset().union(*plans.values()), book.entries, until
    )
    _write_or_print(file, proposals.entries, write=arguments.write)
    for problem in proposals.problems:
        print(f"note: {problem}", file=sys.stderr)
    print(
        f"{len(proposals.entries)} entries are proposed, {proposals.already_expected} are already expected, "
        f"{len(proposals.problems)} parts of the list were not understood or match no result",
        file=sys.stderr,
    )
    return int(bool(proposals.entries) and not arguments.write)


def _write_or_print(
    file: target_file.TargetFile, new: tuple[entries.Expectation, ...], *, write: bool
) -> None:
    if not new:
        return
    if not write:
        print(edit.text_with_appended_entries(edit.HEAD, new), end="")
        return
    path = expectation_targets.file_for_new_entries(file)
    if path is None:
        raise UsageError(
            f"target file {file.path} has no key 'expectations'; add the line "
            'expectations = "expectations" and create that folder'
        )
    old = path.read_text() if path.is_file() else edit.HEAD
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(edit.text_with_appended_entries(old, new))
    print(f"wrote {path}; run the suite, then add the reason and the link of each confirmed entry")
