"""The plan of a run: the list of its results, which is computed before the first result runs."""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.errors import UsageError
from conformance.model.records import PlanTable
from conformance.plan import shards
from conformance.plan.selection import Matcher

if TYPE_CHECKING:
    from conformance.target.target import Target


@dataclasses.dataclass(frozen=True)
class Case:
    """A planned case: one property of one subject, with the dtypes of its results."""

    kind: str
    property: str
    subject: str
    dtypes: tuple[str, ...]

    @builtins.property
    def id(self) -> str:
        """The id of the case: ``property/subject``."""
        return f"{self.property}/{self.subject}"

    def result_ids(self) -> Iterator[str]:
        """Return the ids of the results of the case, one per dtype."""
        return (f"{self.id}@{dtype}" for dtype in self.dtypes)

    def dtypes_in_run_order(self) -> list[str]:
        """Return the dtypes of the case in the order in which a worker runs them.

        The properties of a subject begin with different dtypes. So if the first results of several properties
        crash, the cause is not a single dtype.
        """
        first = zlib.crc32(self.property.encode()) % len(self.dtypes)
        return [*self.dtypes[first:], *self.dtypes[:first]]


@dataclasses.dataclass(frozen=True)
class Shard:
    """The shard with number ``index`` of ``count`` shards, counted from 1."""

    index: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @staticmethod
    def parse(text: str) -> Shard:
        """Parse ``I/N``; raise UsageError if ``text`` has a different form."""
        first, _, second = text.partition("/")
        if first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second):
            return Shard(int(first), int(second))
        raise UsageError(f"shard {text!r} is not of the form I/N with 1 <= I <= N, e.g. 1/4")

    def contains(
        self, kind: str, subject: str, mode: str = "eager", property_name: str | None = None
    ) -> bool:
        """Return True if a property of a subject belongs to this shard in a mode.

        The assignment depends only on the names and the committed table of recorded seconds
        (``plan/shards.py``), so that it is the same on all machines.
        """
        return shards.shard_of(mode, kind, subject, self.count, property_name) == self.index - 1


@dataclasses.dataclass
class Plan:
    """Cases in the order in which they run: all properties of a subject, then the next subject."""

    cases: list[Case]

    def __len__(self) -> int:
        return sum(len(case.dtypes) for case in self.cases)

    def result_ids(self) -> Iterator[str]:
        """Yield the ids of all results, in the order of the cases."""
        for case in self.cases:
            yield from case.result_ids()

    def digest(self) -> str:
        """Return the digest of all result ids, which does not depend on the order of cases."""
        lines = sorted(f"{case.kind}:{case.id}@{','.join(case.dtypes)}" for case in self.cases)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def to_json(self) -> PlanTable:
        """Return a compact JSON object, in which cases with equal dtypes share one list of dtypes."""
        lists: dict[tuple[str, ...], int] = {}
        rows = [
            (case.kind, case.property, case.subject, lists.setdefault(case.dtypes, len(lists)))
            for case in self.cases
        ]
        return {"dtypes": [list(dtypes) for dtypes in lists], "cases": rows}

    @staticmethod
    def from_json(data: PlanTable) -> Plan:
        """Return a plan from its JSON object."""
        lists = [tuple(dtypes) for dtypes in data["dtypes"]]
        return Plan([Case(kind, name, subject, lists[index]) for kind, name, subject, index in data["cases"]])

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        path.write_text(json.dumps(self.to_json(), separators=(",", ":")))

    @staticmethod
    def read(path: Path) -> Plan:
        """Read a plan that :meth:`write` has written."""
        return Plan.from_json(json.loads(path.read_text()))

    def with_results(self, result_ids: Iterable[str]) -> Plan:
        """Return the results of the plan with these ids, in the order of the plan."""
        ids = set(result_ids)
        return self.select(ids.__contains__)

    def select(self, matcher: Matcher) -> Plan:
        """Return a plan with only those results whose id ``matcher`` accepts."""
        cases = []
        for case in self.cases:
            dtypes = tuple(dtype for dtype in case.dtypes if matcher(f"{case.id}@{dtype}"))
            if dtypes:
                cases.append(case if dtypes == case.dtypes else dataclasses.replace(case, dtypes=dtypes))
        return Plan(cases)

    def shard(self, shard: Shard, mode: str = "eager") -> Plan:
        """Return the part of the plan that belongs to a shard in a mode."""
        return Plan(
            [case for case in self.cases if shard.contains(case.kind, case.subject, mode, case.property)]
        )


def build_plan(target: Target, level: str, modes: Sequence[str] | None = None) -> Plan:
    """Return the plan of a level for a target, in the target's mode or in all of ``modes``.

    This function imports the properties and torch's databases, but not the backend.
    """
    from conformance.builds import installed_torch
    from conformance.plan import capability_requirements, levels, release_exclusions
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    levels.check_level(level)
    version = installed_torch.version()
    requested_modes = {target.mode} if modes is None else set(modes)
    cases: list[Case] = []
    kind_by_case: dict[str, str] = {}
    for kind in catalogue.kinds():
        kind_properties = [entry for entry in properties(kind) if requested_modes & set(entry.modes)]
        if level == levels.SMOKE:
            kind_properties = [entry for entry in kind_properties if entry.smoke]
            smoke_names = levels.smoke_subjects(kind)
            subjects = (
                [subject for subject in catalogue.subjects(kind) if subject.name in smoke_names]
                if kind_properties
                else []
            )
        else:
            subjects = list(catalogue.subjects(kind)) if kind_properties else []
        for subject in subjects:
            for entry in kind_properties:
                if not capability_requirements.result_exists(target, entry, kind, subject.name):
                    continue
                dtypes = tuple(entry.applies(target, subject))
                if level != levels.SMOKE:
                    dtypes = levels.load(level).selected_dtypes(
                        kind, entry.name, entry.level, subject.name, dtypes
                    )
                dtypes = release_exclusions.dtypes_without_exclusions(
                    f"{entry.name}/{subject.name}", dtypes, version
                )
                if not dtypes:
                    continue
                case = Case(kind, entry.name, subject.name, dtypes)
                earlier_kind = kind_by_case.setdefault(case.id, kind)
                if earlier_kind != kind:
                    raise UsageError(
                        f"case {case.id} exists for kinds {earlier_kind} and {kind}; rename one of the "
                        "properties"
                    )
                cases.append(case)
    return Plan(cases)
