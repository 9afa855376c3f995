"""The manifest: every result id that there is, by torch minor and mode, as committed data.

``manifest.json`` beside the levels is written by ``python -m tools.generate.manifest`` and read here
without torch. What a level asks for in a mode is computed from it and from the level's own file; the digest
of that names it in certificates.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.model.verdicts import ResultId
from conformance.model.vocabulary import LEVELS
from conformance.plan import capability_requirements as capabilities
from conformance.plan import levels

PATH = levels.FOLDER / "manifest.json"
SCHEMA = 1
COMMAND = "python -m tools.generate.manifest"
#: The suite's own targets: their expectations with the reason ``upstream`` are faults of torch itself.
OWN = ("cpu", "hpu-reference")

Minor = tuple[int, int]


class UnknownMinor(UsageError):
    """The manifest does not know a torch minor, so no run on it can be certified."""


def minor_of(version: str) -> Minor:
    """Major and minor of a version of torch: (2, 13) of ``2.13.0+cpu``."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", version)
    if match is None:
        raise UsageError(f"version {version!r} of torch does not begin like 2.13")
    return int(match.group(1)), int(match.group(2))


def words(minor: Minor) -> str:
    """``2.13`` of (2, 13)."""
    return f"{minor[0]}.{minor[1]}"


@dataclasses.dataclass(frozen=True)
class Group:
    """Results of one property that came and went together. ``until`` is the first minor without them."""

    since: Minor
    until: Minor | None
    dtypes: tuple[str, ...]
    subjects: tuple[str, ...]

    def at(self, minor: Minor) -> bool:
        """Return True if the group is due on a minor of torch."""
        return self.since <= minor and (self.until is None or minor < self.until)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A property as the manifest knows it.

    ``hooks`` are those without which it has no results; ``promise`` is the sentence that must hold,
    ``documentation`` the page of PyTorch's documentation that it rests on.
    """

    kind: str
    name: str
    level: str
    modes: tuple[str, ...]
    capabilities: tuple[str, ...]
    hooks: tuple[str, ...]
    groups: tuple[Group, ...]
    promise: str = ""
    documentation: str = ""


@dataclasses.dataclass(frozen=True)
class Waiver:
    """A failure that torch itself causes, which counts against no target."""

    id: str
    kind: str
    link: str
    detail: str
    modes: tuple[str, ...]
    since: Minor
    until: Minor | None


@dataclasses.dataclass(frozen=True)
class Entry:
    """One result that a level asks for, with what it needs. ``floor`` says that no declaration removes it."""

    id: ResultId
    kind: str
    capabilities: tuple[str, ...]
    hooks: tuple[str, ...]
    floor: bool


@dataclasses.dataclass(frozen=True)
class LevelRequirements:
    """The requirements of a level in a mode on a torch minor. ``waived`` are kinds of failure by result."""

    minor: Minor
    mode: str
    level: str
    entries: Mapping[str, Entry]
    native: tuple[str, ...]
    waived: Mapping[str, frozenset[str]]

    def digest(self) -> str:
        """Digest of everything that decides whether results entitle to the level."""
        lines = [f"torch {words(self.minor)} {self.mode} {self.level}"]
        lines += [
            f"{name} {entry.kind} {','.join(sorted(entry.capabilities))} {','.join(entry.hooks)} "
            f"{entry.floor:d}"
            for name, entry in sorted(self.entries.items())
        ]
        lines += [f"native {name}" for name in sorted(self.native)]
        lines += [f"waived {name} {','.join(sorted(kinds))}" for name, kinds in sorted(self.waived.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The whole manifest: of every torch minor that the suite was seen with."""

    minors: tuple[Minor, ...]
    statements: tuple[Statement, ...]
    waivers: tuple[Waiver, ...]

    def check_minor(self, minor: Minor) -> None:
        """Raise UnknownMinor for a minor that it does not know."""
        if minor not in self.minors:
            known = ", ".join(map(words, self.minors))
            raise UnknownMinor(
                f"the manifest knows no torch {words(minor)}, only {known}: results on it certify nothing; "
                f"run '{COMMAND}' with that torch installed and have the change reviewed"
            )

    def ids(self, minor: Minor, mode: str) -> Iterator[tuple[Statement, str, str]]:
        """Property, subject and dtype of every result in a mode; UsageError if one appears twice."""
        seen: set[str] = set()
        for statement in self.statements:
            if mode not in statement.modes:
                continue
            for group in statement.groups:
                if not group.at(minor):
                    continue
                for subject in group.subjects:
                    for dtype in group.dtypes:
                        text = f"{statement.name}/{subject}@{dtype}"
                        if text in seen:
                            raise UsageError(
                                f"{text} is in the manifest of torch {words(minor)}, {mode}, twice; "
                                f"run '{COMMAND}'"
                            )
                        seen.add(text)
                        yield statement, subject, dtype

    def demand(self, version: str, mode: str, level: str) -> LevelRequirements:
        """The requirements of a level in a mode; UsageError for a minor that the manifest does not know."""
        minor = minor_of(version)
        self.check_minor(minor)
        return _demand(self, minor, mode, level)


