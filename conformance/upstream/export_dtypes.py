"""Export unsupported dtypes as a Python file that removes them from the entries of upstream's database.

An operator does not support a dtype if all its results of the properties ``value`` and ``random`` in that
dtype are refusals.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.model.records import Leg
from conformance.model.verdicts import Kind, ResultId
from conformance.model.vocabulary import ANY_DTYPE
from conformance.upstream import export_overrides
from conformance.upstream.exported_deviations import (
    DeviatingResult,
    LegExport,
    NotExported,
    deviation_of,
    one_line,
)
from conformance.upstream.matching_tests import Databases

_CALLS = ("value", "random")

_APPLY = '''

def apply():
    """Remove the unsupported dtypes from the entries of torch's database, for this device only."""
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if info.full_name in UNSUPPORTED:
            info.dtypesIf[DEVICE] = set(info.supported_dtypes(DEVICE)) - set(UNSUPPORTED[info.full_name])


apply()
'''

Pair = tuple[str, str]


def refused_dtypes(leg: Leg, databases: Databases) -> tuple[list[Pair], list[NotExported]]:
    """Return the (operator, dtype) pairs that the device refuses in all calls, and the deviations that are
    not exported.

    A pair counts if all its results of the properties ``value`` and ``random`` are refusals; every operator
    has one of these properties. A refusal in a different property, such as strided inputs, does not mean that
    the dtype is unsupported.
    """
    calls: dict[Pair, list[bool]] = {}
    deviations: list[tuple[Pair, DeviatingResult]] = []
    not_exported: list[NotExported] = []
    for row in leg["results"]:
        row_deviation = deviation_of(row)
        if isinstance(row_deviation, NotExported):
            not_exported.append(row_deviation)
        try:
            name = ResultId.parse(row["id"])
        except ValueError:
            continue
        pair = (name.case.subject, name.dtype)
        refused = isinstance(row_deviation, DeviatingResult) and row_deviation.kinds == (Kind.REFUSED.value,)
        called = name.case.property in _CALLS and name.dtype != ANY_DTYPE
        if called and databases.kind(pair[0]) == "operator":
            calls.setdefault(pair, []).append(refused)
        if isinstance(row_deviation, DeviatingResult):
            deviations.append((pair, row_deviation))
    pairs = [pair for pair, refused in calls.items() if all(refused)]
    refused_pairs = frozenset(pairs)
    not_exported += [
        NotExported(one_line(str(row_deviation.id)), "a list of dtypes cannot express this deviation")
        for pair, row_deviation in deviations
        if pair not in refused_pairs
    ]
    return pairs, not_exported


def dtypes_file(
    exported: LegExport, pairs: Sequence[Pair], not_exported: Sequence[NotExported], source: str
) -> str:
    """Return the text of a Python file. Importing the file removes the dtypes from the entries of the
    operators.
    """
    lines = export_overrides.header_lines(exported, source, "Dtypes that operators lack", ["import torch"])
    lines += ["", f"DEVICE = {exported.device!r}", "", "UNSUPPORTED = {"]
    by_operator: dict[str, list[str]] = {}
    for operator, dtype in pairs:
        by_operator.setdefault(operator, []).append(dtype)
    for operator in sorted(by_operator):
        named = ", ".join(f"torch.{dtype}" for dtype in sorted(by_operator[operator]))
        lines.append(f"    {operator!r}: ({named},),")
    return "\n".join([*lines, "}"]) + "\n" + _APPLY + export_overrides.not_exported_comment(not_exported)
