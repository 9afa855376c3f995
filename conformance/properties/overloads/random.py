"""Draws of random numbers: repeatable, and each from where the one before ended."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.compare import fact, on_host, same_bits
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.overloads._call_forms import (
    FUNCTION,
    IN_PLACE,
    OUT,
    forms_of,
    has_both_kernels,
    with_outs,
)
from conformance.properties.overloads._memory import keeps_no_memory
from conformance.properties.overloads._modified_calls import (
    arguments,
    mapped,
    reference_of_modified_call,
    with_argument,
)
from conformance.properties.overloads._one_argument_pairs import other_float
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_with_checks,
    hidden_writes,
    is_unchecked,
    outputs_with_hidden_writes,
    references,
    references_of_table,
)
from conformance.properties.shared.distribution_tests import generators_restored
from conformance.properties.shared.execution import copy_in, report_failed_call, run
from conformance.properties.shared.memory_layouts import at_offset
from conformance.samples.copies import to_host
from conformance.samples.enlarged import enlargements
from conformance.samples.handmade_calls.calls import DRAWN
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 3
_SEED = 20
#: With fewer elements two draws may be equal by chance.
_FEWEST = 16
#: Elements of a draw in which few values, as of bernoulli, show that two draws are one.
_SIZE = 257
#: Two draws that are so unlikely are no accident in millions of them: about 1 in 10^13.
_SURPRISE = 30.0
_DRAWS = 9
#: Values of 32 bits that are all distinct meet by chance at most so often: a single one is no accident.
_RESOLUTION = 2.0**-23
_SURPRISE_OF_DISTINCT = 15.0


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    draws = subject.info.random or subject.name in DRAWN
    return dtypes_with_checks("overload-random", target, subject) if draws else []


@register(
    "overload-random",
    subject_kind="overload",
    statement=(
        "After one seed an overload draws the same numbers again, in every form; a second draw gives others, "
        "and no more of the first ones, shifted or not, than chance does; with another number or option it "
        "gives others after the same seed, as on the CPU; no call keeps memory or changes what lies beside."
    ),
    documentation="notes/randomness.html",
    level="core",
    applies=applies,
    modes=("eager",),
    capabilities=("random",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    with generators_restored():
        recorder.idle("no call of the overload draws numbers")
        for found in _calls(target, subject, recorder):
            _draws(target, recorder, found, FUNCTION)
            if has_both_kernels(target, found):
                _draws(target, recorder, found, FUNCTION, inference=True)
            overload: Overload = subject.info
            if target.capable("inplace") and (found.has_in_place_reference or _also_writes_noise(overload)):
                _draws(target, recorder, found, IN_PLACE)
            if OUT in forms_of(target, found):
                _draws(target, recorder, found, OUT)
            _numbers_count(target, recorder, found)


def _calls(target: Target, subject: Subject, recorder: Recorder) -> Iterator[OverloadReference]:
    """Yield some calls, and the first of them that can be larger, enlarged."""
    yield from references_of_table(target, subject, recorder.id.dtype, DRAWN)
    if not subject.info.random:
        return
    larger = None
    for reference in references(target, subject, recorder, _LIMIT, drawn=True):
        yield reference
        if larger is None:
            grown = (way.at(_SIZE) for way in enlargements(subject, reference.sample) if way.grows)
            larger = next(
                (reference_of_modified_call(reference, sample) for sample in grown if sample is not None),
                None,
            )
    if larger is not None:
        yield larger


def _also_writes_noise(overload: Overload) -> bool:
    """Return whether the overload and its form in place write an argument that they do not return."""
    return overload.in_place is not None and bool(hidden_writes(overload.op))


def _draws(
    target: Target, recorder: Recorder, reference: OverloadReference, form: str, *, inference: bool = False
) -> None:
    copy = copy_in(target, recorder, reference.sample)
    if copy is None:
        return
    op = _form(reference.subject.info, form)
    drawn: list[list[torch.Tensor]] = []
    for seed in (_SEED, None, _SEED, None):
        if seed is not None:
            torch.manual_seed(seed)
        given = mapped(copy, torch.Tensor.clone)
        inside = at_offset(given.input) if form == IN_PLACE else None
        if inside is not None:
            given = given.replace(input=inside.view)
        if form == OUT:
            parts = zip(reference.overload.outs, trees.tensors(reference.returned), strict=True)
            outs = {name: torch.zeros_like(part, device=target.torch_device) for name, part in parts}
            given = with_outs(reference.overload.out, given, outs)
        with torch.inference_mode() if inference else contextlib.nullcontext():
            outcome = run(target, op, given)
        if not outcome.ok:
            report_failed_call(target, recorder, reference.sample, outcome, f"the {form}")
            return
        if form == IN_PLACE and not hidden_writes(reference.overload.op):
            text = f"the {form} returns another tensor than its input."
            fact(recorder, outcome.value is given.input, Kind.ALIASING, text, sample=reference.sample.index)
        if inside is not None:
            text = f"the {form} has changed memory beside the tensor that it was given."
            fact(recorder, inside.kept(whole=False), Kind.STATE, text, sample=reference.sample.index)
        value = outputs_with_hidden_writes(_form(reference.overload, form), given, outcome.value)
        drawn.append([on_host(tensor) for tensor in trees.tensors(value)])
    if form == FUNCTION:
        keeps_no_memory(target, recorder, op, copy)
    index = reference.sample.index
    for first, second, words in ((0, 2, "first"), (1, 3, "second")):
        same = _equal(drawn[first], drawn[second])
        fact(recorder, same, Kind.STATE, f"the {words} draw after one seed gives other values.", sample=index)
    hosts = trees.tensors(reference.outputs)
    for place, (one, other, host) in enumerate(zip(drawn[0], drawn[1], hosts, strict=True)):
        # If the CPU draws values that are all distinct, a constant is no draw.
        if _values(host) == host.numel() >= _FEWEST:
            distinct = _values(one)
            text = f"{one.numel()} elements have {distinct} values."
            fact(recorder, 2 * distinct > one.numel(), Kind.VALUE, text, sample=index)
        elif _is_no_constant(host):
            text = f"all {one.numel()} elements are the same."
            fact(recorder, _values(one) > 1, Kind.VALUE, text, sample=index)
        repeated = _repeated(one, other, functools.partial(_draws_of_the_cpu, reference, place))
        text = ""
        if repeated is not None:
            shift, met = repeated
            text = f"the second draw repeats {met} elements of the first one, shifted by {shift} elements."
        fact(recorder, repeated is None, Kind.STATE, text, sample=index)


def _numbers_count(target: Target, recorder: Recorder, reference: OverloadReference) -> None:
    """Draw twice after one seed, the second time with another number, if that shows on the CPU."""
    for name, changed in _with_other_numbers(reference):
        for form in (FUNCTION, IN_PLACE, OUT):
            if form == IN_PLACE and not (target.capable("inplace") and reference.has_in_place_reference):
                continue
            if form == OUT and OUT not in forms_of(target, reference):
                continue
            draws = [_drawn(target, recorder, one, form) for one in (reference, changed)]
            if draws[0] is None or draws[1] is None:
                continue  # a failure that is recorded
            text = f"with another {name} the {form} draws the same numbers after one seed."
            differs = not _equal(draws[0], draws[1])
            fact(recorder, differs, Kind.VALUE, text, sample=reference.sample.index)


def _with_other_numbers(reference: OverloadReference) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the name of an argument and the call with another value of it, if the CPU then draws so much else
    after one seed that equal draws are no accident. Other numbers of calls that only operators may make could
    mean nothing.
    """
    if is_unchecked(reference.subject):
        return
    for argument, value in arguments(reference):
        for other in _other_numbers(value):
            changed = reference_of_modified_call(reference, with_argument(reference, argument.name, other))
            if changed is not None and _surely_differ(reference, changed):
                yield argument.name, changed
                break