def waived(version: str, mode: str, results: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """The waivers of the committed manifest for a torch and a mode: links by kind by result id.

    None if there is no manifest yet, or none of that minor. Many properties check the first of some dtypes
    that the target declares. If it does not declare that of a waiver, ``results`` hold in its place one that
    the manifest does not list: ``vmap/roll@float32`` for ``vmap/roll@float64``. It has the same waiver.
    """
    minor = minor_of(version)
    if not PATH.is_file():
        return {}
    manifest = load()
    links: dict[str, dict[str, str]] = {}
    for waiver in manifest.waivers:
        if _speaks(waiver, minor, mode):
            links.setdefault(waiver.id, {})[waiver.kind] = waiver.link
    absent: dict[str, dict[str, str]] = {}
    for name in links.keys() - set(results):
        absent.setdefault(_case(name), {}).update(links[name])
    others = [name for name in results if name not in links and _case(name) in absent]
    if others:
        listed = {f"{s.name}/{subject}@{dtype}" for s, subject, dtype in manifest.ids(minor, mode)}
        links.update((name, absent[_case(name)]) for name in others if name not in listed)
    return links


def _case(name: str) -> str:
    return name.rpartition("@")[0]


@functools.lru_cache(maxsize=32)
def _demand(manifest: Manifest, minor: Minor, mode: str, level: str) -> LevelRequirements:
    chosen = levels.load(level)
    floor = chosen.floor(mode)
    entries: dict[str, Entry] = {}
    for statement, subject, dtype in manifest.ids(minor, mode):
        if not chosen.chosen(statement.kind, statement.name, statement.level, subject, (dtype,)):
            continue
        of_subject = capabilities.of_subject(statement.kind, subject)
        needs = tuple(dict.fromkeys((*statement.capabilities, *of_subject)))
        result_id = ResultId.parse(f"{statement.name}/{subject}@{dtype}")
        entries[str(result_id)] = Entry(
            result_id, statement.kind, needs, statement.hooks, floor.holds(dtype, needs)
        )
    waived: dict[str, set[str]] = {}
    for waiver in manifest.waivers:
        if waiver.id in entries and _speaks(waiver, minor, mode):
            waived.setdefault(waiver.id, set()).add(waiver.kind)
    placed = {
        entry.id.case.subject for entry in entries.values() if entry.id.case.property == levels.PLACEMENT
    }
    return LevelRequirements(
        minor,
        mode,
        level,
        entries,
        tuple(name for name in chosen.native if name in placed),
        {name: frozenset(kinds) for name, kinds in waived.items()},
    )


def _speaks(waiver: Waiver, minor: Minor, mode: str) -> bool:
    if waiver.modes and mode not in waiver.modes:
        return False
    return waiver.since <= minor and (waiver.until is None or minor < waiver.until)


def load(path: Path = PATH) -> Manifest:
    """The committed manifest; UsageError if it is not one."""
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = repr(error)[:300]
        raise UsageError(f"manifest {path.name} cannot be read: {why}; run '{COMMAND}'") from None


def from_json(data: Mapping[str, Any]) -> Manifest:
    """A manifest from its JSON; ValueError, KeyError or TypeError if it is something else."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema is {data['schema']!r}; this version reads {SCHEMA}")
    return Manifest(
        tuple(sorted(map(_minor, data["minors"]))),
        tuple(_statement(entry) for entry in data["properties"]),
        tuple(
            Waiver(
                str(entry["id"]),
                str(entry["kind"]),
                str(entry["link"]),
                str(entry["detail"]),
                tuple(entry["modes"]),
                *_span(entry),
            )
            for entry in data["waivers"]
        ),
    )


def _statement(entry: Mapping[str, Any]) -> Statement:
    if entry["level"] not in LEVELS:
        raise ValueError(f"property {entry['name']!r} names level {entry['level']!r}")
    groups = [
        Group(*_span(group), tuple(group["dtypes"].split()), tuple(group["subjects"].split()))
        for group in entry["results"]
    ]
    return Statement(
        str(entry["kind"]),
        str(entry["name"]),
        entry["level"],
        tuple(entry["modes"]),
        tuple(entry["capabilities"]),
        tuple(entry["hooks"]),
        tuple(groups),
        str(entry.get("promise", "")),
        str(entry.get("documentation", "")),
    )


def _span(entry: Mapping[str, Any]) -> tuple[Minor, Minor | None]:
    return _minor(entry["since"]), None if entry["until"] is None else _minor(entry["until"])


def _minor(text: str) -> Minor:
    first, dot, second = text.partition(".")
    if not dot:
        raise ValueError(f"{text!r} is no minor of torch")
    return int(first), int(second)


def to_json(manifest: Manifest) -> dict[str, Any]:
    """The inverse of :func:`from_json`, with digests of what levels ask for, for whoever reads a change."""

    def span(entry: Group | Waiver) -> dict[str, Any]:
        return {"since": words(entry.since), "until": None if entry.until is None else words(entry.until)}

    return {
        "schema": SCHEMA,
        "minors": [words(minor) for minor in manifest.minors],
        "digests": digests(manifest),
        "properties": [
            {
                "kind": statement.kind,
                "name": statement.name,
                "level": statement.level,
                "modes": list(statement.modes),
                "capabilities": list(statement.capabilities),
                "hooks": list(statement.hooks),
                "promise": statement.promise,
                "documentation": statement.documentation,
                "results": [
                    {**span(group), "dtypes": " ".join(group.dtypes), "subjects": " ".join(group.subjects)}
                    for group in statement.groups
                ],
            }
            for statement in manifest.statements
        ],
        "waivers": [
            {
                "id": statement.id,
                "kind": statement.kind,
                "link": statement.link,
                "detail": statement.detail,
                "modes": list(statement.modes),
                **span(statement),
            }
            for statement in manifest.waivers
        ],
    }


def digests(manifest: Manifest) -> dict[str, dict[str, dict[str, str]]]:
    """The digest of what each level asks for, by torch minor and mode."""
    modes = sorted({mode for statement in manifest.statements for mode in statement.modes})
    return {
        words(minor): {
            mode: {level: _demand(manifest, minor, mode, level).digest() for level in LEVELS}
            for mode in modes
        }
        for minor in manifest.minors
    }


def groups(dtypes_of: Mapping[str, Sequence[tuple[str, Minor, Minor | None]]]) -> tuple[Group, ...]:
    """Groups of one property from the dtypes of each subject with since and until, subjects that share them
    together.
    """
    by_subject: dict[tuple[tuple[str, ...], Minor, Minor | None], list[str]] = {}
    for subject, dtypes in dtypes_of.items():
        spans: dict[tuple[Minor, Minor | None], list[str]] = {}
        for dtype, since, until in dtypes:
            spans.setdefault((since, until), []).append(dtype)
        for (since, until), names in spans.items():
            by_subject.setdefault((tuple(names), since, until), []).append(subject)
    ordered = [
        Group(since, until, dtypes, tuple(sorted(subjects)))
        for (dtypes, since, until), subjects in by_subject.items()
    ]
    return tuple(sorted(ordered, key=lambda group: (group.subjects, group.dtypes, group.since)))
