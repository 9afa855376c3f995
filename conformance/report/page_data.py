"""Convert a results document to the compact data of the report page.

Each name is stored once, and other data refer to the name by a number. A verdict is stored as one letter.
Failures and notes are stored only for rows that have some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from conformance.model import documentation, glossary
from conformance.model.records import Document, Leg, ResultRow
from conformance.model.verdicts import Placement, ResultId, Verdict
from conformance.model.vocabulary import KINDS
from conformance.plan.levels.manifest import ManifestProperty
from conformance.report import causes, requirements
from conformance.report.families import operator_family
from conformance.report.headline import ReportOpening
from conformance.report.summary import repro_command, target_argument
from conformance.subjects.areas import AREAS

#: A function that returns the snippet of a result of a leg, or None.
Script = Callable[[Leg, ResultRow], str | None]
#: The letter of each verdict. The script of the page reads this table from the data.
LETTERS = {
    Verdict.CRASH: "C",
    Verdict.TIMEOUT: "T",
    Verdict.ERROR: "E",
    Verdict.FAIL: "F",
    Verdict.VACUOUS: "V",
    Verdict.XPASS: "P",
    Verdict.FLAKY: "~",
    Verdict.XFAIL: "x",
    Verdict.PARITY: "p",
    Verdict.UNSUPPORTED: "u",
    Verdict.SKIP: "-",
    Verdict.PASS: ".",
}
_LegKey = Literal[
    "name",
    "build",
    "torch",
    "mode",
    "target",
    "level",
    "shard",
    "selection",
    "samples",
    "started",
    "seconds",
    "workers",
    "facts",
    "digests",
    "exit",
    "complete",
    "problems",
    "missing",
    "planned",
    "left_out",
    "totals",
    "case_totals",
    "oracle",
]
#: The keys of a leg that the page data copies unchanged.
_LEG_KEYS: tuple[_LegKey, ...] = get_args(_LegKey)
#: The subject kinds in the order of the matrices on the page.
_KINDS = (*KINDS, requirements.OTHER)
_PLACEMENTS = tuple(placement.value for placement in Placement)


class NumberedNames:
    """Assigns numbers to names, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def names_in_order(self) -> list[str]:
        """Return the names in the order of their numbers."""
        return list(self.numbers)


def no_snippet(leg: Leg, row: ResultRow) -> None:
    """Return None: the ``Script`` function of a run without snippets."""


def page_data(
    results: Document, opening: ReportOpening | None = None, script: Script = no_snippet
) -> dict[str, object]:
    """Return the page data of a results document.

    Args:
        results: the document.
        opening: the levels and changes at the top of the page.
        script: a function that returns the snippet of a result of a leg, or None.
    """
    statements_of = _manifest_records_by_name(results["legs"])
    return {
        "suite": results["suite"],
        "exit": results["exit"],
        "complete": results["complete"],
        "totals": results["totals"],
        "terms": glossary.glossary_meanings(),
        "letters": {letter: verdict.value for verdict, letter in LETTERS.items()},
        "unexpected": "".join(letter for verdict, letter in LETTERS.items() if verdict.unexpected),
        "placements": list(_PLACEMENTS),
        "kinds": list(_KINDS),
        "areas": {name: area.about for name, area in AREAS.items()},
        "promises": {name: statement.promise for name, statement in statements_of.items()},
        "documentation": {
            name: documentation.page_url(statement.documentation)
            for name, statement in statements_of.items()
            if statement.documentation
        },
        "causes": [
            _cause_data(group, results["legs"], script) for group in causes.causes_of(results["legs"])
        ],
        "opening": None if opening is None else opening.to_json(),
        "legs": [_leg_data(leg) for leg in results["legs"]],
    }


def _manifest_records_by_name(legs: Sequence[Leg]) -> dict[str, ManifestProperty]:
    """Return the manifest's records of the properties in the legs, by name.

    If a name exists for two subject kinds, the first is used.
    """
    statements_by_name: dict[str, ManifestProperty] = {}
    for case in (case for leg in legs for case in leg["cases"]):
        name, _, subject = case.partition("/")
        if (
            name not in statements_by_name
            and (statement := requirements.manifest_property_of(name, subject)) is not None
        ):
            statements_by_name[name] = statement
    return statements_by_name


def _cause_data(group: causes.Cause, legs: Sequence[Leg], script: Script) -> dict[str, object]:
    number, row = group.example
    kind, message = causes.kind_and_message(row)
    return {
        "name": group.name(),
        "count": group.count,
        "counts": group.verdict_counts_text(),
        "legs": group.leg_indexes,
        "kind": kind,
        "pattern": group.sample_pattern_sentence(),
        "said": next(iter(message.splitlines()), "")[:300],
        "leg": number,
        "id": row["id"],
        "script": script(legs[number], row),
    }


def _leg_data(leg: Leg) -> dict[str, object]:
    subjects, properties, dtypes = NumberedNames(), NumberedNames(), NumberedNames()
    cases: dict[tuple[int, int], list[Any]] = {}
    details: dict[str, object] = {}
    for row in leg["results"]:
        result_id = ResultId.parse(row["id"])
        subject, name = subjects[result_id.case.subject], properties[result_id.case.property]
        dtype = dtypes[result_id.dtype]
        verdict = LETTERS[Verdict(row["verdict"])]
        if (subject, name) not in cases:
            kind = _KINDS.index(requirements.subject_kind_of(result_id.case.property, result_id.case.subject))
            # Items: subject, property, dtypes, verdicts, placement, numbers of each result, kind of the
            # subject.
            cases[(subject, name)] = [subject, name, [], "", -1, [], kind]
        case = cases[(subject, name)]
        case[2].append(dtype)
        case[3] += verdict
        if "placement" in row:
            case[4] = max(case[4], _PLACEMENTS.index(row["placement"]))
        numbers = [row.get(key, 0) for key in ("comparisons", "samples_used", "samples_available", "seed")]
        case[5].append([*numbers, round(row["seconds"] * 1000, 1)])
        detail = {
            key: row[key]
            for key in ("failures", "failure_count", "notes", "attempts", "blocked_by")
            if row.get(key)
        }
        if detail:
            details[row["id"]] = detail
    target = target_argument(leg)
    return {
        **{key: leg[key] for key in _LEG_KEYS},
        "command": repro_command("RESULT", target, leg),
        "subjects": subjects.names_in_order(),
        "families": [operator_family(name) for name in subjects.names_in_order()],
        "properties": properties.names_in_order(),
        "dtypes": dtypes.names_in_order(),
        "cases": [
            [*case[:2], *_collapse_equal_verdicts(case[2], case[3]), *case[4:]] for case in cases.values()
        ],
        "details": details,
    }


def _collapse_equal_verdicts(dtypes: list[int], verdicts: str) -> tuple[list[int], str]:
    """Return the dtypes and the verdict letters. If all letters are equal, return only one letter."""
    return dtypes, verdicts[0] if verdicts == verdicts[0] * len(verdicts) else verdicts
