"""The dtypes that operators lack, as a Python file that takes them from upstream's own lists for the device.

An operator lacks a dtype if the call itself is refused in it: the results of the properties ``value`` and
``random``, or all that it has if it has neither of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.model.records import Leg
from conformance.model.verdicts import Kind, ResultId
from conformance.model.vocabulary import ANY_DTYPE
from conformance.upstream import export_overrides
from conformance.upstream.exported_deviations import Deviation, Export, NotExported, deviation_of, one_line
from conformance.upstream.matching_tests import Databases

_CALLS = ("value", "random")

_APPLY = '''

def apply():
    """Take the dtypes from the entries of torch's database, for this device alone."""
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if info.full_name in UNSUPPORTED:
            info.dtypesIf[DEVICE] = set(info.supported_dtypes(DEVICE)) - set(UNSUPPORTED[info.full_name])


apply()
'''

Pair = tuple[str, str]


def refused_dtypes(leg: Leg, databases: Databases) -> tuple[list[Pair], list[NotExported]]:
    """The pairs of operator and dtype whose calls are all refused, and the other deviations.

    Calls are the results of ``value`` and ``random``, of which every operator has one. What another property
    says, as of strided inputs, is nothing about the dtype.
    """
    calls: dict[Pair, list[bool]] = {}
    deviations: list[tuple[Pair, Deviation]] = []
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
        refused = isinstance(row_deviation, Deviation) and row_deviation.kinds == (Kind.REFUSED.value,)
        called = name.case.property in _CALLS and name.dtype != ANY_DTYPE
        if called and databases.kind(pair[0]) == "operator":
            calls.setdefault(pair, []).append(refused)
        if isinstance(row_deviation, Deviation):
            deviations.append((pair, row_deviation))
    pairs = [pair for pair, refused in calls.items() if all(refused)]
    refused_pairs = frozenset(pairs)
    not_exported += [
        NotExported(one_line(str(row_deviation.id)), "a list of dtypes cannot say it")
        for pair, row_deviation in deviations
        if pair not in refused_pairs
    ]
    return pairs, not_exported


def dtypes_file(
    exported: Export, pairs: Sequence[Pair], not_exported: Sequence[NotExported], source: str
) -> str:
    """The file whose import takes the dtypes from the operators."""
    lines = export_overrides.header_lines(exported, source, "Dtypes that operators lack", ["import torch"])
    lines += ["", f"DEVICE = {exported.device!r}", "", "UNSUPPORTED = {"]
    by_operator: dict[str, list[str]] = {}
    for operator, dtype in pairs:
        by_operator.setdefault(operator, []).append(dtype)
    for operator in sorted(by_operator):
        named = ", ".join(f"torch.{dtype}" for dtype in sorted(by_operator[operator]))
        lines.append(f"    {operator!r}: ({named},),")
    return "\n".join([*lines, "}"]) + "\n" + _APPLY + export_overrides.not_exported_comment(not_exported)
