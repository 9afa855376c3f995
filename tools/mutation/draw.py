"""Draw the mutants of a campaign by a fixed rule."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Set

from tools.mutation import operators
from tools.mutation.mutant import Mutant

#: A mutant that is not of a kernel is this many times as likely to be drawn as a mutant of a kernel.
OTHER_FAMILY_WEIGHT = 4


def draw_key(name: str) -> str:
    """Return the sort key for drawing: a hash of the name, fixed and arbitrary."""
    return hashlib.sha256(name.encode()).hexdigest()


def draw_mutants(mutants: Iterable[str], count: int) -> list[Mutant]:
    """Return ``count`` mutants. Each pair of mutation point and mutation operator is drawn once before any
    pair is drawn twice.

    The order within a pair depends only on the mutants' names, so a larger draw contains a smaller draw.
    Mutants of other families than kernels are few. Each of them is :data:`OTHER_FAMILY_WEIGHT` times as
    likely to be drawn as a mutant of a kernel. A draw of more than 1 / OTHER_FAMILY_WEIGHT of the kernel
    mutants contains all mutants of other families.
    """
    turns: dict[tuple[str, str], int] = {}
    rows: list[tuple[int, float, Mutant]] = []
    for name in sorted(mutants, key=draw_key):
        mutant = Mutant.parse(name)
        turn = turns[mutant.point, mutant.operator] = turns.get((mutant.point, mutant.operator), -1) + 1
        share = int(draw_key(name)[:12], 16) / 16**12
        rows.append((turn, share if mutant.is_of_kernel else share / OTHER_FAMILY_WEIGHT, mutant))
    return [mutant for _, _, mutant in sorted(rows)[:count]]


def confine_to_dtype(mutant: Mutant, calls: Mapping[tuple[str, str], Set[str]]) -> Mutant:
    """Confine every second mutant to one of the dtypes that its point returns.

    Mutants of refusals stay unconfined, because a call is refused for its sizes or dimensions in every dtype.
    """
    if mutant.operator in operators.REFUSAL_OPERATORS:
        return mutant
    number = int(draw_key(str(mutant))[:8], 16)
    able = calls.get((mutant.point, operators.REQUIRED_CALL_KIND.get(mutant.operator, "called")), set()) - {
        "none"
    }
    dtypes = sorted(able & set(operators.NEXT_SMALLER_DTYPE) if mutant.operator == "low-precision" else able)
    if number % 2 == 0 or not dtypes:
        return mutant
    return dataclasses.replace(mutant, dtype=dtypes[number // 2 % len(dtypes)])
