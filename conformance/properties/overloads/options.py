"""Every option counts, and arguments of one shape are not mistaken for each other."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance.framework.compare import same_bits
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._call_forms import check_call, forms_of
from conformance.properties.overloads._modified_calls import (
    arguments,
    backwards,
    reference_of_modified_call,
    with_argument,
    with_tensor,
)
from conformance.properties.overloads._one_argument_pairs import (
    NO_OTHERS,
    PLACES,
    neighbouring_numbers,
    other_float,
    pairs_of_callers,
    results_differ,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes,
    is_declared,
    is_unchecked,
    references,
)
from conformance.properties.overloads.values import with_special_values
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample
from conformance.subjects.overloads import TAKEN_FROM_OUT
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 3
#: Calls that are searched for one in which an option has an effect that the first ones do not show.
_SEARCHED = 12
#: How the note on an option begins that no call shows; ``python -m tools.generate.ineffective_options`` lists them.
NO_EFFECT = "no sample shows an effect of "
#: Options that torch documents to change no value, by what they change.
NO_VALUES: Mapping[str, str] = {
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

#: Values of arguments that are words, by the argument's name.
_WORDS = {
    "rounding_mode": (None, "trunc", "floor"),
    "reduce": ("sum", "prod", "mean", "amax", "amin"),
    "approximate": ("none", "tanh"),
    "side": ("left", "right"),
    "ord": ("fro", "nuc"),
}
#: The effect of their options is a choice among algorithms, or decides which values count as zero.
_FREE = frozenset({"linalg_lstsq"})


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return [] if subject.name in _FREE else dtypes("overload-options", target, subject)


@register(
    "overload-options",
    subject_kind="overload",
    statement=(
        "Every option has the effect that it has on the CPU, in every form, also in a call after one that "
        "differs in this option or number alone; two arguments of one shape keep their places."
    ),
    documentation="torch.html",
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    tried: dict[str, bool] = {}
    calls = list(references(target, subject, recorder, _SEARCHED))
    for found in calls[:_LIMIT]:
        recorder.idle("the calls have no options")
        others = list(_changed(found))
        for name, changed in others:
            tried[name] = tried.get(name, False) or results_differ(changed, found)
        _hold_after(
            target,
            recorder,
            found,
            [*(changed for _, changed in others), *(changed for _, changed in neighbouring_numbers(found))],
        )
    for _, one, other in pairs_of_callers(subject, recorder.id.dtype):
        _hold_after(target, recorder, one, [other])
    quiet = {name for name, counts in tried.items() if not counts}
    for name in sorted(quiet - _no_values(subject)):
        telling = next(_telling(target, calls, name), None)
        if telling is None:
            recorder.note(f"{NO_EFFECT}{name}")
            continue
        _hold_after(target, recorder, *telling)


def _hold_after(
    target: Target, recorder: Recorder, reference: OverloadReference, others: Sequence[OverloadReference]
) -> None:
    """Compare calls after one that they differ from in one argument alone: what a device keeps of that one
    for its sizes must not count in them.
    """
    declared = [one for one in (reference, *others) if is_declared(target, one)]
    for one in declared if len(declared) > 1 else ():
        for form in forms_of(target, one):
            check_call(target, recorder, one, form)


def _no_values(subject: Subject) -> set[str]:
    prefix = f"{base_name(subject.name)}."
    return {name.removeprefix(prefix) for name in NO_VALUES}


def _telling(
    target: Target, calls: Sequence[OverloadReference], name: str
) -> Iterator[tuple[OverloadReference, list[OverloadReference]]]:
    """Yield calls with those of another value of an option that changes the CPU's result."""
    special = (one for found in calls[:_LIMIT] for one in with_special_values(target, found))
    for found in itertools.chain(calls[_LIMIT:], special):
        for _, changed in _changed(found, name):
            if results_differ(changed, found):
                yield found, [changed]


def _changed(
    reference: OverloadReference, only: str | None = None
) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the answers to the call with other values of one argument, or of each in turn, by its name."""
    for argument, value in arguments(reference):
        if only not in (None, argument.name):
            continue
        others = [*_others(reference, argument, value)]
        if only is not None:
            others += _more(reference, argument, value)
        for other in others:
            changed = reference_of_modified_call(reference, with_argument(reference, argument.name, other))
            if changed is not None:
                yield argument.name, changed
    if only is not None:
        return
    exchanged = None if is_unchecked(reference.subject) else _distinct(reference)
    if exchanged is not None:
        changed = reference_of_modified_call(reference, exchanged)
        if changed is not None:
            yield "the order of arguments", changed


def others(reference: OverloadReference, name: str) -> Iterator[Sample]:
    """Yield the call with other values of an option."""
    argument, value = next((one, value) for one, value in arguments(reference) if one.name == name)
    for other in _others(reference, argument, value):
        yield with_argument(reference, name, other)


def _others(reference: OverloadReference, argument: Any, value: Any) -> Iterator[Any]:
    """Values of an argument that are unlike the given one."""
    kind, name = str(argument.type), argument.name
    if is_unchecked(reference.subject) and not _is_safe(argument):
        return
    if name in TAKEN_FROM_OUT or name in NO_OTHERS:
        return
    if name in _WORDS and (value is None or isinstance(value, str)):
        yield from (word for word in _WORDS[name] if word != value)
    elif isinstance(value, bool):
        # Of places that repeat any may be written last, if what is written there is not added up.
        if name != "accumulate" or not value:
            yield not value
    elif kind == "Optional[Tensor]":
        if isinstance(value, torch.Tensor):
            yield None
    elif kind == "List[bool]" and value is not None:
        for one in range(len(value)):
            yield [place == one for place in range(len(value))]
    elif PLACES.match(name) or "Tensor" in kind:
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
        yield [one + 1 for one in value]


def _is_safe(argument: Any) -> bool:
    """Return whether any value will do in a call that only operators may make: a factor, and a yes or no of
    itself, but no number by which memory is read.
    """
    kind, name = str(argument.type), argument.name
    if kind in ("number", "float", "Optional[float]", "Optional[number]"):
        return not name.startswith("scales") and name != "dropout"  # which draws
    return kind == "List[bool]" or name in ("maximize", "nesterov", "zero_infinity")


def _more(reference: OverloadReference, argument: Any, value: Any) -> Iterator[Any]:
    """Values that some options need to show: below zero, an index that occurs, an element of the input."""
    if is_unchecked(reference.subject) or PLACES.match(argument.name) or isinstance(value, bool):
        return
    if str(argument.type) == "int":
        yield from (0, 1)
    elif str(argument.type) in ("number", "float", "Scalar"):
        yield -2
        tensors = reference.sample.tensors()
        if tensors and tensors[0].numel():
            yield tensors[0].reshape(-1)[0].item()


def _distinct(reference: OverloadReference) -> Sample | None:
    """The call with a second tensor of the first one's shape and other values; None without a second."""
    tensors = reference.sample.tensors()
    if len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype or tensors[0].numel() < 2:
        return None
    if tensors[0].shape == tensors[1].shape and not same_bits(tensors[0], tensors[1]):
        return None
    return with_tensor(reference.sample, 1, backwards(tensors[0]))
