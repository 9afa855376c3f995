"""Draws of random numbers: repeatable, and each from where the one before ended."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.checking import trees
from conformance.checking.compare import fact, on_host, same_bits
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators._common import copy_in, failed_call, run
from conformance.properties.operators._distributions import generators_restored
from conformance.properties.overloads._answers import Answer, answers, calls_in, hidden_writes, with_writes
from conformance.properties.overloads._changes import mapped
from conformance.properties.overloads._forms import FUNCTION, IN_PLACE
from conformance.subjects.databases import Subject
from conformance.subjects.overloads import Overload
from conformance.target.target import Target

_LIMIT = 3
_SEED = 20
#: With fewer elements two draws may be equal by chance.
_FEWEST = 16


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return calls_in("overload-random", target, subject) if subject.info.random else []


@register(
    "overload-random",
    subject_kind="overload",
    statement=(
        "After one seed an overload draws the same numbers again; a second draw gives others, which are not "
        "the first ones shifted."
    ),
    level="core",
    applies=applies,
    modes=("eager",),
    capabilities=("random",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    with generators_restored():
        for found in answers(target, subject, recorder, _LIMIT, drawn=True):
            recorder.idle("no call of the overload draws numbers")
            _draws(target, recorder, found, FUNCTION)
            overload: Overload = subject.info
            if target.capable("inplace") and (found.fits_in_place or _also_writes_noise(overload)):
                _draws(target, recorder, found, IN_PLACE)


def _also_writes_noise(overload: Overload) -> bool:
    """Return whether the overload and its form in place write an argument that they do not return."""
    return overload.in_place is not None and bool(hidden_writes(overload.op))


def _draws(target: Target, recorder: Recorder, found: Answer, form: str) -> None:
    copy = copy_in(target, recorder, found.sample)
    if copy is None:
        return
    op = found.subject.info.op if form == FUNCTION else found.subject.info.in_place
    drawn: list[list[torch.Tensor]] = []
    for seed in (_SEED, None, _SEED, None):
        if seed is not None:
            torch.manual_seed(seed)
        given = mapped(copy, torch.Tensor.clone)
        outcome = run(target, op, given)
        if not outcome.ok:
            failed_call(target, recorder, found.sample, outcome, f"the {form}")
            return
        own = found.overload.op if form == FUNCTION else found.overload.in_place
        value = with_writes(own, given, outcome.value)
        drawn.append([on_host(tensor) for tensor in trees.tensors(value)])
    index = found.sample.index
    for first, second, words in ((0, 2, "first"), (1, 3, "second")):
        same = _equal(drawn[first], drawn[second])
        fact(recorder, same, Kind.STATE, f"the {words} draw after one seed gives other values.", sample=index)
    for one, other, host in zip(drawn[0], drawn[1], trees.tensors(found.plain), strict=True):
        # If the CPU draws values that are all distinct, a constant is no draw.
        if _values(host) == host.numel() >= _FEWEST:
            distinct = _values(one)
            text = f"{one.numel()} elements have {distinct} values."
            fact(recorder, 2 * distinct > one.numel(), Kind.VALUE, text, sample=index)
        shift = _shift(one, other)
        text = f"the second draw is the first one, shifted by {shift} elements."
        fact(recorder, shift is None, Kind.STATE, text, sample=index)


def _equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and same_bits(a, b) for a, b in zip(left, right, strict=True)
    )


def _values(tensor: torch.Tensor) -> int:
    """Return the number of distinct values."""
    return len(set(tensor.reshape(-1).tolist()))


def _shift(one: torch.Tensor, other: torch.Tensor) -> int | None:
    """Return by how many elements the first draw has to move to begin as the second one; None if by none.

    Continuous values of 32 bits must not meet once; of others whole runs are too unlikely.
    """
    first, second = one.reshape(-1), other.reshape(-1)
    count = first.numel()
    if count < _FEWEST or first.shape != second.shape:
        return None
    values = _values(first)
    if values < 3:
        return None
    fewest = 1 if values == count and first.dtype in (torch.float32, torch.float64) else _FEWEST // 2
    for shift in range(count - fewest + 1):
        if bool((first[shift:] == second[: count - shift]).all()):
            return shift
    return None
