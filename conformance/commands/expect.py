"""``conformance expect``: check and update the expectations of a target."""

from __future__ import annotations

import argparse
import datetime
import difflib
from pathlib import Path
from typing import Any

from conformance.builds import installed_torch
from conformance.commands import common, expect_import, expectation_targets
from conformance.errors import UsageError
from conformance.expectations import check, check_summary, edit, entries, entry_states, propose
from conformance.expectations.aliases import Aliases
from conformance.expectations.entries import Expectation
from conformance.model.records import Leg
from conformance.plan.levels import manifest
from conformance.report import output_files
from conformance.target import file as target_file


def add_parser(commands: Any) -> None:
    """Add the command ``expect`` to the command line."""
    parser = commands.add_parser(
        "expect", help="check expectations, or propose the expectations that a run needs"
    )
    inner = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    update = inner.add_parser(
        "update",
        help="propose the fewest entries that a run needs",
        description=(
            "Propose the fewest entries that a run needs: one per kind of failure, with wildcards only if "
            "all matching results failed with that kind. Correct entries stay unchanged; wrong entries are "
            "narrowed or removed. New entries have the reason 'unread', which no run accepts until you "
            "replace it. Exit code 1 if a proposal was not written."
        ),
    )
    update.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    update.add_argument(
        "--write", action="store_true", help="write the files instead of printing the changes"
    )
    update.add_argument(
        "--until", metavar="DAY", help=f"expiry of new entries (default: in {expectation_targets.DAYS} days)"
    )
    update.set_defaults(execute=execute_update)
    lists = expect_import.add_parser(inner)
    look = inner.add_parser(
        "check",
        help="find entries that are stale, over-broad or expired, or that match no result",
        description=(
            "Find entries that have expired, match no existing result, or are duplicates. With the output "
            "folder of an unrestricted run at level full, also find stale and over-broad entries. The last "
            "line summarises the check. Exit code 1 if an entry is wrong."
        ),
    )
    look.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="output folder of a run; without it, give --target",
    )
    look.set_defaults(execute=execute_check)
    for each in (update, look, lists):
        each.add_argument(
            "--target",
            metavar="NAME_OR_FILE",
            required=each is lists,
            help="target of the expectations"
            + ("" if each is lists else " (default: the target of the run, if the suite contains it)"),
        )
        common.add_extra_option(each)


def execute_update(arguments: argparse.Namespace) -> int:
    """Print or write the proposed changes of the expectation files."""
    legs = output_files.read_legs(arguments.directory)
    file = _target_of_options_or_run(arguments, legs)
    until = arguments.until or str(datetime.date.today() + datetime.timedelta(days=expectation_targets.DAYS))
    if not entries.is_valid_expiry(until):
        raise UsageError(f"--until {until!r} is neither a date like 2030-01-31 nor like 'torch 2.15'")
    book = entries.load_expectations(entries.expectation_files(file.name, file.expectations), unread=True)
    proposal = propose.propose_expectations(
        book.entries,
        _observed_legs(legs, file),
        expectation_targets.result_ids_by_mode(file, arguments.extra),
        until=until,
        today=datetime.date.today(),
    )
    texts = _changed_texts(proposal, file, write=arguments.write)
    for path, (old, new) in texts.items():
        if arguments.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new)
            print(f"wrote {path}")
        else:
            diff_lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), str(path), str(path), lineterm=""
            )
            print("\n".join(diff_lines))
    for note in proposal.notes:
        print(f"note: {note}")
    narrowed = len(proposal.changed) - len(proposal.removed)
    print(
        f"{len(proposal.unchanged)} entries are kept, {narrowed} changed, {len(proposal.removed)} removed, "
        f"{len(proposal.new)} new"
    )
    if proposal.new and arguments.write:
        print(f"now fill in the reason and the link of each new entry; a run rejects {entries.UNREAD!r}")
    return int(bool(texts) and not arguments.write)


