"""The verdict table of one published run, and the delta between two tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.model.records import FailureRow, ResultRow
from conformance.model.verdicts import Verdict
from conformance.report.page_data import LETTERS
from conformance.results import scrub

#: The letters of the verdicts, as in the report.
LETTER_OF = {verdict.value: letter for verdict, letter in LETTERS.items()}
VERDICT_OF = {letter: verdict for verdict, letter in LETTER_OF.items()}
#: Limits of a stored row: the number of failures, the number of characters of a message, and the number of
#: failed samples. The first failure of each kind is always stored.
_FAILURES, _MESSAGE, _SAMPLES = 10, 300, 2000
#: The maximum length of a result id. The ids of the suite are shorter.
_ID = 240

#: The dtypes of a case, and a verdict letter for each dtype.
Verdicts = tuple[tuple[str, ...], str]


@dataclasses.dataclass
class VerdictTable:
    """The verdicts and placements of a run by case, and the reduced rows of its non-passing results by id."""

    cases: dict[str, Verdicts] = dataclasses.field(default_factory=dict)
    details: dict[str, ResultRow] = dataclasses.field(default_factory=dict)
    placements: dict[str, str] = dataclasses.field(default_factory=dict)

    @staticmethod
    def from_rows(rows: Sequence[ResultRow]) -> VerdictTable:
        """Return the table of the result rows of a leg. Private paths are removed, long texts are cut."""
        table = VerdictTable()
        by_case: dict[str, tuple[list[str], list[str]]] = {}
        for row in rows:
            if len(row["id"]) > _ID:
                continue
            case, _, dtype = row["id"].rpartition("@")
            dtypes, letters = by_case.setdefault(case, ([], []))
            dtypes.append(dtype)
            letters.append(LETTER_OF[row["verdict"]])
            if row["verdict"] != Verdict.PASS.value:
                table.details[row["id"]] = _stored_part_of_row(row)
            if "placement" in row:
                table.placements[case] = row["placement"]
        table.cases = {case: (tuple(dtypes), "".join(letters)) for case, (dtypes, letters) in by_case.items()}
        return table

    def rows(self) -> Iterator[ResultRow]:
        """Yield a result row for each result, with the details that the table has."""
        for case, (dtypes, letters) in self.cases.items():
            for dtype, letter in zip(dtypes, letters, strict=True):
                name = f"{case}@{dtype}"
                passed: ResultRow = {"id": name, "verdict": VERDICT_OF[letter], "seconds": 0.0}
                yield self.details.get(name, passed)

    def apply_delta(self, change: TableDelta) -> None:
        """Apply a delta in place: the table becomes the table of the next run."""
        _apply_changed_values(self.cases, change.cases)
        _apply_changed_values(self.details, change.details)
        _apply_changed_values(self.placements, change.placements)

    def copy(self) -> VerdictTable:
        """Return a copy of the table."""
        return VerdictTable(dict(self.cases), dict(self.details), dict(self.placements))


@dataclasses.dataclass
class TableDelta:
    """The values that change from one verdict table to the next. A value of None marks a removed key."""

    cases: dict[str, Verdicts | None] = dataclasses.field(default_factory=dict)
    details: dict[str, ResultRow | None] = dataclasses.field(default_factory=dict)
    placements: dict[str, str | None] = dataclasses.field(default_factory=dict)

    @staticmethod
    def between(old: VerdictTable, new: VerdictTable) -> TableDelta:
        """Return the delta that changes ``old`` to ``new``."""
        return TableDelta(
            _changed_values(old.cases, new.cases),
            _changed_values(old.details, new.details),
            _changed_values(old.placements, new.placements),
        )

    def combined_with(self, later: TableDelta) -> TableDelta:
        """Return the combination of this delta and a later delta."""
        return TableDelta(
            {**self.cases, **later.cases},
            {**self.details, **later.details},
            {**self.placements, **later.placements},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the delta as compact JSON, in which cases share lists of dtypes."""
        lists: dict[tuple[str, ...], int] = {}
        cases: dict[str, Any] = {}
        for case, verdicts in self.cases.items():
            if verdicts is None:
                cases[case] = None
                continue
            dtypes, letters = verdicts
            same = letters == letters[0] * len(letters)
            cases[case] = [lists.setdefault(dtypes, len(lists)), letters[0] if same else letters]
        return {
            "dtypes": [list(dtypes) for dtypes in lists],
            "cases": cases,
            "details": self.details,
            "placements": self.placements,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TableDelta:
        """Return the delta that :meth:`to_json` converted to ``data``."""
        lists = [tuple(dtypes) for dtypes in data["dtypes"]]
        cases: dict[str, Verdicts | None] = {}
        for case, entry in data["cases"].items():
            if entry is None:
                cases[case] = None
                continue
            dtypes = lists[entry[0]]
            cases[case] = (dtypes, entry[1] * len(dtypes) if len(entry[1]) == 1 else entry[1])
        return TableDelta(cases, dict(data["details"]), dict(data["placements"]))


def _changed_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    return changed | {key: None for key in old if key not in new}


def _apply_changed_values(values: dict[str, Any], changed: Mapping[str, Any]) -> None:
    for key, value in changed.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


def _stored_part_of_row(row: ResultRow) -> ResultRow:
    """Return the part of a result row that is stored. This part suffices to distinguish failures."""
    reduced: ResultRow = {"id": row["id"], "verdict": row["verdict"], "seconds": 0.0}
    failures: list[FailureRow] = [
        {"kind": failure["kind"][:20], "message": scrub.scrub_text(failure["message"][:_MESSAGE])}
        for failure in _first_of_each_kind(row.get("failures", []))
    ]
    for stored, failure in zip(failures, _first_of_each_kind(row.get("failures", [])), strict=True):
        if "basis" in failure:
            stored["basis"] = failure["basis"]
    if failures:
        reduced["failures"] = failures
    elif row.get("notes"):
        reduced["notes"] = [scrub.scrub_text(row["notes"][-1][:_MESSAGE])]
    if samples := row.get("failed_samples", [])[:_SAMPLES]:
        reduced["failed_samples"] = samples
    if "pattern" in row:
        reduced["pattern"] = row["pattern"]
    if row.get("intermittent"):
        reduced["intermittent"] = True
    if kinds := sorted({kind for attempt in row.get("attempts", ()) for kind in attempt.get("kinds", ())}):
        reduced["attempts"] = [{"verdict": row["verdict"], "attempt": 1, "seconds": 0.0, "kinds": kinds}]
    return reduced


def _first_of_each_kind(failures: Sequence[FailureRow]) -> list[FailureRow]:
    """Return the first ``_FAILURES`` failures, and the first failure of every other kind."""
    kinds: set[str] = set()
    selected = []
    for number, failure in enumerate(failures):
        if number < _FAILURES or failure["kind"] not in kinds:
            selected.append(failure)
        kinds.add(failure["kind"])
    return selected


def subject_of(case: str) -> str:
    """Return the subject of a case."""
    return case.partition("/")[2]
