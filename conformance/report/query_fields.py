"""Convert result rows to the fields that queries use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.expectations import entry_states
from conformance.model.records import Leg, ResultRow
from conformance.model.verdicts import ResultId
from conformance.query.fields import ResultFields
from conformance.report.families import operator_family


def fields_of(leg: Leg, row: ResultRow) -> ResultFields:
    """Return the query fields of one result row of a leg."""
    result_id = ResultId.parse(row["id"])
    return ResultFields(
        op=result_id.case.subject,
        family=operator_family(result_id.case.subject),
        property=result_id.case.property,
        dtype=result_id.dtype,
        verdict=row["verdict"],
        kinds=tuple(sorted(entry_states.failure_kinds(row))),
        mode=leg["mode"],
        placement=row.get("placement", ""),
        target=leg["target"]["name"],
        torch=leg["torch"],
        seconds=row["seconds"],
        texts=(*(failure["message"] for failure in row.get("failures", ())), *row.get("notes", ())),
    )


def rows_with_fields(legs: Sequence[Leg]) -> Iterator[tuple[Leg, ResultRow, ResultFields]]:
    """Yield every result row of the legs with its leg and its query fields."""
    return ((leg, row, fields_of(leg, row)) for leg in legs for row in leg["results"])
