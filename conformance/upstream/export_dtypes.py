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
from conformance.upstream.exported_deviations import Deviation, Export, NotExported, brief, deviation
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


def lacking(leg: Leg, known: Databases) -> tuple[list[Pair], list[NotExported]]:
    """The pairs of operator and dtype whose calls are all refused, and the other deviations.

    Calls are the results of ``value`` and ``random``, of which every operator has one. What another property
    says, as of strided inputs, is nothing about the dtype.
    """
    calls: dict[Pair, list[bool]] = {}
    seen: list[tuple[Pair, Deviation]] = []
    left: list[NotExported] = []
    for row in leg["results"]:
        found = deviation(row)
        if isinstance(found, NotExported):
            left.append(found)
        try:
            name = ResultId.parse(row["id"])
        except ValueError:
            continue
        pair = (name.case.subject, name.dtype)
        refused = isinstance(found, Deviation) and found.kinds == (Kind.REFUSED.value,)
        called = name.case.property in _CALLS and name.dtype != ANY_DTYPE
        if called and known.kind(pair[0]) == "operator":
            calls.setdefault(pair, []).append(refused)
        if isinstance(found, Deviation):
            seen.append((pair, found))
    pairs = [pair for pair, refused in calls.items() if all(refused)]
    gone = frozenset(pairs)
    left += [
        NotExported(brief(str(found.id)), "a list of dtypes cannot say it")
        for pair, found in seen
        if pair not in gone
    ]
    return pairs, left


def text(found: Export, pairs: Sequence[Pair], left: Sequence[NotExported], source: str) -> str:
    """The file whose import takes the dtypes from the operators."""
    lines = export_overrides.head(found, source, "Dtypes that operators lack", ["import torch"])
    lines += ["", f"DEVICE = {found.device!r}", "", "UNSUPPORTED = {"]
    by_operator: dict[str, list[str]] = {}
    for operator, dtype in pairs:
        by_operator.setdefault(operator, []).append(dtype)
    for operator in sorted(by_operator):
        named = ", ".join(f"torch.{dtype}" for dtype in sorted(by_operator[operator]))
        lines.append(f"    {operator!r}: ({named},),")
    return "\n".join([*lines, "}"]) + "\n" + _APPLY + export_overrides.left_out(left)
