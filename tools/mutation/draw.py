"""The catalogue: the mutants of a score, made by rule from the dispatch table."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Set

from tools.mutation import operators
from tools.mutation.mutant import Fault

#: How much more likely a fault of another family than kernels is to be in a catalogue.
FAVOUR = 4


def order(name: str) -> str:
    """Return what mutants are ordered by when some are drawn: fixed for a name, and otherwise arbitrary."""
    return hashlib.sha256(name.encode()).hexdigest()


def draw(faults: Iterable[str], count: int) -> list[Fault]:
    """Choose faults so that every kind at every place comes once before any comes twice.

    Within a kind at a place the order is fixed by the faults' names, so that a larger catalogue holds a
    smaller one. Faults of other families than kernels, which are few, are :data:`FAVOUR` times as likely to
    be chosen: a catalogue with more than a fraction 1 / FAVOUR of the kernels' faults has all of them.
    """
    turns: dict[tuple[str, str], int] = {}
    rows: list[tuple[int, float, Fault]] = []
    for name in sorted(faults, key=order):
        fault = Fault.parse(name)
        turn = turns[fault.place, fault.kind] = turns.get((fault.place, fault.kind), -1) + 1
        share = int(order(name)[:12], 16) / 16**12
        rows.append((turn, share if fault.is_of_kernel else share / FAVOUR, fault))
    return [fault for _, _, fault in sorted(rows)[:count]]


def confined(fault: Fault, calls: Mapping[tuple[str, str], Set[str]]) -> Fault:
    """Confine every second fault to one dtype of those in which its place returns.

    Faults of refusals stay as they are: what is refused for its sizes or dimensions is so in any dtype.
    """
    if fault.kind in operators.OF_REFUSALS:
        return fault
    number = int(order(str(fault))[:8], 16)
    able = calls.get((fault.place, operators.NEEDS.get(fault.kind, "called")), set()) - {"none"}
    dtypes = sorted(able & set(operators.SMALLER) if fault.kind == "low-precision" else able)
    if number % 2 == 0 or not dtypes:
        return fault
    return dataclasses.replace(fault, dtype=dtypes[number // 2 % len(dtypes)])
