"""The manifest: the committed list of all result ids by torch minor and mode.

``python -m tools.generate.manifest`` writes ``manifest.json`` next to the levels. This module reads the file
without importing torch. It computes the requirements of a level in a mode from the manifest and the level's
file. A certificate contains the digest of these requirements.
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
from conformance.model.verdicts import CaseId, ResultId
from conformance.model.vocabulary import LEVELS
from conformance.plan import capability_requirements as capabilities
from conformance.plan import levels

PATH = levels.FOLDER / "manifest.json"
SCHEMA = 1
COMMAND = "python -m tools.generate manifest"
#: The targets that the suite itself provides. Their expectations with the reason ``upstream`` declare
#: failures of torch itself.
OWN_TARGETS = ("cpu", "hpu-reference")

Minor = tuple[int, int]


class UnknownMinor(UsageError):
    """The manifest has no entry for a torch minor, so that a run on this minor cannot be certified."""


def minor_of(version: str) -> Minor:
    """Return major and minor of a torch version: (2, 13) for ``2.13.0+cpu``."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", version)
    if match is None:
        raise UsageError(f"torch version {version!r} does not begin with a major and minor number like 2.13")
    return int(match.group(1)), int(match.group(2))


def minor_text(minor: Minor) -> str:
    """Return ``2.13`` for (2, 13)."""
    return f"{minor[0]}.{minor[1]}"


@dataclasses.dataclass(frozen=True)
class ManifestGroup:
    """Results of one property that were added in the same torch minor and removed in the same torch minor.

    ``since`` is the first minor with these results, ``until`` the first later minor without them.
    """

    since: Minor
    until: Minor | None
    dtypes: tuple[str, ...]
    subjects: tuple[str, ...]

    def exists_on(self, minor: Minor) -> bool:
        """Return True if the results of the group exist on a minor of torch."""
        return self.since <= minor and (self.until is None or minor < self.until)


@dataclasses.dataclass(frozen=True)
class ManifestProperty:
    """A property in the manifest.

    The property has results only for a target that defines all hooks in ``hooks``. ``other_hooks`` replaces
    ``hooks`` on some minors: an older torch lacks a function that a hook provides. ``promise`` is the
    requirement, and ``documentation`` is the page of PyTorch's documentation that states the requirement.
    """

    kind: str
    name: str
    level: str
    modes: tuple[str, ...]
    capabilities: tuple[str, ...]
    hooks: tuple[str, ...]
    groups: tuple[ManifestGroup, ...]
    promise: str = ""
    documentation: str = ""
    other_hooks: tuple[tuple[Minor, tuple[str, ...]], ...] = ()

    def hooks_on(self, minor: Minor) -> tuple[str, ...]:
        """Return the hooks that a target must define so that the property has results on a torch minor."""
        return dict(self.other_hooks).get(minor, self.hooks)


@dataclasses.dataclass(frozen=True)
class Waiver:
    """A failure of torch itself that counts against no target."""

    id: str
    kind: str
    link: str
    detail: str
    modes: tuple[str, ...]
    since: Minor
    until: Minor | None


@dataclasses.dataclass(frozen=True)
class RequiredResult:
    """One result that a level requires, with the capabilities and hooks that the result needs.

    If ``floor`` is true, the result is required even if a target does not declare its dtype or capabilities.
    """

    id: ResultId
    kind: str
    capabilities: tuple[str, ...]
    hooks: tuple[str, ...]
    floor: bool


@dataclasses.dataclass(frozen=True)
class LevelRequirements:
    """The requirements of a level in a mode on a torch minor. ``waived`` maps a result id to the failure
    kinds that are waived.
    """

    minor: Minor
    mode: str
    level: str
    entries: Mapping[str, RequiredResult]
    native: tuple[str, ...]
    waived: Mapping[str, frozenset[str]]

    def digest(self) -> str:
        """Return the digest of all fields that determine whether a target holds the level."""
        lines = [f"torch {minor_text(self.minor)} {self.mode} {self.level}"]
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
    """The whole manifest, for every torch minor that was added to it."""

    minors: tuple[Minor, ...]
    statements: tuple[ManifestProperty, ...]
    waivers: tuple[Waiver, ...]

    def check_minor(self, minor: Minor) -> None:
        """Raise UnknownMinor if the manifest has no entry for a minor."""
        if minor not in self.minors:
            listed_minors = ", ".join(map(minor_text, self.minors))
            raise UnknownMinor(
                f"the manifest has no entry for torch {minor_text(minor)} (it has {listed_minors}), so this "
                f"run cannot be certified; to add one, install that torch, run '{COMMAND}' and have the "
                "change reviewed"
            )

    def cases(self, minor: Minor, mode: str) -> Iterator[tuple[ManifestProperty, str, tuple[str, ...]]]:
        """Yield property, subject and dtypes of the results in a mode."""
        for statement in self.statements:
            if mode not in statement.modes:
                continue
            for group in statement.groups:
                if group.exists_on(minor):
                    for subject in group.subjects:
                        yield statement, subject, group.dtypes

    def ids(self, minor: Minor, mode: str) -> Iterator[tuple[ManifestProperty, str, str]]:
        """Yield property, subject and dtype of every result in a mode; raise UsageError if the manifest lists
        a result twice.
        """
        yielded: set[str] = set()
        for statement, subject, dtypes in self.cases(minor, mode):
            for dtype in dtypes:
                text = f"{statement.name}/{subject}@{dtype}"
                if text in yielded:
                    raise _duplicate_result_error(text, minor, mode)
                yielded.add(text)
                yield statement, subject, dtype

    def level_requirements(self, version: str, mode: str, level: str) -> LevelRequirements:
        """Return the requirements of a level in a mode; raise UnknownMinor if the manifest has no entry for
        the minor of ``version``.
        """
        minor = minor_of(version)
        self.check_minor(minor)
        return _cached_level_requirements(self, minor, mode, level)


