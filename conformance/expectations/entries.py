"""Expectations (declared deviations of a target): their fields, and the parser of their TOML files."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.expectations.aliases import FOLDER, Aliases
from conformance.model.torch_range import TorchScope, major_and_minor
from conformance.model.verdicts import Kind, ResultId
from conformance.model.vocabulary import MODES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
#: The maximum size of an expectation file in bytes. An entry has about 300 bytes.
MAX_BYTES = 16 << 20

#: The reasons for which an expectation may accept a deviation until the expectation expires.
REASONS = {
    "accuracy": "the device computes with less precision than the suite requires",
    "dtype": "the dtype is not implemented",
    "feature": "a feature is not implemented",
    "hardware": "the hardware cannot do it",
    "investigating": "the cause is not yet known",
    "memory": "the device has too little memory",
    "message": "an error is raised with a different message or type",
    "upstream": "torch itself is at fault",
}
#: The reason of an entry that ``expect update`` proposes, until a person has read it.
UNREAD = "unread"
#: Kinds of failure that no expectation may excuse, because the check was inconclusive.
NEVER = (Kind.VACUOUS, Kind.HARNESS)
_KINDS = tuple(kind.value for kind in Kind if kind not in NEVER)
_KEYS = ("id", "kind", "reason", "detail", "link", "until", "modes", "torch", "processor")
_UNTIL = re.compile(r"\d{4}-\d{2}-\d{2}|torch \d+\.\d+")


@dataclasses.dataclass(frozen=True)
class Expectation:
    """One entry: results that match ``id`` may fail with ``kind`` until the entry expires.

    The entry applies to the modes in ``modes`` and to the versions of torch in the range ``torch``. An empty
    value is not a restriction. ``processor`` names host processors on which the failure occurs. If
    ``processor`` is set, a pass is not unexpected, because the run may use a different processor. ``path`` is
    the file of the entry, and ``index`` its position in the file, counted from 0.
    """

    id: str
    kind: Kind
    reason: str
    link: str
    until: str
    source: str
    detail: str = ""
    modes: tuple[str, ...] = ()
    torch: str = ""
    processor: str = ""
    path: Path | None = None
    index: int = 0

    def applies_to(self, mode: str, torch_version: str) -> bool:
        """Return True if a mode and a version of torch are in the entry's scope."""
        if self.modes and mode not in self.modes:
            return False
        return not self.torch or TorchScope.parse(self.torch).contains_version(torch_version)

    def has_expired(self, today: datetime.date, torch_version: str) -> bool:
        """Return True from the day or torch version on which the entry stops excusing failures."""
        if self.until.startswith("torch "):
            return major_and_minor(torch_version) >= major_and_minor(self.until[6:])
        return today >= datetime.date.fromisoformat(self.until)

    def __str__(self) -> str:
        return f"{self.id} ({self.kind.value}) in {self.source}"


@dataclasses.dataclass(frozen=True)
class TargetExpectations:
    """All expectations of a target."""

    entries: tuple[Expectation, ...]
    digest: str

    def active_entries(self, mode: str, today: datetime.date, torch_version: str) -> list[Expectation]:
        """Return the entries that apply to a mode and a version of torch and have not expired."""
        return [
            entry
            for entry in self.entries
            if entry.applies_to(mode, torch_version) and not entry.has_expired(today, torch_version)
        ]

    def expired_entries(
        self, today: datetime.date, torch_version: str, mode: str | None = None
    ) -> list[Expectation]:
        """Return the expired entries. If ``mode`` is set, return only expired entries for this mode."""
        return [
            entry
            for entry in self.entries
            if entry.has_expired(today, torch_version)
            and (mode is None or entry.applies_to(mode, torch_version))
        ]


def expectation_files(target_name: str, vendor_path: Path | None = None) -> list[Path]:
    """Return the expectation files of a target.

    The files are the suite's files ``NAME.toml`` and ``NAME/*.toml``, and the file ``vendor_path`` or the
    files in the folder ``vendor_path``.
    """
    files = [FOLDER / f"{target_name}.toml", *sorted((FOLDER / target_name).glob("*.toml"))]
    if vendor_path is not None:
        if not vendor_path.exists():
            raise UsageError(
                f"expectations {str(vendor_path)!r} named by target {target_name!r} do not exist; "
                "create the folder"
            )
        files += [vendor_path] if vendor_path.is_file() else sorted(vendor_path.glob("*.toml"))
    return [path for path in files if path.is_file()]


