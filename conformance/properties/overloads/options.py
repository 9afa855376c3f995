"""Every option counts, and arguments of one shape are not mistaken for each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.checking import trees
from conformance.checking.compare import same_bits
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.properties.overloads._answers import Answer, answers, dtypes, trusts_its_callers
from conformance.properties.overloads._changes import again, arguments, backwards, with_argument, with_tensor
from conformance.properties.overloads._forms import forms_of, hold
from conformance.samples.operators import Sample
from conformance.subjects.databases import Subject
from conformance.subjects.overloads import TAKEN_FROM_OUT
from conformance.target.target import Target

_LIMIT = 3

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

#: Numbers that name places and sizes; what others of them mean was decided with the shapes of the call.
_PLACES = re.compile(
    r"dims?\d?$|axis|size|index|length|num_|indices|sections|offset$|start|end|step|groups|repeats|n$|k$|p$"
)


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    return [] if subject.name in _FREE else dtypes("overload-options", target, subject)


@register(
    "overload-options",
    subject_kind="overload",
    statement=(
        "Every option has the effect that it has on the CPU, in every form; two arguments of one shape keep "
        "their places."
    ),
    level="core",
    applies=applies,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    tried: dict[str, bool] = {}
    for found in answers(target, subject, recorder, _LIMIT):
        recorder.idle("the calls have no options")
        for name, changed in _changed(found):
            tried[name] = tried.get(name, False) or _differs(changed, found)
            for form in forms_of(target, changed):
                hold(target, recorder, changed, form)
    for name, counts in tried.items():
        if not counts:
            recorder.note(f"no sample shows an effect of {name}")


def _changed(found: Answer) -> Iterator[tuple[str, Answer]]:
    for argument, value in arguments(found):
        for other in _others(found, argument, value):
            changed = again(found, with_argument(found, argument.name, other))
            if changed is not None:
                yield argument.name, changed
    exchanged = None if trusts_its_callers(found.subject) else _distinct(found)
    if exchanged is not None:
        changed = again(found, exchanged)
        if changed is not None:
            yield "the order of arguments", changed


def _others(found: Answer, argument: Any, value: Any) -> Iterator[Any]:
    """Values of an argument that are unlike the given one."""
    kind, name = str(argument.type), argument.name
    if trusts_its_callers(found.subject) and kind != "List[bool]":
        return
    if name in TAKEN_FROM_OUT or name == "sorted":  # an order that is not asked for is free
        return
    if name in _WORDS and (value is None or isinstance(value, str)):
        yield from (word for word in _WORDS[name] if word != value)
    elif isinstance(value, bool):
        yield not value
    elif kind == "Optional[Tensor]":
        if isinstance(value, torch.Tensor):
            yield None
    elif kind == "List[bool]" and value is not None:
        for one in range(len(value)):
            yield [place == one for place in range(len(value))]
    elif _PLACES.match(name) or "Tensor" in kind:
        return
    elif kind in ("number", "float", "Optional[float]", "Optional[number]"):
        integral = not (found.dtype.is_floating_point or found.dtype.is_complex)
        base = 0 if value is None else value
        if isinstance(base, complex):
            yield base * 2 + 1
        elif integral or isinstance(base, int):
            yield int(base) + 2
        else:
            yield base / 2 + 0.375
    elif kind == "int" and isinstance(value, int):
        yield value + 1
    elif kind == "List[int]" and value and re.search("stride|dilation|padding", name):
        yield [one + 1 for one in value]


def _distinct(found: Answer) -> Sample | None:
    """The call with a second tensor of the first one's shape and other values; None without a second."""
    tensors = found.sample.tensors()
    if len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype or tensors[0].numel() < 2:
        return None
    if tensors[0].shape == tensors[1].shape and not same_bits(tensors[0], tensors[1]):
        return None
    return with_tensor(found.sample, 1, backwards(tensors[0]))


def _differs(changed: Answer, found: Answer) -> bool:
    one, other = trees.tensors(changed.plain), trees.tensors(found.plain)
    if [(t.shape, t.dtype) for t in one] != [(t.shape, t.dtype) for t in other]:
        return True
    return not all(same_bits(a, b) for a, b in zip(one, other, strict=True))
