"""Levels: which results a run of a level has, and which results a target must pass to hold the level.

Each level is a TOML file of this folder. ``smoke.toml`` lists subjects for a quick run. The file of any other
level lists *takes*. A take selects results by kind, property, subject and dtype. A level consists of its own
takes and the takes of all narrower levels.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.model.vocabulary import ANY_DTYPE, KINDS, LEVELS
from conformance.subjects import catalogue

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SMOKE = "smoke"
ALL_LEVELS = (SMOKE, *LEVELS)
FOLDER = Path(__file__).parent
#: The name of the property that reports which processor and kernel ran an operator.
PLACEMENT = "placement"


def check_level(level: str) -> None:
    """Raise UsageError if ``level`` is not the name of a level."""
    if level not in ALL_LEVELS:
        raise UsageError(f"level {level!r} does not exist; use one of {', '.join(ALL_LEVELS)}")


def includes_level(level: str, narrower: str) -> bool:
    """Return True if ``level`` is ``narrower`` or a broader level."""
    return LEVELS.index(narrower) <= LEVELS.index(level)


@dataclasses.dataclass(frozen=True)
class ResultSelection:
    """A selection of results of one subject kind.

    ``properties`` are names of properties. None selects all properties that are registered at ``level`` or a
    narrower level. If ``subjects`` or ``dtypes`` is None, all subjects or dtypes are selected.
    """

    kind: str
    properties: frozenset[str] | None
    level: str
    subjects: frozenset[str] | None
    dtypes: frozenset[str] | None

    def includes_property(self, kind: str, name: str, level: str) -> bool:
        """Return True if the take includes the property ``name``, which is registered at ``level``."""
        if kind != self.kind:
            return False
        return includes_level(self.level, level) if self.properties is None else name in self.properties

    def includes_dtype(self, dtype: str) -> bool:
        """Return True if the take includes a dtype."""
        return self.dtypes is None or dtype == ANY_DTYPE or dtype in self.dtypes


@dataclasses.dataclass(frozen=True)
class LevelFloor:
    """The dtypes and capabilities that a level requires of every target, whether the target declares them or
    not.
    """

    dtypes: frozenset[str]
    capabilities: frozenset[str]

    def requires_result(self, dtype: str, capabilities: Iterable[str]) -> bool:
        """Return True if a result with this dtype, which needs these capabilities, is required independently
        of the target's declarations.
        """
        return (dtype == ANY_DTYPE or dtype in self.dtypes) and self.capabilities.issuperset(capabilities)


@dataclasses.dataclass(frozen=True)
class Level:
    """One level, including the takes of all narrower levels. ``native`` lists the operators that must not
    fall back to the CPU.
    """

    name: str
    takes: tuple[ResultSelection, ...]
    floor_dtypes: frozenset[str]
    floor_capabilities: frozenset[str]
    floor_modes: dict[str, frozenset[str]]
    native: tuple[str, ...]
    _by_property: dict[tuple[str, str, str], tuple[ResultSelection, ...]] = dataclasses.field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def floor(self, mode: str) -> LevelFloor:
        """Return the dtypes and capabilities that the level requires of every target in a mode."""
        more = self.floor_modes.get(mode, frozenset())
        return LevelFloor(self.floor_dtypes, self.floor_capabilities | more)

    def selected_dtypes(
        self, kind: str, name: str, level: str, subject: str, dtypes: Sequence[str]
    ) -> tuple[str, ...]:
        """Return those of ``dtypes`` in which this level includes the property ``name`` of a subject.

        ``level`` is the level at which the property is registered. If an extra module defines the subject
        kind, the level includes all dtypes of every property that is registered at this level or a narrower
        level.
        """
        if kind not in KINDS:
            return tuple(dtypes) if includes_level(self.name, level) else ()
        fitting = [
            take
            for take in self._selections_including(kind, name, level)
            if take.subjects is None or subject in take.subjects
        ]
        return tuple(dtype for dtype in dtypes if any(take.includes_dtype(dtype) for take in fitting))

    def _selections_including(self, kind: str, name: str, level: str) -> tuple[ResultSelection, ...]:
        """Return the takes of this level that include the property ``name``. The result is cached, because a
        plan requests the takes for every subject.
        """
        key = (kind, name, level)
        takes = self._by_property.get(key)
        if takes is None:
            takes = tuple(take for take in self.takes if take.includes_property(kind, name, level))
            self._by_property[key] = takes
        return takes


@functools.cache
def load(name: str) -> Level:
    """Return a certifiable level from its file; raise ValueError if the file is invalid."""
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    before = load(LEVELS[LEVELS.index(name) - 1]) if name != LEVELS[0] else None
    for key in data:
        if key not in ("floor", "take", "native"):
            raise ValueError(f"levels/{name}.toml has an unknown key {key!r}")
    floor = data.get("floor", {})
    modes = {mode: frozenset(capabilities) for mode, capabilities in floor.get("modes", {}).items()}
    native = tuple(data.get("native", {}).get("operators", ()))
    takes = [_parse_take(name, table) for table in data["take"]]
    if native:
        takes.append(ResultSelection("operator", frozenset({PLACEMENT}), name, frozenset(native), None))
    return Level(
        name=name,
        takes=(*(before.takes if before else ()), *takes),
        floor_dtypes=frozenset(floor.get("dtypes", ())) | (before.floor_dtypes if before else frozenset()),
        floor_capabilities=frozenset(floor.get("capabilities", ()))
        | (before.floor_capabilities if before else frozenset()),
        floor_modes={**(before.floor_modes if before else {}), **modes},
        native=(*(before.native if before else ()), *native),
    )


def _parse_take(name: str, table: dict[str, Any]) -> ResultSelection:
    for key in table:
        if key not in ("kind", "properties", "level", "subjects", "dtypes"):
            raise ValueError(f"levels/{name}.toml has an unknown key {key!r} in a take")
    if table["kind"] not in KINDS or ("level" in table) == ("properties" in table):
        raise ValueError(
            f"levels/{name}.toml: a take has an unknown kind, or does not have exactly one of the keys "
            "'level' and 'properties'"
        )
    if table.get("level", name) not in LEVELS:
        raise ValueError(f"levels/{name}.toml: {table['level']!r} is not a level")
    subjects = table.get("subjects")
    if subjects is not None and "core" in subjects:
        subjects = [subject for subject in subjects if subject != "core"] + _subjects_of(
            "core", table["kind"]
        )
    return ResultSelection(
        kind=table["kind"],
        properties=frozenset(table["properties"]) if "properties" in table else None,
        level=table.get("level", name),
        subjects=None if subjects is None else frozenset(subjects),
        dtypes=frozenset(table["dtypes"]) if "dtypes" in table else None,
    )


def _subjects_of(level: str, kind: str) -> list[str]:
    """Return the names of the subjects of ``kind`` that are listed in the file of ``level``."""
    data = tomllib.loads((FOLDER / f"{level}.toml").read_text())
    return [name for take in data["take"] if take["kind"] == kind for name in take.get("subjects", ())]


def smoke_subjects(kind: str) -> set[str]:
    """Return the names of the subjects of a kind in level smoke: the list in ``smoke.toml``, or all subjects
    of a kind that an extra module defines.
    """
    extra = catalogue.smoke_subjects(kind)
    if extra is not None:
        return extra
    data = tomllib.loads((FOLDER / "smoke.toml").read_text())
    return set(data.get(kind, {}).get("subjects", []))
