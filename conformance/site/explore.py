"""Write the data of the Explore page: the verdicts of every result, divided into shards by subject.

A shard contains the results of its subjects on every backend, mode and build, so that the view of one
operator loads only one file. Each file is a script that passes its data to a function. The content security
policy allows scripts of the site, and a browser loads scripts even if the page is opened from a local folder.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.expectations import entry_states
from conformance.model import documentation
from conformance.model.verdicts import Verdict
from conformance.report import requirements
from conformance.report.families import operator_family
from conformance.site import cell_state
from conformance.site.matrix_cells import Cell
from conformance.site.registry import Backend
from conformance.site.store.verdict_table import VERDICT_OF, Verdicts, VerdictTable, subject_of
from conformance.subjects.areas import AREAS

#: The version of the data format. docs/compatibility-matrix.md describes the format.
SCHEMA = 1
#: The number of shards.
SHARDS = 64


@dataclasses.dataclass
class _Shard:
    dtypes: dict[tuple[str, ...], int] = dataclasses.field(default_factory=dict)
    cases: dict[str, dict[Verdicts, list[int]]] = dataclasses.field(default_factory=dict)
    history: dict[str, dict[int, list[tuple[int, str]]]] = dataclasses.field(default_factory=dict)
    texts: dict[str, int] = dataclasses.field(default_factory=dict)
    details: dict[str, dict[int, list[int]]] = dataclasses.field(default_factory=dict)
    kinds: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)
    placements: dict[str, dict[str, list[int]]] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        cases = {
            case: [
                [
                    self.dtypes.setdefault(dtypes, len(self.dtypes)),
                    _collapse_equal_letters(letters),
                    ranges_text(numbers),
                ]
                for (dtypes, letters), numbers in groups.items()
            ]
            for case, groups in sorted(self.cases.items())
        }
        return {
            "dtypes": [list(dtypes) for dtypes in self.dtypes],
            "cases": cases,
            "history": dict(sorted(self.history.items())),
            "texts": list(self.texts),
            "details": dict(sorted(self.details.items())),
            "kinds": dict(sorted(self.kinds.items())),
            "placements": {
                case: {placement: ranges_text(numbers) for placement, numbers in by_word.items()}
                for case, by_word in sorted(self.placements.items())
            },
        }


def shard_of(subject: str) -> int:
    """Return the shard number of a subject. ``explore.js`` computes the same number."""
    return zlib.crc32(subject.encode()) % SHARDS


def ranges_text(numbers: Iterable[int]) -> str:
    """Return sorted numbers as text, such as ``0-3,7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)


def write_data(folder: Path, registry: Mapping[str, Backend], cells: Sequence[Cell]) -> None:
    """Write the index and the shards of all cells into a new folder."""
    shards = [_Shard() for _ in range(SHARDS)]
    shard_by_case: dict[str, _Shard] = {}
    for number, cell in enumerate(cells):
        _add_cell(shards, shard_by_case, number, cell)
    folder.mkdir()
    _write_script(folder / "index.js", "conformanceIndex", _index_data(registry, cells, shard_by_case))
    for number, shard in enumerate(shards):
        _write_script(
            folder / f"shard-{number}.js", "conformanceShard", {"number": number, **shard.to_json()}
        )


def _write_script(file: Path, function: str, data: object) -> None:
    file.write_text(f"{function}({json.dumps(data, separators=(',', ':'), sort_keys=False)});\n")


def _index_data(
    registry: Mapping[str, Backend], cells: Sequence[Cell], cases: Iterable[str]
) -> dict[str, Any]:
    subjects: dict[str, str] = {}
    properties: dict[str, dict[str, str]] = {}
    for case in sorted(cases):
        name, subject = case.partition("/")[0], subject_of(case)
        subjects[subject] = operator_family(subject)
        if name not in properties:
            statement = requirements.manifest_property_of(name, subject)
            properties[name] = {
                "kind": requirements.OTHER if statement is None else statement.kind,
                "promise": "" if statement is None else statement.promise,
                "documentation": "" if statement is None else documentation.page_url(statement.documentation),
            }
    return {
        "schema": SCHEMA,
        "shards": SHARDS,
        "verdicts": VERDICT_OF,
        "unexpected": "".join(
            letter for letter, verdict in VERDICT_OF.items() if Verdict(verdict).unexpected
        ),
        "areas": {name: area.about for name, area in AREAS.items()},
        "subjects": subjects,
        "properties": properties,
        "lines": [_series_data(registry, cell) for cell in cells],
    }