@functools.cache
def _measured_minors() -> tuple[Minor, ...]:
    return load().minors if PATH.is_file() else ()


def version_for_expectations(version: str) -> str:
    """Return the torch version whose expectations and waivers apply to a run with ``version``.

    If ``version`` is newer than the manifest, such as a nightly build, return the latest minor of the
    manifest. Otherwise return ``version``, even if ``version`` is not a version number.
    """
    minors = _measured_minors()
    try:
        is_newer = bool(minors) and minor_of(version) > minors[-1]
    except UsageError:
        return version
    return minor_text(minors[-1]) if is_newer else version


def waiver_links(version: str, mode: str, results: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """Return the waivers for a torch version and a mode: result id -> failure kind -> link.

    The mapping is empty if the manifest does not exist or has no entry for the minor.

    Many properties are checked only in the first declared dtype of a list. If the target does not declare the
    dtype of a waived result, a result in a different dtype replaces it: ``vmap/roll@float32`` replaces
    ``vmap/roll@float64``. If ``results`` contains a replacement that the manifest does not list, the
    replacement gets the waiver of the replaced result.
    """
    minor = minor_of(version)
    if not PATH.is_file():
        return {}
    manifest = load()
    links: dict[str, dict[str, str]] = {}
    for waiver in manifest.waivers:
        if _waiver_applies(waiver, minor, mode):
            links.setdefault(waiver.id, {})[waiver.kind] = waiver.link
    absent: dict[str, dict[str, str]] = {}
    for name in links.keys() - set(results):
        absent.setdefault(_case_of_result_id(name), {}).update(links[name])
    unlisted = [name for name in results if name not in links and _case_of_result_id(name) in absent]
    if unlisted:
        listed = {f"{s.name}/{subject}@{dtype}" for s, subject, dtype in manifest.ids(minor, mode)}
        links.update((name, absent[_case_of_result_id(name)]) for name in unlisted if name not in listed)
    return links


def _duplicate_result_error(name: str, minor: Minor, mode: str) -> UsageError:
    return UsageError(
        f"the manifest lists {name} twice for torch {minor_text(minor)} in mode {mode}; run '{COMMAND}'"
    )


def _case_of_result_id(name: str) -> str:
    return name.rpartition("@")[0]


@functools.lru_cache(maxsize=32)
def _cached_level_requirements(manifest: Manifest, minor: Minor, mode: str, level: str) -> LevelRequirements:
    level_definition = levels.load(level)
    floor = level_definition.floor(mode)
    entries: dict[str, RequiredResult] = {}
    for statement, subject, dtypes in manifest.cases(minor, mode):
        selected = level_definition.selected_dtypes(
            statement.kind, statement.name, statement.level, subject, dtypes
        )
        if not selected:
            continue
        subject_capabilities = capabilities.capabilities_of_subject(statement.kind, subject)
        needs = tuple(dict.fromkeys((*statement.capabilities, *subject_capabilities)))
        case = CaseId.parse(f"{statement.name}/{subject}")
        for dtype in selected:
            result_id = ResultId(case, dtype)
            name = str(result_id)
            if name in entries:
                raise _duplicate_result_error(name, minor, mode)
            entries[name] = RequiredResult(
                result_id,
                statement.kind,
                needs,
                statement.hooks_on(minor),
                floor.requires_result(dtype, needs),
            )
    waived: dict[str, set[str]] = {}
    for waiver in manifest.waivers:
        if waiver.id in entries and _waiver_applies(waiver, minor, mode):
            waived.setdefault(waiver.id, set()).add(waiver.kind)
    subjects_with_placement = {
        entry.id.case.subject for entry in entries.values() if entry.id.case.property == levels.PLACEMENT
    }
    return LevelRequirements(
        minor,
        mode,
        level,
        entries,
        tuple(name for name in level_definition.native if name in subjects_with_placement),
        {name: frozenset(kinds) for name, kinds in waived.items()},
    )


def _waiver_applies(waiver: Waiver, minor: Minor, mode: str) -> bool:
    if waiver.modes and mode not in waiver.modes:
        return False
    return waiver.since <= minor and (waiver.until is None or minor < waiver.until)


def load(path: Path = PATH) -> Manifest:
    """Return the committed manifest; raise UsageError if the file is not a manifest."""
    try:
        return from_json(json.loads(path.read_text()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = repr(error)[:300]
        raise UsageError(f"manifest {path.name} cannot be read: {reason}; run '{COMMAND}'") from None


def from_json(data: Mapping[str, Any]) -> Manifest:
    """Return a manifest from its JSON; raise ValueError, KeyError or TypeError if the JSON is invalid."""
    if data["schema"] != SCHEMA:
        raise ValueError(
            f"the schema is {data['schema']!r}, but this version of the suite reads schema {SCHEMA}"
        )
    return Manifest(
        tuple(sorted(map(_minor, data["minors"]))),
        tuple(_property_from_json(entry) for entry in data["properties"]),
        tuple(
            Waiver(
                str(entry["id"]),
                str(entry["kind"]),
                str(entry["link"]),
                str(entry["detail"]),
                tuple(entry["modes"]),
                *_since_and_until(entry),
            )
            for entry in data["waivers"]
        ),
    )


def _property_from_json(entry: Mapping[str, Any]) -> ManifestProperty:
    if entry["level"] not in LEVELS:
        raise ValueError(f"property {entry['name']!r} names level {entry['level']!r}, which does not exist")
    groups = [
        ManifestGroup(
            *_since_and_until(group), tuple(group["dtypes"].split()), tuple(group["subjects"].split())
        )
        for group in entry["results"]
    ]
    return ManifestProperty(
        str(entry["kind"]),
        str(entry["name"]),
        entry["level"],
        tuple(entry["modes"]),
        tuple(entry["capabilities"]),
        tuple(entry["hooks"]),
        tuple(groups),
        str(entry.get("promise", "")),
        str(entry.get("documentation", "")),
        tuple((_minor(minor), tuple(hooks)) for minor, hooks in entry.get("other_hooks", {}).items()),
    )


def _since_and_until(entry: Mapping[str, Any]) -> tuple[Minor, Minor | None]:
    return _minor(entry["since"]), None if entry["until"] is None else _minor(entry["until"])


def _minor(text: str) -> Minor:
    first, dot, second = text.partition(".")
    if not dot:
        raise ValueError(f"{text!r} is not a minor version of torch, like 2.13")
    return int(first), int(second)


def to_json(manifest: Manifest) -> dict[str, Any]:
    """Return the JSON of a manifest. The JSON includes the digests of all level requirements, so that a
    reviewer sees which levels a change affects.
    """

    def since_and_until_json(entry: ManifestGroup | Waiver) -> dict[str, Any]:
        return {
            "since": minor_text(entry.since),
            "until": None if entry.until is None else minor_text(entry.until),
        }

    return {
        "schema": SCHEMA,
        "minors": [minor_text(minor) for minor in manifest.minors],
        "digests": digests(manifest),
        "properties": [
            {
                "kind": statement.kind,
                "name": statement.name,
                "level": statement.level,
                "modes": list(statement.modes),
                "capabilities": list(statement.capabilities),
                "hooks": list(statement.hooks),
                **_other_hooks_json(statement),
                "promise": statement.promise,
                "documentation": statement.documentation,
                "results": [
                    {
                        **since_and_until_json(group),
                        "dtypes": " ".join(group.dtypes),
                        "subjects": " ".join(group.subjects),
                    }
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
                **since_and_until_json(statement),
            }
            for statement in manifest.waivers
        ],
    }


def _other_hooks_json(statement: ManifestProperty) -> dict[str, Any]:
    if not statement.other_hooks:
        return {}
    return {"other_hooks": {minor_text(minor): list(hooks) for minor, hooks in statement.other_hooks}}


def digests(manifest: Manifest) -> dict[str, dict[str, dict[str, str]]]:
    """Return the digest of each level's requirements, by torch minor and mode."""
    modes = sorted({mode for statement in manifest.statements for mode in statement.modes})
    return {
        minor_text(minor): {
            mode: {
                level: _cached_level_requirements(manifest, minor, mode, level).digest() for level in LEVELS
            }
            for mode in modes
        }
        for minor in manifest.minors
    }


def manifest_groups_of_property(
    dtypes_of: Mapping[str, Sequence[tuple[str, Minor, Minor | None]]],
) -> tuple[ManifestGroup, ...]:
    """Return the groups of one property.

    ``dtypes_of`` maps each subject to its dtypes, each with the minors ``since`` and ``until``. Subjects with
    equal dtypes, ``since`` and ``until`` share a group.
    """
    by_subject: dict[tuple[tuple[str, ...], Minor, Minor | None], list[str]] = {}
    for subject, dtypes in dtypes_of.items():
        spans: dict[tuple[Minor, Minor | None], list[str]] = {}
        for dtype, since, until in dtypes:
            spans.setdefault((since, until), []).append(dtype)
        for (since, until), names in spans.items():
            by_subject.setdefault((tuple(names), since, until), []).append(subject)
    ordered = [
        ManifestGroup(since, until, dtypes, tuple(sorted(subjects)))
        for (dtypes, since, until), subjects in by_subject.items()
    ]
    return tuple(sorted(ordered, key=lambda group: (group.subjects, group.dtypes, group.since)))
