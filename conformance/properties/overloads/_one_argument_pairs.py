"""Pairs of calls that differ in one number or option alone: what a device keeps for the sizes and dtypes of
one must not count in the other.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.compare import same_bits
from conformance.properties.overloads._modified_calls import (
    arguments,
    reference_of_modified_call,
    with_argument,
)
from conformance.properties.overloads._references import OverloadReference, is_unchecked, overload_reference
from conformance.samples import recorded_calls
from conformance.samples.operators import Sample, SampleSet
from conformance.subjects.overloads import TAKEN_FROM_OUT
from conformance.subjects.torch_databases import Subject, find

#: Samples of an operator whose calls are compared with each other, and changed samples of it.
_SAMPLES = 12
_CHANGED = 4
#: Options without another value that is promised to mean something: an order that is not asked for is free,
#: and no target may be the blank of ctc_loss (its calls differ in it).
NO_OTHERS = frozenset({"sorted", "blank"})
#: Arguments of overloads without another value for which every call is defined: along another dimension
#: places may repeat, of which any may be written last.
_NO_OTHERS_OF = frozenset({"scatter.src.dim", "index_copy.dim"})
#: Numbers that name places and sizes; what others of them mean was decided with the shapes of the call.
PLACES = re.compile(
    r"dims?\d?$|axis|size|index|length|num_|indices|sections|offset$|start|end|step|groups|repeats|n$|k$|p$"
)
#: Numbers that stand for words, each with its last one; the first is 0.
_WORDS = {"reduction": 2, "interpolation_mode": 2, "padding_mode": 2, "mode": 2}
#: Arguments that say what the sizes of tensors say, or a dtype.
OF_SIZES = frozenset({"N", "C", "HxW", "out_dtype", "compute_mode", *TAKEN_FROM_OUT})


def neighbouring_numbers(reference: OverloadReference) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the name of an argument and the answer to the call with another number there, if it differs.

    Calls that only operators may make have none: see :func:`pairs_of_callers`. Nor have scalars that are
    values: another property gives them others.
    """
    if is_unchecked(reference.subject):
        return
    for argument, value in arguments(reference):
        name = argument.name
        if name in OF_SIZES or f"{reference.subject.name}.{name}" in _NO_OTHERS_OF:
            continue
        if str(argument.type) == "number" and not PLACES.match(name):
            continue
        for other in _others(value) if isinstance(value, float) else _beside(value, argument.name):
            changed = reference_of_modified_call(reference, with_argument(reference, argument.name, other))
            if changed is not None and results_differ(reference, changed) and changed.reproducible:
                yield argument.name, changed
                break


def pairs_of_callers(
    subject: Subject, dtype: str
) -> Iterator[tuple[str, OverloadReference, OverloadReference]]:
    """Yield the name of an argument and the answers to two calls of operators that differ by it alone."""
    if not is_unchecked(subject):
        return
    known = calls_alike(subject, dtype)
    seen: set[str] = set()
    for name, one, other in pairs([known[index] for index in range(known.available)], subject):
        if name in seen or name == "accumulate" or not _are_words(name, one, other, subject):
            continue
        first, second = overload_reference(subject, dtype, one), overload_reference(subject, dtype, other)
        if first is not None and second is not None and results_differ(first, second):
            seen.add(name)
            yield name, first, second


def pairs(samples: Sequence[Sample], subject: Subject) -> Iterator[tuple[str, Sample, Sample]]:
    """Yield the name of an argument and two calls that differ in it alone, tensors by sizes and dtypes."""
    schema = find(subject.kind, subject.name).info.op._schema
    described = [_described(sample, schema) for sample in samples]
    for argument in schema.arguments:
        first: dict[str, int] = {}
        for index, words in enumerate(described):
            key = repr([word for name, word in words.items() if name != argument.name])
            start = first.setdefault(key, index)
            if described[start][argument.name] != words[argument.name]:
                yield argument.name, samples[start], samples[index]


def calls_alike(subject: Subject, dtype: str) -> SampleSet:
    """Return calls of an overload that operators make for samples that are alike, beside those kept of it."""
    return recorded_calls.kept(subject, ("alike", dtype), lambda: list(_made(subject, dtype)))


def _made(subject: Subject, dtype: str) -> Iterator[Sample]:
    known = recorded_calls.calls_of(subject, dtype)
    yield from (known[index] for index in range(known.available))
    for number, (operator, sample) in enumerate(recorded_calls.sources(subject, dtype, _SAMPLES)):
        others = _changed(sample) if number % _SAMPLES < _CHANGED else ()
        for one in itertools.chain([sample], others):
            yield from itertools.islice(recorded_calls.made_by(subject, operator, dtype, one), 1)


def _changed(sample: Sample) -> Iterator[Sample]:
    """Yield an operator's sample with each of its numbers changed in turn; it refuses what it cannot take."""
    for position, value in enumerate(sample.args):
        for other in _others(value):
            yield sample.replace(args=(*sample.args[:position], other, *sample.args[position + 1 :]))
    for name, value in sample.kwargs.items():
        for other in _others(value):
            yield sample.replace(kwargs={**sample.kwargs, name: other})


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, float):
        yield other_float(value)
    else:
        yield from _beside(value)


def other_float(value: float) -> float:
    """Return another number, which is a probability if the given one is."""
    other = value / 2 + 0.375 if math.isfinite(value) else 2.0
    return value / 2 if other == value else other


def _beside(value: Any, name: str = "") -> Iterator[Any]:
    """Whole numbers beside a whole number, or beside all of a list; none below 0 unless one was."""
    if name in NO_OTHERS:
        return
    if type(value) is int:
        numbers = (value + 1, value - 1) if name != "p" else (value - 1,)  # the multivariate gamma's domain
        yield from (one for one in numbers if (one >= 0 or value < 0) and one <= _WORDS.get(name, one))
    elif isinstance(value, (list, tuple)) and value and all(type(one) is int for one in value):
        yield [one + 1 for one in value]
        if min(value) != 0:
            yield [one - 1 for one in value]


def _are_words(name: str, one: Sample, other: Sample, subject: Subject) -> bool:
    """Return False if a number that stands for a word stands for none in one of two calls."""
    schema = find(subject.kind, subject.name).info.op._schema
    last = _WORDS.get(name)
    numbers = [_values(sample, schema)[name] for sample in (one, other)]
    return last is None or all(type(number) is not int or 0 <= number <= last for number in numbers)


def _values(sample: Sample, schema: Any) -> dict[str, Any]:
    given = [sample.input, *sample.args]
    return {
        argument.name: given[position]
        if position < len(given)
        else sample.kwargs.get(argument.name, argument.default_value)
        for position, argument in enumerate(schema.arguments)
    }


def _described(sample: Sample, schema: Any) -> dict[str, str]:
    words = {}
    for name, value in _values(sample, schema).items():
        leaves = [
            (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in trees.leaves(value)
        ]
        words[name] = repr(leaves)
    return words


def results_differ(one: OverloadReference, other: OverloadReference) -> bool:
    """Return whether the results of two calls differ, in number, dtype, shape or bits; 0.0 is -0.0."""
    parts = [trees.tensors(found.outputs) for found in (one, other)]
    kinds = [[(part.shape, part.dtype) for part in group] for group in parts]
    return kinds[0] != kinds[1] or not all(same_bits(a, b) for a, b in zip(*parts, strict=True))