def _series_data(registry: Mapping[str, Backend], cell: Cell) -> dict[str, Any]:
    nights = [] if cell.line is None else cell.line.published_runs
    return {
        "backend": cell.backend,
        "name": registry[cell.backend].name if cell.backend in registry else cell.backend,
        "standIn": cell.backend in registry and registry[cell.backend].stand_in,
        "mode": cell.mode,
        "torch": cell.build.version,
        "kind": cell.build.kind,
        "slug": cell.build.slug,
        "state": cell_state.cell_state(cell),
        "shown": next(number for number, night in enumerate(nights) if night is cell.newest),
        "target": str(cell.newest.leg["target"]["name"])[:60],
        "nights": [
            {
                "run": night.run,
                "day": night.time_for_order.date().isoformat(),
                "torch": str(night.leg["torch"])[:60],
                "backend": _backend_build(night.leg["facts"]),
                "level": night.level,
                "passed": night.passed,
                "planned": night.planned,
            }
            for night in nights
        ],
    }


def _backend_build(facts: Mapping[str, Any]) -> str:
    backend = facts.get("backend")
    record = backend if isinstance(backend, dict) else {}
    return f"{record.get('module') or ''} {record.get('version') or ''}".strip()[:80]


def _add_cell(shards: Sequence[_Shard], shard_by_case: dict[str, _Shard], number: int, cell: Cell) -> None:
    """Add the displayed results of a cell, and their history, to the shards."""
    shown_table = VerdictTable()
    for case, verdicts in _record_history(shards, shard_by_case, number, cell, shown_table):
        shard_for_case(shards, shard_by_case, case).cases.setdefault(case, {}).setdefault(
            verdicts, []
        ).append(number)
    for name, row in sorted(shown_table.details.items()):
        shard = shard_for_case(shards, shard_by_case, name.rpartition("@")[0])
        if kinds := ",".join(sorted(entry_states.failure_kinds(row))):
            shard.kinds.setdefault(name, {})[number] = kinds
        texts = [f"{failure['kind']}: {failure['message']}" for failure in row.get("failures", ())]
        texts = texts or list(row.get("notes", ()))
        if texts:
            numbers = [shard.texts.setdefault(text, len(shard.texts)) for text in texts[:2]]
            shard.details.setdefault(name, {})[number] = numbers
    for case, placement in shown_table.placements.items():
        shard = shard_for_case(shards, shard_by_case, case)
        shard.placements.setdefault(case, {}).setdefault(str(placement)[:20], []).append(number)


def shard_for_case(shards: Sequence[_Shard], shard_by_case: dict[str, _Shard], case: str) -> _Shard:
    """Return the shard of a case. ``shard_by_case`` caches the shards."""
    if case not in shard_by_case:
        shard_by_case[case] = shards[shard_of(subject_of(case))]
    return shard_by_case[case]


def _record_history(
    shards: Sequence[_Shard],
    shard_by_case: dict[str, _Shard],
    number: int,
    cell: Cell,
    shown_table: VerdictTable,
) -> Iterable[tuple[str, Verdicts]]:
    """Record each change of a verdict in the runs of a cell. Return each case of the displayed run with its
    verdicts.

    The function copies the table of the displayed run into ``shown_table``.
    """
    if cell.line is None:
        return ()
    table = VerdictTable()
    began: dict[str, int] = collections.defaultdict(int)
    for number_of_run, entry in enumerate(cell.line.entries):
        for case, verdicts in entry.change.cases.items():
            old = table.cases.get(case)
            if old is None:
                began[case] = number_of_run
                if not number_of_run:
                    continue  # the first run has no predecessor
            _record_changes(
                shard_for_case(shards, shard_by_case, case), case, number, number_of_run, began, old, verdicts
            )
        table.apply_delta(entry.change)
        if entry.night is cell.newest:
            newest_table = table if entry is cell.line.entries[-1] else table.copy()
            shown_table.cases, shown_table.details, shown_table.placements = (
                newest_table.cases,
                newest_table.details,
                newest_table.placements,
            )
    return shown_table.cases.items()


def _record_changes(
    shard: _Shard,
    case: str,
    number: int,
    number_of_run: int,
    began: Mapping[str, int],
    old: Verdicts | None,
    new: Verdicts | None,
) -> None:
    before = dict(zip(*old, strict=True)) if old is not None else {}
    after = dict(zip(*new, strict=True)) if new is not None else {}
    for dtype in {**before, **after}:
        was, now = before.get(dtype, ""), after.get(dtype, "")
        if was == now:
            continue
        history = shard.history.setdefault(f"{case}@{dtype}", {}).setdefault(number, [])
        if not history and was:
            history.append((began[case], was))
        history.append((number_of_run, now))


def _collapse_equal_letters(letters: str) -> str:
    return letters[0] if letters == letters[0] * len(letters) else letters