def execute_check(arguments: argparse.Namespace) -> int:
    """Print the wrong entries and a summary. Return exit code 1 if an entry is wrong."""
    legs = output_files.read_legs(arguments.directory) if arguments.directory else []
    file = _target_of_options_or_run(arguments, legs)
    of_target = [leg for leg in legs if leg["target"]["name"] == file.name]
    if legs and not of_target:
        raise UsageError(f"the run has no results of target {file.name!r}; choose another run or target")
    book = entries.load_expectations(entries.expectation_files(file.name, file.expectations))
    names, today = expectation_targets.result_ids_by_mode(file, arguments.extra), datetime.date.today()
    versions = [
        manifest.version_for_expectations(version)
        for version in [leg["torch"] for leg in of_target] or [installed_torch.version()]
    ]
    mistakes = check.static_problems(book, names, today, versions)
    for leg in of_target:
        mistakes += check.problems_of_leg(book, leg, today)
    for text in dict.fromkeys(mistakes):
        print(text)
    print(
        check_summary.summary_line(
            check_summary.count_entries(book, names, of_target, versions, today), len(set(mistakes))
        )
    )
    return int(bool(mistakes))


def _target_of_options_or_run(arguments: argparse.Namespace, legs: list[Leg]) -> target_file.TargetFile:
    """Load the target of ``--target``, else the target of the run.

    Raise UsageError if the run has several targets, or its target is not part of the suite.
    """
    if arguments.target is not None:
        return target_file.load(arguments.target)
    names = sorted({leg["target"]["name"] for leg in legs})
    if len(names) == 1 and names[0] in target_file.known_targets():
        return target_file.load(names[0])
    of = f" (the run has {', '.join(names)})" if names else ""
    way = "--target" if legs else "--target, or the output folder of a run"
    raise UsageError(f"the target of the expectations is not clear{of}; give {way}")


def _observed_legs(legs: list[Leg], file: target_file.TargetFile) -> list[propose.LegRows]:
    renamed = Aliases.load()
    observed_legs = []
    for leg in legs:
        if leg["target"]["name"] == file.name and entry_states.has_default_samples_or_more(leg):
            rows = {renamed.resolve(row["id"]): row for row in leg["results"]}
            # Waivers are made from the expectations of the suite's own targets. The results of these targets
            # are therefore read without waivers. With waivers, the expectations would look unnecessary and
            # would be removed.
            waived = (
                {}
                if file.name in manifest.OWN_TARGETS
                else manifest.waiver_links(manifest.version_for_expectations(leg["torch"]), leg["mode"], rows)
            )
            observed_legs.append(propose.LegRows(leg["mode"], leg["torch"], rows, waived))
    if not any(leg.rows for leg in observed_legs):
        raise UsageError(
            f"the run has no results of target {file.name!r} with its default samples; choose another run or "
            "target"
        )
    return observed_legs


def _changed_texts(
    proposal: propose.ExpectationProposal, file: target_file.TargetFile, *, write: bool
) -> dict[Path, tuple[str, str]]:
    """Return the old and new text of every changed file, by path."""
    changes: dict[Path, dict[int, list[Expectation]]] = {}
    for entry, replacements in proposal.changed.items():
        assert entry.path is not None
        changes.setdefault(entry.path, {})[entry.index] = replacements
    texts = {}
    for path, by_index in changes.items():
        old = path.read_text()
        texts[path] = old, edit.text_with_edited_entries(path, old, by_index)
    if proposal.new:
        new_file = expectation_targets.file_for_new_entries(file)
        if new_file is None:
            lacks = (
                f"target file {file.path} has no key 'expectations'; add the line "
                'expectations = "expectations" and create that folder'
            )
            if write:
                raise UsageError(lacks)
            proposal.notes.append(f"{lacks} before you use --write")
        path = new_file or file.path.parent / "expectations" / expectation_targets.NEW
        old = path.read_text() if path.is_file() else ""
        text = texts[path][1] if path in texts else old
        texts[path] = old, edit.text_with_appended_entries(text or edit.HEAD, proposal.new)
    return texts
