"""Property: every option has an effect, and arguments of the same shape are not exchanged."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance.framework.compare import same_bits
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._call_forms import call_forms_of, check_call
from conformance.properties.overloads._modified_calls import (
    arguments_with_values,
    reference_of_modified_call,
    reversed_elements,
    with_argument,
    with_tensor,
)
from conformance.properties.overloads._one_argument_pairs import (
    POSITIONS_AND_SIZES,
    WITHOUT_OTHER_VALUES,
    neighbouring_numbers,
    other_float,
    pairs_made_by_operators,
    results_differ,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    has_only_declared_dtypes,
    is_unchecked,
    references,
)
from conformance.properties.overloads.special_values import with_special_values
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.overloads import TAKEN_FROM_OUT
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 3
#: The maximum number of calls in which an effect of an option is searched if the first ``_LIMIT`` calls show
#: none.
_SEARCHED_CALLS = 12
#: First words of the note on an option without a visible effect. The command
#: ``python -m tools.generate.ineffective_options`` lists these options.
NO_EFFECT = "no sample shows an effect of "
#: Options that, by torch's documentation, change no value, with their documented effect.
VALUE_NEUTRAL_OPTIONS: Mapping[str, str] = {
    "check_errors": "whether a factorisation that fails raises",
    "non_blocking": "whether the host waits",
    "unsafe": "whether arguments are checked",
    "assume_unique": "how fast it is, if the elements are unique",
    "cudnn_enabled": "the library of CUDA that computes it",
    "use_fast_accum": "the accumulator, if the device has a faster one",
    "implicit": "nothing outside of TorchScript",
    "sparse": "the layout of the gradient",
    "sparse_grad": "the layout of the gradient",
    "scale_grad_by_freq": "the gradient",
    "stable": "the order of equal elements, which is free without it",
    "sorted": "the order, which is free without it",
    "return_inverse": "whether a result is computed that the caller drops",
    "return_counts": "whether a result is computed that the caller drops",
    "embedding.padding_idx": "the gradient",
    "max_unpool3d.stride": "nothing: the size of the result is an argument",
    "max_unpool3d.padding": "nothing: the size of the result is an argument",
    "max_pool3d_with_indices_backward.dilation": "nothing: the indices say where a gradient goes",
    "_segment_reduce_backward.axis": "nothing: lengths and offsets say it by their dimensions",
    "leaky_relu_backward.self_is_result": "whether a negative slope is refused",
    "compute_mode": "the algorithm",
    "_ctc_loss.zero_infinity": "the gradient",
    "equal.the order of arguments": "nothing",
}

#: Maps the name of an argument to the values that the argument accepts.
_CHOICES = {
    "rounding_mode": (None, "trunc", "floor"),
    "reduce": ("sum", "prod", "mean", "amax", "amin"),
    "approximate": ("none", "tanh"),
    "side": ("left", "right"),
    "ord": ("fro", "nuc"),
}
#: Overloads that are not checked, because their options only select an algorithm, or the values that are
#: treated as zero.
_UNSPECIFIED = frozenset({"linalg_lstsq"})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the overload."""
    return [] if subject.name in _UNSPECIFIED else dtypes_for_property("overload-options", target, subject)


