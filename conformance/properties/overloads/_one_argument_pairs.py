"""Pairs of calls that differ in a single number or option.

A device may cache data by the sizes and dtypes of a call. The cached data of one call must not be used for
the other call.
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
    arguments_with_values,
    reference_of_modified_call,
    with_argument,
)
from conformance.properties.overloads._references import OverloadReference, is_unchecked, overload_reference
from conformance.samples import recorded_calls
from conformance.samples.operators import Sample, SampleSet
from conformance.subjects.overloads import TAKEN_FROM_OUT
from conformance.subjects.torch_databases import Subject, find

#: The calls of ``_SAMPLES_PER_OPERATOR`` samples of each operator are compared with each other.
#: ``_CHANGED_SAMPLES`` of these samples are also run with changed numbers.
_SAMPLES_PER_OPERATOR = 12
_CHANGED_SAMPLES = 4
#: Options that are not changed. Without ``sorted``, the order of the results is unspecified. A target of
#: ctc_loss must not be the ``blank``, and the recorded calls of ctc_loss already differ in the ``blank``.
WITHOUT_OTHER_VALUES = frozenset({"sorted", "blank"})
#: Arguments, each with its overload, that are not changed: along another dimension, indices may repeat, and
#: the order of writes to one element is unspecified.
_WITHOUT_OTHER_VALUES_OF = frozenset({"scatter.src.dim", "index_copy.dim"})
#: Matches names of arguments that hold positions or sizes. Their values must fit the shapes of the call.
POSITIONS_AND_SIZES = re.compile(
    r"dims?\d?$|axis|size|index|length|num_|indices|sections|offset$|start|end|step|groups|repeats|n$|k$|p$"
)
#: Arguments whose integers encode options, with the largest valid integer. The smallest is 0.
_LAST_CODES = {"reduction": 2, "interpolation_mode": 2, "padding_mode": 2, "mode": 2}
#: Arguments that repeat the sizes of tensors, or name a dtype. These arguments are not changed.
DETERMINED_BY_TENSORS = frozenset({"N", "C", "HxW", "out_dtype", "compute_mode", *TAKEN_FROM_OUT})


def neighbouring_numbers(reference: OverloadReference) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the name of an argument and the reference of the call with a neighbouring number for it.

    Only calls with a different result are yielded. Unchecked overloads are skipped, because
    :func:`pairs_made_by_operators` covers them. Arguments of type Scalar are skipped, because another part of
    the property changes them.
    """
    if is_unchecked(reference.subject):
        return
    for argument, value in arguments_with_values(reference):
        name = argument.name
        if name in DETERMINED_BY_TENSORS or f"{reference.subject.name}.{name}" in _WITHOUT_OTHER_VALUES_OF:
            continue
        if str(argument.type) == "number" and not POSITIONS_AND_SIZES.match(name):
            continue
        for neighbour in (
            _other_values(value) if isinstance(value, float) else _neighbouring_integers(value, argument.name)
        ):
            changed = reference_of_modified_call(
                reference, with_argument(reference, argument.name, neighbour)
            )
            if changed is not None and results_differ(reference, changed) and changed.reproducible:
                yield argument.name, changed
                break


def pairs_made_by_operators(
    subject: Subject, dtype: str
) -> Iterator[tuple[str, OverloadReference, OverloadReference]]:
    """Yield the name of an argument and the references of two calls that differ only in that argument.

    Operators make the calls, because the overload is unchecked.
    """
    if not is_unchecked(subject):
        return
    calls = recorded_and_similar_calls(subject, dtype)
    names: set[str] = set()
    for name, first_call, second_call in pairs_of_samples(
        [calls[index] for index in range(calls.available)], subject
    ):
        if (
            name in names
            or name == "accumulate"
            or not _have_valid_option_codes(name, first_call, second_call, subject)
        ):
            continue
        first, second = (
            overload_reference(subject, dtype, first_call),
            overload_reference(subject, dtype, second_call),
        )
        if first is not None and second is not None and results_differ(first, second):
            names.add(name)
            yield name, first, second


def pairs_of_samples(samples: Sequence[Sample], subject: Subject) -> Iterator[tuple[str, Sample, Sample]]:
    """Yield the name of an argument and two calls that differ only in this argument.

    Tensors with equal shapes and dtypes are treated as equal.
    """
    schema = find(subject.kind, subject.name).info.op._schema
    descriptions = [_argument_descriptions(sample, schema) for sample in samples]
    for argument in schema.arguments:
        first: dict[str, int] = {}
        for index, description in enumerate(descriptions):
            key = repr([text for name, text in description.items() if name != argument.name])
            start = first.setdefault(key, index)
            if descriptions[start][argument.name] != description[argument.name]:
                yield argument.name, samples[start], samples[index]


