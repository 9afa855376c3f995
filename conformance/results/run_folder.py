"""Output folders: what an earlier run left in one, when that may go, and which of its runs can go on."""

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
from conformance.plan.run_request import Request
from conformance.results import merge
from conformance.results.journal import decode

#: The files that everyone who writes results writes, and all that a run leaves behind.
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
#: The first line of a results file, before its legs.
_COMPLETE = re.compile(rb'^\{"schema":[^\[]*?"complete":true,')
_HEAD = 4096


def check_foreign(folder: Path, names: Iterable[str] = _OWN) -> None:
    """Raise UsageError if a folder holds files of these names that no run can have left."""
    ours = bool(journals(folder)) or any(
        _head(path).startswith(b'{"schema":')
        for pattern in ("results.json", "legs/*/results.json")
        for path in folder.glob(pattern)
    )
    others = [name for name in names if (folder / name).exists()]
    if others and not ours:
        raise UsageError(
            f"--output {folder} holds {', '.join(others)} that no earlier run has left; name another folder"
        )


def clear(folder: Path) -> None:
    """Make an output folder and remove what an earlier run left in it, saying what that was.

    UsageError if files of these names are there that no run can have left: they belong to someone else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_foreign(folder)
    before = earlier(folder)
    if before:
        print(
            f"the results of an earlier run in {short(folder)} ({described(before)}) are replaced",
            file=sys.stderr,
        )
    for name in _OWN:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class Earlier:
    """One leg of the run that a folder holds."""

    target: str
    mode: str
    level: str
    shard: str
    selection: str | None
    started: str
    complete: bool

    @property
    def whole(self) -> bool:
        """True if nothing of its level is left out. Level smoke does not count: it takes seconds."""
        everything = self.selection is None and self.shard == "1/1"
        return self.complete and everything and self.level != levels.SMOKE


def earlier(folder: Path) -> list[Earlier]:
    """The legs of the run that a folder holds; none if it holds no run, or one that cannot be read.

    Results are not checked against the schema: those of another version of the suite count as well.
    """
    legs_of_journals = []
    for journal in journals(folder):
        legs_of_journals += _leg(header(journal), complete=complete(journal.parent))
    if legs_of_journals:
        return legs_of_journals
    try:
        legs = json.loads((folder / "results.json").read_text())["legs"]
        return [known for leg in legs for known in _leg(leg, complete=leg["complete"])]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _leg(words: Header | Leg | None, *, complete: bool) -> list[Earlier]:
    if words is None:
        return []
    try:
        return [
            Earlier(
                target=str(words["target"]["name"]),
                mode=str(words["mode"]),
                level=str(words["level"]),
                shard=str(words["shard"]),
                selection=words["selection"],
                started=str(words["started"]),
                complete=complete,
            )
        ]
    except (KeyError, TypeError):
        return []


def described(legs: Sequence[Earlier]) -> str:
    """A short description of a run: its first leg, with the modes of all legs."""
    first = legs[0]
    words = [first.target, *dict.fromkeys(leg.mode for leg in legs), f"level {first.level}"]
    if first.selection is not None:
        words.append(f"-k {first.selection!r}")
    if first.shard != "1/1":
        words.append(f"shard {first.shard}")
    return ", ".join([*words, first.started])


def check_narrower(chosen: Request) -> None:
    """Raise UsageError if a run would replace a whole one of the same target and mode by a part of it.

    That one may have taken an hour, and a look at one operator takes seconds, often without any ``-o``.
    """
    for leg in earlier(chosen.output):
        if not leg.whole or leg.target != chosen.target.name or leg.mode not in chosen.modes:
            continue
        known = levels.ALL_LEVELS
        smaller = leg.level in known and known.index(chosen.level) < known.index(leg.level)
        if chosen.select is None and not smaller:
            continue
        words = f"level {chosen.level}" if chosen.select is None else f"-k {chosen.select!r}"
        raise UsageError(
            f"--output {short(chosen.output)} holds a whole run ({described([leg])}), which one with {words} "
            "would replace; name another folder with -o"
        )


def journals(folder: Path) -> list[Path]:
    """The journals of the run that a folder holds."""
    single = folder / "journal.jsonl"
    return [single] if single.is_file() else sorted(folder.glob("legs/*/journal.jsonl"))


def header(journal: Path) -> Header | None:
    """The first event of a journal, which says what is run; None if that line is damaged."""
    try:
        with journal.open("rb") as file:
            events, _ = decode(file.readline().decode("utf-8", "replace"))
    except OSError:
        return None
    first = events[0] if events else None
    return first if first is not None and first["event"] == "run" else None


def complete(folder: Path) -> bool:
    """Return True if the results of a folder say that they are complete."""
    return _COMPLETE.match(_head(folder / "results.json")) is not None


def to_resume(folder: Path, legs: Sequence[Leg]) -> list[Path]:
    """The folders with which ``run --resume`` has something to go on, of a folder with these legs."""
    unfinished = {leg["name"] for leg in legs if _can_go_on(leg)}
    of_run = journals(folder)
    if not unfinished or not of_run:
        return []
    if of_run[0].parent == folder or of_one_run(of_run):
        return [folder]
    return [journal.parent for journal in of_run if journal.parent.name in unfinished]


def of_one_run(paths: Sequence[Path]) -> bool:
    """Return True if the journals below ``legs`` are of one run of several modes, not of merged runs."""
    first = header(paths[0])
    options: object = None if first is None else first.get("options")
    modes = options.get("modes") if isinstance(options, dict) else None
    return isinstance(modes, list) and len(modes) > 1


def _can_go_on(leg: Leg) -> bool:
    """Return True if running can complete a leg: it does not change oracle values, nor run other shards."""
    if merge.alone(leg)["complete"]:
        return False
    return bool(leg["missing"]["count"]) or not leg["oracle"]["differences"]


def short(path: Path) -> Path:
    """A path as a person would name it from here."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def _head(path: Path) -> bytes:
    """The beginning of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""
