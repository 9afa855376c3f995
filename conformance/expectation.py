"""Expectations: declared deviations of a target, and what they make of its results."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.model import Kind, ResultId
from conformance.pattern import compile_pattern, is_literal

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
FOLDER = Path(__file__).parent / "expectations"

#: Why a deviation is accepted for now.
REASONS = {
    "accuracy": "the device computes with less precision than the suite asks for",
    "dtype": "the dtype is not implemented",
    "feature": "a feature is not implemented",
    "hardware": "the hardware cannot do it",
    "investigating": "the cause is not yet known",
    "memory": "the device has too little memory",
    "message": "an error is raised with other words or as another type",
    "upstream": "torch itself is at fault",
}
#: Kinds of failure that no expectation may excuse: they say that nothing was found out.
_NEVER = (Kind.VACUOUS, Kind.HARNESS)
_KINDS = tuple(kind.value for kind in Kind if kind not in _NEVER)
_KEYS = ("id", "kind", "reason", "detail", "link", "until", "modes")


@dataclasses.dataclass(frozen=True)
class Expectation:
    """One entry: results that match ``id`` may fail with ``kind`` until it expires."""

    id: str
    kind: Kind
    reason: str
    link: str
    until: str
    source: str
    detail: str = ""
    modes: tuple[str, ...] = ()

    def expired(self, today: datetime.date, torch_version: str) -> bool:
        """Whether the entry has run out; from that day, or that version of torch, it excuses nothing."""
        if self.until.startswith("torch "):
            return _version(torch_version) >= _version(self.until[6:])
        return today >= datetime.date.fromisoformat(self.until)

    def __str__(self) -> str:
        return f"{self.id} ({self.kind.value}) in {self.source}"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:2])


@dataclasses.dataclass(frozen=True)
class Book:
    """All expectations of a target."""

    entries: tuple[Expectation, ...]
    digest: str

    def active(self, mode: str, today: datetime.date, torch_version: str) -> list[Expectation]:
        """The entries that apply to a mode and have not expired."""
        return [
            entry
            for entry in self.entries
            if (not entry.modes or mode in entry.modes) and not entry.expired(today, torch_version)
        ]

    def expired(self, today: datetime.date, torch_version: str) -> list[Expectation]:
        """The entries that have run out."""
        return [entry for entry in self.entries if entry.expired(today, torch_version)]


def sources(target_name: str, own: Path | None = None) -> list[Path]:
    """A target's files of expectations: the suite's ``NAME.toml`` and ``NAME/*.toml``, and the vendor's."""
    found = [FOLDER / f"{target_name}.toml", *sorted((FOLDER / target_name).glob("*.toml"))]
    if own is not None:
        if not own.exists():
            raise UsageError(
                f"expectations {str(own)!r} named by target {target_name!r} do not exist; create the folder"
            )
        found += [own] if own.is_file() else sorted(own.glob("*.toml"))
    return [path for path in found if path.is_file()]


def load(paths: Iterable[Path], aliases: Aliases | None = None) -> Book:
    """Read and check files of expectations; UsageError names the first mistake."""
    known = Aliases.load() if aliases is None else aliases
    digest = hashlib.sha256()
    entries: list[Expectation] = []
    for path in paths:
        content = path.read_bytes()
        digest.update(hashlib.sha256(content).digest())
        try:
            data = tomllib.loads(content.decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"expectations {path} are not TOML: {error}") from None
        entries += _read(path, data, known)
    return Book(tuple(entries), digest.hexdigest())


def _read(path: Path, data: dict[str, Any], aliases: Aliases) -> list[Expectation]:
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"expectations {path}: schema is {data.get('schema')!r}; this version reads schema = {SCHEMA}"
        )
    for key in data:
        if key not in ("schema", "expect"):
            raise UsageError(f"expectations {path}: unknown key {key!r}; known are schema and [[expect]]")
    return [
        _entry(path, index, entry, aliases) for index, entry in enumerate(data.get("expect", []), start=1)
    ]


def _entry(path: Path, index: int, entry: dict[str, Any], aliases: Aliases) -> Expectation:
    where = f"expectations {path}, entry {index}"
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; known are {', '.join(_KEYS)}")
    for key in ("id", "kind", "reason", "link", "until"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise UsageError(f"{where}: {key} is {entry.get(key)!r}; it must be a non-empty string")
    try:
        ResultId.parse(entry["id"])
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if entry["kind"] not in _KINDS:
        raise UsageError(
            f"{where}: kind {entry['kind']!r} cannot be expected; use one of {', '.join(_KINDS)}"
        )
    if entry["reason"] not in REASONS:
        raise UsageError(f"{where}: unknown reason {entry['reason']!r}; known are {', '.join(REASONS)}")
    if not entry["link"].startswith(("https://", "http://", "docs/")):
        raise UsageError(
            f"{where}: link {entry['link']!r} is neither a web address nor a page below docs/; "
            "link to where the deviation is tracked"
        )
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}|torch \d+\.\d+", entry["until"]):
        raise UsageError(
            f"{where}: until {entry['until']!r} is neither a date like 2030-01-31 nor like 'torch 2.15'"
        )
    if not entry["until"].startswith("torch "):
        try:
            datetime.date.fromisoformat(entry["until"])
        except ValueError:
            raise UsageError(
                f"{where}: until {entry['until']!r} is no day of the calendar; correct it"
            ) from None
    return Expectation(
        id=aliases.resolve(entry["id"]),
        kind=Kind(entry["kind"]),
        reason=entry["reason"],
        link=entry["link"],
        until=entry["until"],
        source=path.name,
        detail=entry.get("detail", ""),
        modes=tuple(entry.get("modes", ())),
    )


@dataclasses.dataclass(frozen=True)
class Aliases:
    """Names that have changed: what was called by the old word is found by the new one."""

    properties: Mapping[str, str]
    subjects: Mapping[str, str]

    @staticmethod
    def load(path: Path = FOLDER / "aliases.toml") -> Aliases:
        data = tomllib.loads(path.read_text()) if path.is_file() else {}
        for key in data:
            if key not in ("properties", "subjects"):
                raise UsageError(f"aliases {path}: unknown table {key!r}; known are properties and subjects")
        return Aliases(data.get("properties", {}), data.get("subjects", {}))

    def resolve(self, text: str) -> str:
        """The present form of a result id or pattern."""
        name, slash, rest = text.partition("/")
        subject, at, dtype = rest.rpartition("@")
        return f"{self.properties.get(name, name)}{slash}{self.subjects.get(subject, subject)}{at}{dtype}"


class Index:
    """Result ids by property, so that a pattern is held against few of them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids: dict[str, list[str]] = {}
        self._all: set[str] = set()
        for text in ids:
            self._ids.setdefault(text.partition("/")[0], []).append(text)
            self._all.add(text)

    def matching(self, pattern: str) -> list[str]:
        """All ids that a pattern matches."""
        if is_literal(pattern):
            return [pattern] if pattern in self._all else []
        name = pattern.partition("/")[0]
        lists = [self._ids.get(name, [])] if is_literal(name) else list(self._ids.values())
        expression = compile_pattern(pattern)
        return [text for ids in lists for text in ids if expression.fullmatch(text)]


def unmatched(entries: Iterable[Expectation], ids: Iterable[str]) -> list[Expectation]:
    """The entries that match none of the ids."""
    index = Index(ids)
    return [entry for entry in entries if not index.matching(entry.id)]