def recorded_and_similar_calls(subject: Subject, dtype: str) -> SampleSet:
    """Return the recorded calls of an overload and the calls that operators make for similar samples."""
    return recorded_calls.cached_calls(
        subject, ("alike", dtype), lambda: list(_generate_calls(subject, dtype))
    )


def _generate_calls(subject: Subject, dtype: str) -> Iterator[Sample]:
    """Yield the recorded calls of an overload, then the calls that operators make for their own samples and
    for samples with changed numbers.
    """
    recorded = recorded_calls.calls_of(subject, dtype)
    yield from (recorded[index] for index in range(recorded.available))
    for number, (operator, sample) in enumerate(
        recorded_calls.callers_with_samples(subject, dtype, _SAMPLES_PER_OPERATOR)
    ):
        changed_samples = (
            _samples_with_changed_numbers(sample) if number % _SAMPLES_PER_OPERATOR < _CHANGED_SAMPLES else ()
        )
        for variant in itertools.chain([sample], changed_samples):
            yield from itertools.islice(recorded_calls.calls_made_by(subject, operator, dtype, variant), 1)


def _samples_with_changed_numbers(sample: Sample) -> Iterator[Sample]:
    """Yield copies of an operator's sample, each with one of its numbers changed.

    The operator may reject some of the copies.
    """
    for position, value in enumerate(sample.args):
        for new_value in _other_values(value):
            yield sample.replace(args=(*sample.args[:position], new_value, *sample.args[position + 1 :]))
    for name, value in sample.kwargs.items():
        for new_value in _other_values(value):
            yield sample.replace(kwargs={**sample.kwargs, name: new_value})


def _other_values(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, float):
        yield other_float(value)
    else:
        yield from _neighbouring_integers(value)


def other_float(value: float) -> float:
    """Return a different number. If ``value`` is a probability, the result is a probability too."""
    result = value / 2 + 0.375 if math.isfinite(value) else 2.0
    return value / 2 if result == value else result


def _neighbouring_integers(value: Any, name: str = "") -> Iterator[Any]:
    """Yield the neighbours of an integer, or copies of a list in which all integers are shifted by one.

    A negative number is used only if the original number is negative.
    """
    if name in WITHOUT_OTHER_VALUES:
        return
    if type(value) is int:
        numbers = (value + 1, value - 1) if name != "p" else (value - 1,)  # mvlgamma rejects a larger p
        yield from (
            integer
            for integer in numbers
            if (integer >= 0 or value < 0) and integer <= _LAST_CODES.get(name, integer)
        )
    elif isinstance(value, (list, tuple)) and value and all(type(integer) is int for integer in value):
        yield [integer + 1 for integer in value]
        if min(value) != 0:
            yield [integer - 1 for integer in value]


def _have_valid_option_codes(name: str, first: Sample, second: Sample, subject: Subject) -> bool:
    """Return False if an argument that encodes an option has an invalid integer in one of two calls."""
    schema = find(subject.kind, subject.name).info.op._schema
    last_code = _LAST_CODES.get(name)
    numbers = [_argument_values(sample, schema)[name] for sample in (first, second)]
    return last_code is None or all(type(number) is not int or 0 <= number <= last_code for number in numbers)


def _argument_values(sample: Sample, schema: Any) -> dict[str, Any]:
    call_arguments = [sample.input, *sample.args]
    return {
        argument.name: call_arguments[position]
        if position < len(call_arguments)
        else sample.kwargs.get(argument.name, argument.default_value)
        for position, argument in enumerate(schema.arguments)
    }


def _argument_descriptions(sample: Sample, schema: Any) -> dict[str, str]:
    descriptions = {}
    for name, value in _argument_values(sample, schema).items():
        leaves = [
            (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in trees.leaves(value)
        ]
        descriptions[name] = repr(leaves)
    return descriptions


def results_differ(first: OverloadReference, second: OverloadReference) -> bool:
    """Return whether the results of two calls differ in number, dtype, shape or bits; 0.0 equals -0.0."""
    parts = [trees.tensors(reference.outputs) for reference in (first, second)]
    kinds = [[(part.shape, part.dtype) for part in group] for group in parts]
    return kinds[0] != kinds[1] or not all(same_bits(a, b) for a, b in zip(*parts, strict=True))