def _other_numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 2, value - 1)
    elif isinstance(value, float):
        yield from (other_float(value), value + 1.5)


def _surely_differ(reference: OverloadReference, changed: OverloadReference) -> bool:
    count, differing = 1, 0
    for one, other in zip(_draws_of_the_cpu(reference, 0), _draws_of_the_cpu(changed, 0), strict=True):
        if one.shape != other.shape:
            return one.numel() != other.numel()
        count += one.numel()
        differing += int((one != other).sum())
    return -(count // _DRAWS) * math.log(1 - differing / count) >= _SURPRISE


def _drawn(
    target: Target, recorder: Recorder, reference: OverloadReference, form: str
) -> list[torch.Tensor] | None:
    """Return what a call draws after the seed; None if it fails."""
    copy = copy_in(target, recorder, reference.sample)
    if copy is None:
        return None
    if form == OUT:
        parts = zip(reference.overload.outs, trees.tensors(reference.returned), strict=True)
        outs = {name: torch.zeros_like(part, device=target.torch_device) for name, part in parts}
        copy = with_outs(reference.overload.out, copy, outs)
    torch.manual_seed(_SEED)
    outcome = run(target, _form(reference.subject.info, form), copy)
    if not outcome.ok:
        report_failed_call(target, recorder, reference.sample, outcome, f"the {form}")
        return None
    return [on_host(tensor) for tensor in trees.tensors(outcome.value)]


def _form(overload: Overload, form: str) -> Any:
    return {FUNCTION: overload.op, IN_PLACE: overload.in_place, OUT: overload.out}[form]


def _equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and same_bits(a, b) for a, b in zip(left, right, strict=True)
    )


