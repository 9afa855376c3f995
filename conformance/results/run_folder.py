"""Manage output folders: find and delete the files of an earlier run, and find the runs to resume."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.model.records import Header, Leg
from conformance.plan import levels
from conformance.plan.run_request import RunRequest
from conformance.results import merge
from conformance.results.journal import decode_line

#: ``WRITTEN``: the files that every command with results writes. ``_OWN``: all files that a run may write.
WRITTEN = ("results.json", "junit.xml", "report.html")
_OWN = (
    "journal.jsonl",
    *WRITTEN,
    "conformance-profile.html",
    "conformance-profile.json",
    "tracebacks",
    "snippets",
    "logs",
    "legs",
)
#: Matches the first line of a complete results file, up to its legs.
_COMPLETE = re.compile(rb'^\{"schema":[^\[]*?"complete":true,')
_HEAD = 4096


def check_foreign_files(folder: Path, names: Iterable[str] = _OWN) -> None:
    """Raise UsageError if a folder has files of these names that were not written by a run."""
    ours = bool(journal_paths(folder)) or any(
        _beginning_of_file(path).startswith(b'{"schema":')
        for pattern in ("results.json", "legs/*/results.json")
        for path in folder.glob(pattern)
    )
    foreign_files = [name for name in names if (folder / name).exists()]
    if foreign_files and not ours:
        raise UsageError(
            f"--output {folder} contains {', '.join(foreign_files)}, which no earlier run has written; use a "
            "different folder"
        )


def clear_folder(folder: Path) -> None:
    """Create an output folder, or delete the files of an earlier run in it.

    If a run is deleted, print a message that describes the run. Raise UsageError if a file in the folder has
    the name of an output file and was not written by a run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_foreign_files(folder)
    before = earlier_legs(folder)
    if before:
        print(
            f"the results of an earlier run in {short_path(folder)} ({describe_legs(before)}) are replaced",
            file=sys.stderr,
        )
    for name in _OWN:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class EarlierLeg:
    """One leg of the run in an output folder."""

    target: str
    mode: str
    level: str
    shard: str
    selection: str | None
    started: str
    complete: bool

    @property
    def is_unrestricted(self) -> bool:
        """True if the leg is complete and covers its whole level. Always False for the short level smoke."""
        everything = self.selection is None and self.shard == "1/1"
        return self.complete and everything and self.level != levels.SMOKE


def earlier_legs(folder: Path) -> list[EarlierLeg]:
    """Return the legs of the run in a folder; empty if the folder has no run or its files cannot be read.

    The results are not validated against the schema, because a different version of the suite may have
    written them.
    """
    legs_of_journals = []
    for journal in journal_paths(folder):
        legs_of_journals += _earlier_legs_of_record(
            journal_header(journal), complete=is_run_complete(journal.parent)
        )
    if legs_of_journals:
        return legs_of_journals
    try:
        legs = json.loads((folder / "results.json").read_text())["legs"]
        return [
            earlier_leg
            for leg in legs
            for earlier_leg in _earlier_legs_of_record(leg, complete=leg["complete"])
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _earlier_legs_of_record(record: Header | Leg | None, *, complete: bool) -> list[EarlierLeg]:
    if record is None:
        return []
    try:
        return [
            EarlierLeg(
                target=str(record["target"]["name"]),
                mode=str(record["mode"]),
                level=str(record["level"]),
                shard=str(record["shard"]),
                selection=record["selection"],
                started=str(record["started"]),
                complete=complete,
            )
        ]
    except (KeyError, TypeError):
        return []


def describe_legs(legs: Sequence[EarlierLeg]) -> str:
    """Return a short description of a run: its first leg, with the modes of all legs."""
    first = legs[0]
    descriptions = [first.target, *dict.fromkeys(leg.mode for leg in legs), f"level {first.level}"]
    if first.selection is not None:
        descriptions.append(f"-k {first.selection!r}")
    if first.shard != "1/1":
        descriptions.append(f"shard {first.shard}")
    return ", ".join([*descriptions, first.started])


def check_keeps_unrestricted_run(chosen: RunRequest) -> None:
    """Raise UsageError if a restricted run would delete an unrestricted run of the same target and mode.

    The unrestricted run in the output folder may have taken an hour. Users often run a single operator for a
    few seconds and do not set ``-o``.
    """
    for leg in earlier_legs(chosen.output):
        if not leg.is_unrestricted or leg.target != chosen.target.name or leg.mode not in chosen.modes:
            continue
        all_levels = levels.ALL_LEVELS
        smaller = leg.level in all_levels and all_levels.index(chosen.level) < all_levels.index(leg.level)
        if chosen.select is None and not smaller:
            continue
        selection_text = f"level {chosen.level}" if chosen.select is None else f"-k {chosen.select!r}"
        raise UsageError(
            f"--output {short_path(chosen.output)} contains an unrestricted run ({describe_legs([leg])}), "
            f"which a run with {selection_text} would replace; use a different folder with -o"
        )


def journal_paths(folder: Path) -> list[Path]:
    """Return the journals of the run in a folder."""
    single = folder / "journal.jsonl"
    return [single] if single.is_file() else sorted(folder.glob("legs/*/journal.jsonl"))


def journal_header(journal: Path) -> Header | None:
    """Return the first event of a journal, which describes the run; None if that line is damaged."""
    try:
        with journal.open("rb") as file:
            events, _ = decode_line(file.readline().decode("utf-8", "replace"))
    except OSError:
        return None
    first = events[0] if events else None
    return first if first is not None and first["event"] == "run" else None


def is_run_complete(folder: Path) -> bool:
    """Return True if the results file of a folder declares that the run is complete."""
    return _COMPLETE.match(_beginning_of_file(folder / "results.json")) is not None


def resumable_folders(folder: Path, legs: Sequence[Leg]) -> list[Path]:
    """Return the folders that ``run --resume`` can continue: ``folder`` itself, or folders of single legs in
    it.
    """
    unfinished = {leg["name"] for leg in legs if _is_resumable(leg)}
    of_run = journal_paths(folder)
    if not unfinished or not of_run:
        return []
    if of_run[0].parent == folder or belong_to_one_run(of_run):
        return [folder]
    return [journal.parent for journal in of_run if journal.parent.name in unfinished]


def belong_to_one_run(paths: Sequence[Path]) -> bool:
    """Return True if the journals belong to one run of several modes; False if they belong to merged runs."""
    first = journal_header(paths[0])
    options: object = None if first is None else first.get("options")
    modes = options.get("modes") if isinstance(options, dict) else None
    return isinstance(modes, list) and len(modes) > 1


def _is_resumable(leg: Leg) -> bool:
    """Return True if ``run --resume`` can complete a leg.

    The command can run missing results. It cannot add missing shards or repair differences between reference
    values.
    """
    if merge.leg_without_merge_problem(leg)["complete"]:
        return False
    return bool(leg["missing"]["count"]) or not leg["oracle"]["differences"]


def short_path(path: Path) -> Path:
    """Return a path inside the current folder as a relative path; return other paths unchanged."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def _beginning_of_file(path: Path) -> bytes:
    """Return the beginning of a file; empty if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""
