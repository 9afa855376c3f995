"""``conformance expect``: keep a target's expectations true."""

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


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("expect", help="check expectations, or propose those that a run needs")
    inner = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    update = inner.add_parser(
        "update",
        help="propose the fewest entries that a run needs",
        description=(
            "Propose the fewest entries that a run needs: one per kind of failure, with wildcards only if "
            "all that they match failed in that way. Entries that are still true stay as they are, wrong "
            "ones are narrowed or removed, new ones have the reason 'unread', which no run accepts until you "
            "replace it. Exit code 1 if something is proposed and not written."
        ),
    )
    update.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    update.add_argument("--write", action="store_true", help="write the files rather than show them")
    update.add_argument(
        "--until", metavar="DAY", help=f"expiry of new entries (default: in {expectation_targets.DAYS} days)"
    )
    update.set_defaults(execute=execute_update)
    lists = expect_import.add(inner)
    look = inner.add_parser(
        "check",
        help="find entries that are stale, over-broad, expired or of unknown names",
        description=(
            "Find entries that have expired, name nothing that exists, or say the same twice; with the "
            "folder of a whole run at the level full also those that are stale or over-broad. The last line "
            "sums up what was checked. Exit code 1 if something is wrong."
        ),
    )
    look.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="output folder of a run; without, give --target",
    )
    look.set_defaults(execute=execute_check)
    for each in (update, look, lists):
        each.add_argument(
            "--target",
            metavar="NAME_OR_FILE",
            required=each is lists,
            help="whose expectations"
            + ("" if each is lists else " (default: of the run, if its target comes with the suite)"),
        )
        common.extra(each)


def execute_update(arguments: argparse.Namespace) -> int:
    """Show or write the proposal."""
    legs = output_files.read(arguments.directory)
    file = _target(arguments, legs)
    until = arguments.until or str(datetime.date.today() + datetime.timedelta(days=expectation_targets.DAYS))
    if not entries.is_expiry(until):
        raise UsageError(f"--until {until!r} is neither a date like 2030-01-31 nor like 'torch 2.15'")
    book = entries.load(entries.sources(file.name, file.expectations), unread=True)
    proposal = propose.propose(
        book.entries,
        _seen(legs, file),
        expectation_targets.plans(file, arguments.extra),
        until=until,
        today=datetime.date.today(),
    )
    texts = _texts(proposal, file, write=arguments.write)
    for path, (old, new) in texts.items():
        if arguments.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new)
            print(f"wrote {path}")
        else:
            words = difflib.unified_diff(
                old.splitlines(), new.splitlines(), str(path), str(path), lineterm=""
            )
            print("\n".join(words))
    for note in proposal.notes:
        print(f"note: {note}")
    narrowed = len(proposal.changed) - len(proposal.removed)
    print(
        f"{len(proposal.kept)} entries are kept, {narrowed} changed, {len(proposal.removed)} removed, "
        f"{len(proposal.new)} new"
    )
    if proposal.new and arguments.write:
        print(f"now fill in the reason and the link of each new entry; {entries.UNREAD!r} is refused")
    return int(bool(texts) and not arguments.write)


def execute_check(arguments: argparse.Namespace) -> int:
    """Print the mistakes in the entries and what was checked; exit code 1 if there are any."""
    legs = output_files.read(arguments.directory) if arguments.directory else []
    file = _target(arguments, legs)
    of_target = [leg for leg in legs if leg["target"]["name"] == file.name]
    if legs and not of_target:
        raise UsageError(f"the run has no results of target {file.name!r}; name another one")
    book = entries.load(entries.sources(file.name, file.expectations))
    names, today = expectation_targets.plans(file, arguments.extra), datetime.date.today()
    versions = [leg["torch"] for leg in of_target] or [installed_torch.version()]
    mistakes = check.static(book, names, today, versions)
    for leg in of_target:
        mistakes += check.against(book, leg, today)
    for text in dict.fromkeys(mistakes):
        print(text)
    print(
        check_summary.summary(check_summary.look(book, names, of_target, versions, today), len(set(mistakes)))
    )
    return int(bool(mistakes))


def _target(arguments: argparse.Namespace, legs: list[Leg]) -> target_file.TargetFile:
    """Load the target that the user names, else that of the run; UsageError if that is not clear."""
    if arguments.target is not None:
        return target_file.load(arguments.target)
    names = sorted({leg["target"]["name"] for leg in legs})
    if len(names) == 1 and names[0] in target_file.known_targets():
        return target_file.load(names[0])
    of = f" (the run is of {', '.join(names)})" if names else ""
    way = "--target" if legs else "--target, or the output folder of a run"
    raise UsageError(f"it is not clear whose expectations are meant{of}; give {way}")


def _seen(legs: list[Leg], file: target_file.TargetFile) -> list[propose.Seen]:
    renamed = Aliases.load()
    seen = []
    for leg in legs:
        if leg["target"]["name"] == file.name and entry_states.enough_samples(leg["samples"]):
            rows = {renamed.resolve(row["id"]): row for row in leg["results"]}
            # Waivers are made from the entries of the suite's own targets, which name what they excuse.
            waived = {} if file.name in manifest.OWN else manifest.waived(leg["torch"], leg["mode"], rows)
            seen.append(propose.Seen(leg["mode"], leg["torch"], rows, waived))
    if not any(leg.rows for leg in seen):
        raise UsageError(
            f"the run has no results of target {file.name!r} with its default samples; name another one"
        )
    return seen


def _texts(
    proposal: propose.Proposal, file: target_file.TargetFile, *, write: bool
) -> dict[Path, tuple[str, str]]:
    """Return the old and new text of every file that changes."""
    changes: dict[Path, dict[int, list[Expectation]]] = {}
    for entry, replacements in proposal.changed.items():
        assert entry.path is not None
        changes.setdefault(entry.path, {})[entry.index] = replacements
    texts = {}
    for path, by_index in changes.items():
        old = path.read_text()
        texts[path] = old, edit.edited(path, old, by_index)
    if proposal.new:
        place = expectation_targets.new_file(file)
        if place is None:
            lacks = (
                f"target file {file.path} names no expectations; add the line "
                'expectations = "expectations" and make that folder'
            )
            if write:
                raise UsageError(lacks)
            proposal.notes.append(f"{lacks} before you --write")
        path = place or file.path.parent / "expectations" / expectation_targets.NEW
        old = path.read_text() if path.is_file() else ""
        text = texts[path][1] if path in texts else old
        texts[path] = old, edit.appended(text or edit.HEAD, proposal.new)
    return texts