def _values(tensor: torch.Tensor) -> int:
    """Return the number of distinct values."""
    return len(set(tensor.reshape(-1).tolist()))


def _is_no_constant(drawn: torch.Tensor) -> bool:
    """Return whether so many elements are no accident if all are the one that is drawn most often."""
    counts = collections.Counter(drawn.reshape(-1).tolist()).values()
    share = max(counts, default=0) / max(1, drawn.numel())
    return 0 < share < 1 and -drawn.numel() * math.log(share) >= _SURPRISE


def _repeated(
    one: torch.Tensor, other: torch.Tensor, drawn_by_cpu: Callable[[], Sequence[torch.Tensor]]
) -> tuple[int, int] | None:
    """Return by how many elements the first draw has to move so that the second one repeats it, and in how
    many elements; None if none of the shifts shows more equal elements than chance does.

    The share that chance gives is at first that of two elements of the draws, and if there are more, that of
    the CPU's draws at the same shift: elements may have distributions of their own.
    """
    first, second = one.reshape(-1), other.reshape(-1)
    count = first.numel()
    if count < _FEWEST or first.shape != second.shape:
        return None
    if _is_continuous(first):
        for shift in range(1, count):
            met = _equals(first, second, shift)
            if _surprise(met, count - shift, _RESOLUTION) >= _SURPRISE_OF_DISTINCT:
                return shift, met
    counts = collections.Counter(torch.cat([first, second]).tolist()).values()
    chance = sum((number / (2 * count)) ** 2 for number in counts)
    for shift in range(count - _FEWEST + 1):
        met = _equals(first, second, shift)
        if _surprise(met, count - shift, chance) < _SURPRISE:
            continue
        draws = [draw.reshape(-1) for draw in drawn_by_cpu()]
        due = sum(_equals(left, right, shift) for left, right in itertools.pairwise(draws))
        own = (due + 1) / ((len(draws) - 1) * (count - shift) + 1)
        if _surprise(met, count - shift, max(chance, own)) >= _SURPRISE:
            return shift, met
    return None


def _is_continuous(tensor: torch.Tensor) -> bool:
    """Return whether values of 32 bits or more are all distinct, and not counts, of which few are likely."""
    if tensor.dtype not in (torch.float32, torch.float64) or bool((tensor == tensor.round()).all()):
        return False
    return _values(tensor) == tensor.numel()


def _equals(first: torch.Tensor, second: torch.Tensor, shift: int) -> int:
    """Return how many elements are equal after the first tensor moved."""
    return int((first[shift:] == second[: second.numel() - shift]).sum())


def _surprise(met: int, count: int, chance: float) -> float:
    """Return a bound of the negative logarithm of the probability of so many hits (Chernoff's)."""
    share = met / count
    if share <= chance or chance >= 1:
        return 0.0
    rest = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return count * (share * math.log(share / chance) + rest)


def _draws_of_the_cpu(reference: OverloadReference, place: int) -> list[torch.Tensor]:
    """Return draws of the CPU, each from a seed of its own."""
    draws = []
    for seed in range(_DRAWS):
        host = to_host(reference.sample)
        with torch_testing_internals.torch_seeded(seed), torch_testing_internals.quiet(), torch.no_grad():
            value = outputs_with_hidden_writes(reference.overload.op, host, host.call(reference.overload.op))
        draws.append(trees.tensors(value)[place])
    return draws