def load_expectations(
    paths: Iterable[Path], aliases: Aliases | None = None, *, unread: bool = False
) -> TargetExpectations:
    """Read and validate files of expectations; raise UsageError for the first mistake.

    ``unread`` accepts entries whose reason has not been filled in.
    """
    alias_table = Aliases.load() if aliases is None else aliases
    digest = hashlib.sha256()
    entries: list[Expectation] = []
    for path in paths:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise UsageError(
                    f"expectations {path} have {path.stat().st_size} bytes; at most {MAX_BYTES} are read"
                )
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"expectations {path} cannot be read: {error.strerror}") from None
        digest.update(hashlib.sha256(content).digest())
        entries += read_entries(path, content, alias_table, unread=unread)
    return TargetExpectations(tuple(entries), digest.hexdigest())


def read_entries(
    path: Path, content: bytes, aliases: Aliases, *, unread: bool = False
) -> Iterator[Expectation]:
    """Yield the entries of one file. ``content`` is the content of the file ``path``."""
    try:
        data = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"expectations {path} are not TOML: {error}") from None
    if data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        raise UsageError(
            f"expectations {path}: schema is {data.get('schema')!r}; this version reads schema = {SCHEMA}"
        )
    for key in data:
        if key not in ("schema", "expect"):
            raise UsageError(f"expectations {path}: unknown key {key!r}; known are schema and [[expect]]")
    listed = data.get("expect", [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise UsageError(
            f"expectations {path}: 'expect' is not a list of tables; write each entry as a table [[expect]]"
        )
    return (_parsed_entry(path, index, entry, aliases, unread) for index, entry in enumerate(listed))


def _parsed_entry(
    path: Path, index: int, entry: Mapping[str, Any], aliases: Aliases, unread: bool
) -> Expectation:
    location = f"expectations {path}, entry {index + 1}"
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{location}: unknown key {key!r}; known are {', '.join(_KEYS)}")
    open_entry = entry.get("reason") == UNREAD
    if open_entry and not unread:
        raise UsageError(
            f"{location}: reason is still {UNREAD!r}; inspect {entry.get('id')} and set the reason to one of "
            f"{', '.join(REASONS)}, with a link"
        )
    for key in ("id", "kind", "reason", "link", "until"):
        if key == "link" and open_entry and entry.get(key) == "":
            continue
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise UsageError(f"{location}: {key} is {entry.get(key)!r}; it must be a non-empty string")
    for key in ("detail", "torch", "processor"):
        if not isinstance(entry.get(key, ""), str):
            raise UsageError(f"{location}: {key} is {entry[key]!r}; it must be a string")
    try:
        ResultId.parse(entry["id"])
        scope = str(TorchScope.parse(entry["torch"])) if entry.get("torch") else ""
    except ValueError as error:
        raise UsageError(f"{location}: {error}") from None
    if entry["kind"] not in _KINDS:
        raise UsageError(
            f"{location}: kind {entry['kind']!r} cannot be expected; use one of {', '.join(_KINDS)}"
        )
    if entry["reason"] not in REASONS and not open_entry:
        raise UsageError(f"{location}: unknown reason {entry['reason']!r}; known are {', '.join(REASONS)}")
    if not entry["link"].startswith(("https://", "http://", "docs/")) and not open_entry:
        raise UsageError(
            f"{location}: link {entry['link']!r} is neither a web address nor a page below docs/; "
            "link to where the deviation is tracked"
        )
    _check_until(location, entry["until"])
    return Expectation(
        id=aliases.resolve(entry["id"]),
        kind=Kind(entry["kind"]),
        reason=entry["reason"],
        link=entry["link"],
        until=entry["until"],
        source=path.name,
        detail=entry.get("detail", ""),
        modes=_checked_modes(location, entry.get("modes", [])),
        torch=scope,
        processor=entry.get("processor", ""),
        path=path,
        index=index,
    )


def is_valid_expiry(text: str) -> bool:
    """Return True for a text in the form of an expiry: a date, or a version of torch."""
    return _UNTIL.fullmatch(text) is not None


def _check_until(location: str, until: str) -> None:
    if not _UNTIL.fullmatch(until):
        raise UsageError(
            f"{location}: until {until!r} is neither a date like 2030-01-31 nor like 'torch 2.15'"
        )
    if not until.startswith("torch "):
        try:
            datetime.date.fromisoformat(until)
        except ValueError:
            raise UsageError(f"{location}: until {until!r} is not a calendar day; correct it") from None


def _checked_modes(location: str, modes: Any) -> tuple[str, ...]:
    if not isinstance(modes, list):
        raise UsageError(f"{location}: modes is {modes!r}; it must be a list of words")
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"{location}: unknown mode {mode!r}; known are {', '.join(MODES)}")
    return tuple(modes)