@register(
    "overload-options",
    subject_kind="overload",
    statement=(
        "In every form, each option has the same effect as on the CPU, also in two successive calls that "
        "differ only in one option or number. Two arguments of the same shape are not exchanged."
    ),
    documentation="torch.html",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Make successive calls that differ in one option, in each form, and compare with the references."""
    has_effect: dict[str, bool] = {}
    calls = list(references(target, subject, recorder, _SEARCHED_CALLS))
    for reference in calls[:_LIMIT]:
        recorder.allow_nothing_compared("the calls have no options")
        changed_calls = list(_references_of_changed_calls(reference))
        for name, changed in changed_calls:
            has_effect[name] = has_effect.get(name, False) or results_differ(changed, reference)
        _check_calls_in_turn(
            target,
            recorder,
            reference,
            [
                *(changed for _, changed in changed_calls),
                *(changed for _, changed in neighbouring_numbers(reference)),
            ],
        )
    for _, first, second in pairs_made_by_operators(subject, recorder.id.dtype):
        _check_calls_in_turn(target, recorder, first, [second])
    without_effect = {name for name, effective in has_effect.items() if not effective}
    for name in sorted(without_effect - _value_neutral_options(subject)):
        calls_with_effect = next(_calls_changed_by_option(target, calls, name), None)
        if calls_with_effect is None:
            recorder.note(f"{NO_EFFECT}{name}")
            continue
        _check_calls_in_turn(target, recorder, *calls_with_effect)


def _check_calls_in_turn(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    changed_calls: Sequence[OverloadReference],
) -> None:
    """Make successive calls that differ in one argument, and check each call in every form.

    Data that a device caches for the sizes of one call must not affect the next call.
    """
    declared = [call for call in (reference, *changed_calls) if has_only_declared_dtypes(target, call)]
    for call in declared if len(declared) > 1 else ():
        for form in call_forms_of(target, call):
            check_call(target, recorder, call, form)


def _value_neutral_options(subject: Subject) -> set[str]:
    prefix = f"{base_name(subject.name)}."
    return {name.removeprefix(prefix) for name in VALUE_NEUTRAL_OPTIONS}


def _calls_changed_by_option(
    target: Target, calls: Sequence[OverloadReference], name: str
) -> Iterator[tuple[OverloadReference, list[OverloadReference]]]:
    """Yield pairs of a call and a list with one changed call: another value of the option changes the CPU's
    result.
    """
    special = (
        special_call
        for reference in calls[:_LIMIT]
        for special_call in with_special_values(target, reference)
    )
    for reference in itertools.chain(calls[_LIMIT:], special):
        for _, changed in _references_of_changed_calls(reference, name):
            if results_differ(changed, reference):
                yield reference, [changed]


def _references_of_changed_calls(
    reference: OverloadReference, only: str | None = None
) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the name of a changed argument and the reference of the changed call.

    ``only`` limits the changes to one argument. Without it, each argument is changed in turn, and two tensors
    of one shape get distinct values.
    """
    for argument, value in arguments_with_values(reference):
        if only not in (None, argument.name):
            continue
        other_values = [*_other_values_of_argument(reference, argument, value)]
        if only is not None:
            other_values += _values_that_affect_results(reference, argument, value)
        for other_value in other_values:
            changed = reference_of_modified_call(
                reference, with_argument(reference, argument.name, other_value)
            )
            if changed is not None:
                yield argument.name, changed
    if only is not None:
        return
    exchanged = None if is_unchecked(reference.subject) else _with_second_tensor_reversed(reference)
    if exchanged is not None:
        changed = reference_of_modified_call(reference, exchanged)
        if changed is not None:
            yield "the order of arguments", changed


def calls_with_other_values(reference: OverloadReference, name: str) -> Iterator[Sample]:
    """Yield the call with other values of an option."""
    argument, value = next(
        (schema_argument, value)
        for schema_argument, value in arguments_with_values(reference)
        if schema_argument.name == name
    )
    for other_value in _other_values_of_argument(reference, argument, value):
        yield with_argument(reference, name, other_value)


def _other_values_of_argument(reference: OverloadReference, argument: Any, value: Any) -> Iterator[Any]:
    """Yield values of an argument that differ from its value in the call."""
    kind, name = str(argument.type), argument.name
    if is_unchecked(reference.subject) and not _any_value_is_safe(argument):
        return
    if name in TAKEN_FROM_OUT or name in WITHOUT_OTHER_VALUES:
        return
    if name in _CHOICES and (value is None or isinstance(value, str)):
        yield from (choice for choice in _CHOICES[name] if choice != value)
    elif isinstance(value, bool):
        # ``accumulate`` is not changed to False: the order of writes to a repeated index is then unspecified.
        if name != "accumulate" or not value:
            yield not value
    elif kind == "Optional[Tensor]":
        if isinstance(value, torch.Tensor):
            yield None
    elif kind == "List[bool]" and value is not None:
        for number in range(len(value)):
            yield [position == number for position in range(len(value))]
    elif POSITIONS_AND_SIZES.match(name) or "Tensor" in kind:
        return
    elif kind in ("number", "float", "Optional[float]", "Optional[number]"):
        integral = not (reference.dtype.is_floating_point or reference.dtype.is_complex)
        base = 0 if value is None else value
        if isinstance(base, complex):
            yield base * 2 + 1
        elif integral or isinstance(base, int):
            yield int(base) + 2
        else:
            yield other_float(base)
    elif kind == "int" and isinstance(value, int):
        yield value + 1
    elif kind == "List[int]" and value and re.search("stride|dilation|padding", name):
        yield [number + 1 for number in value]


def _any_value_is_safe(argument: Any) -> bool:
    """Return whether an argument of an unchecked overload accepts any value of its type.

    Factors and certain bools accept any value. Numbers by which the kernel reads memory do not.
    """
    kind, name = str(argument.type), argument.name
    if kind in ("number", "float", "Optional[float]", "Optional[number]"):
        return not name.startswith("scales") and name != "dropout"  # with dropout, results are random
    return kind == "List[bool]" or name in ("maximize", "nesterov", "zero_infinity")


def _values_that_affect_results(reference: OverloadReference, argument: Any, value: Any) -> Iterator[Any]:
    """Yield values with which some options have an effect: -2, small indices, an element of the input."""
    if is_unchecked(reference.subject) or POSITIONS_AND_SIZES.match(argument.name) or isinstance(value, bool):
        return
    if str(argument.type) == "int":
        yield from (0, 1)
    elif str(argument.type) in ("number", "float", "Scalar"):
        yield -2
        tensors = reference.sample.tensors()
        if tensors and tensors[0].numel():
            yield tensors[0].reshape(-1)[0].item()


def _with_second_tensor_reversed(reference: OverloadReference) -> Sample | None:
    """Return the call with the elements of its first tensor, in reverse order, as its second tensor.

    The result is None if the two tensors have one shape and already differ. It is also None if the first two
    tensors do not have one dtype, or if the first tensor does not have several elements.
    """
    tensors = reference.sample.tensors()
    if len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype or tensors[0].numel() < 2:
        return None
    if tensors[0].shape == tensors[1].shape and not same_bits(tensors[0], tensors[1]):
        return None
    return with_tensor(reference.sample, 1, reversed_elements(tensors[0]))
