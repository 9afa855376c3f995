"""The memory layout of one argument at a time does not matter, in any form of an overload."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.overloads._answers import Answer, answers, dtypes, trusts_its_callers
from conformance.properties.overloads._forms import FUNCTION, IN_PLACE, Laid, forms_of, hold
from conformance.properties.overloads._layouts import (
    LAYOUTS,
    Layout,
    alike,
    at_offset,
    channels_last_at_offset,
    expanded,
)
from conformance.properties.overloads._modified_calls import (
    argument_at,
    arguments,
    in_dimensions,
    mapped,
    reference_of_modified_call,
    values_affect_result,
    with_tensor,
)
from conformance.samples.dispatched_kernels import base_name
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 8
#: Tensors of a call that are laid out in turn.
_TENSORS = 16


#: torch's own kernels read strided arguments beyond their memory, and end the process: offsets are tried.
UNSAFE_STRIDES = frozenset({"_weight_norm_interface", "_weight_norm_interface_backward"})
#: torch's own kernels write bytes beside a strided out= of theirs, and end the process.
_UNSAFE = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "upsample_bilinear2d", "upsample_bicubic2d")


_CHANNELS_LAST = "channels_last at an offset"

#: A form, a layout and the place of the tensor that has it in a call (None: what is written).
Combination = tuple[str, str, int | None]


class LayoutCoverage:
    """Combinations that were held, and in calls whose results show what is read of that tensor.

    Each is held in the first call that can have it and that the CPU takes so, and if that shows nothing, in
    the first one that does: more would say the same.
    """

    def __init__(self) -> None:
        # With the name of the argument, as its place differs between calls.
        self._held: set[tuple[str, str, str]] = set()
        self._shown: set[tuple[str, str, str]] = set()

    def wants(self, combination: Combination, found: Answer) -> bool:
        """Return whether to hold a combination in a call."""
        named = _named_as(combination, found)
        if named in self._shown:
            return False
        return named not in self._held or self._shows(combination, found)

    def add(self, combination: Combination, found: Answer) -> None:
        """Note that a combination was held in a call."""
        named = _named_as(combination, found)
        self._held.add(named)
        if self._shows(combination, found):
            self._shown.add(named)

    @staticmethod
    def _shows(combination: Combination, found: Answer) -> bool:
        place = combination[2]
        return place is None or values_affect_result(found, place)


#: Overloads that write to the places that an argument names.
_WRITES_PLACES = re.compile(r"index_(copy|put)|scatter|put|max_unpool")
#: Those in which the order of two writes to one place does not matter: they add up, or write the same.
_IN_ANY_ORDER = re.compile(r"scatter(_add|_reduce|\.reduce|\.value)")
#: Overloads that trust their callers, and whose integers may be alike: pivots, places that gradients go to,
#: bags of which all but the last are empty, bits of random numbers, labels and lengths of sequences.
_MAY_BE_ALIKE = re.compile(
    r"lu_unpack|linalg_(lu|ldl)_solve|(fractional_|adaptive_)?max_pool\dd(_with_indices)?_backward"
    r"|_embedding_bag|_sobol_engine|_ctc_loss"
)


def _named_as(combination: Combination, found: Answer) -> tuple[str, str, str]:
    form, word, place = combination
    return form, word, "" if place is None else argument_at(found, place)


def safe_on_the_cpu(subject: Subject, dtype: str) -> bool:
    """Return whether torch's own kernels keep to the memory of strided arguments."""
    return subject.name not in UNSAFE_STRIDES and not (dtype == "uint8" and subject.name.startswith(_UNSAFE))


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    names = dtypes("overload-layouts", target, subject)
    return [name for name in names if name != "uint8"] if subject.name.startswith(_UNSAFE) else names


@register(
    "overload-layouts",
    subject_kind="overload",
    statement=(
        "Gaps, an offset, both, transposed and channels_last memory of one argument, or of what is written, "
        "change no result, and no memory beside it."
    ),
    documentation="generated/torch.Tensor.stride.html",
    level="core",
    applies=applies,
    modes=("eager",),
    capabilities=("non_contiguous",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    tried = LayoutCoverage()
    told: dict[str, LayoutCoverage] = {}
    deep = LayoutCoverage()
    for found in answers(target, subject, recorder, _LIMIT):
        recorder.idle("no tensor of the calls can have another layout")
        if subject.name in UNSAFE_STRIDES:
            for place, form in itertools.product(range(len(found.sample.tensors())), forms_of(target, found)):
                hold(target, recorder, found, form, Laid(at_offset, "a storage offset", place))
            continue
        _in_every_layout(target, recorder, found, tried)
        for values, telling in _telling(found):
            _in_every_layout(target, recorder, telling, told.setdefault(values, LayoutCoverage()))
            _with_one_row_expanded(target, recorder, telling, told[values])
            _in_four_dimensions(target, recorder, telling, deep)
        _in_four_dimensions(target, recorder, found, tried)
        _with_one_row_expanded(target, recorder, found, tried)


def _in_every_layout(target: Target, recorder: Recorder, found: Answer, tried: LayoutCoverage) -> None:
    tensors = found.sample.tensors()[:_TENSORS]
    fitting = {word: _fitting(layout, tensors) for word, layout in LAYOUTS.items()}
    written = {word: _fitting(layout, trees.tensors(found.returned)) for word, layout in LAYOUTS.items()}
    for form in forms_of(target, found):
        for word, layout in LAYOUTS.items():
            for place in fitting[word]:
                if not tried.wants((form, word, place), found):
                    continue
                if hold(target, recorder, found, form, Laid(layout, word, place)):
                    tried.add((form, word, place), found)
            if form == FUNCTION or not written[word] or not tried.wants((form, word, None), found):
                continue
            if hold(target, recorder, found, form, into=layout):
                tried.add((form, word, None), found)


def _fitting(layout: Layout, tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the places of the tensors that can have a layout."""
    return [place for place, one in enumerate(tensors) if layout(torch.empty_like(one)) is not None]


def _with_one_row_expanded(target: Target, recorder: Recorder, found: Answer, tried: LayoutCoverage) -> None:
    forms = list(forms_of(target, found))
    for place in range(min(len(found.sample.tensors()), _TENSORS)):
        if place in found.written:
            continue  # what a call leaves in an element that it writes many times depends on their order
        left = [
            form
            for form in forms
            if (form, place) != (IN_PLACE, 0) and tried.wants((form, "expanded", place), found)
        ]
        repeated = rows_alike(found, place) if left else None
        if repeated is None:
            continue
        for form in forms_of(target, repeated):
            if (form, place) == (IN_PLACE, 0) or not tried.wants((form, "expanded", place), repeated):
                continue
            if hold(target, recorder, repeated, form, Laid(expanded, "one row expanded", place)):
                tried.add((form, "expanded", place), repeated)


def _telling(found: Answer) -> Iterator[tuple[str, Answer]]:
    """Yield the answers of a function that says yes or no to values of which it says both, by the values.

    Among them are those around the numbers that it compares with.

    Of random numbers all are finite, and no two are equal: whatever is read in their place gives the same.
    """
    results = trees.tensors(found.plain)
    if not results or any(t.dtype != torch.bool for t in results) or trusts_its_callers(found.subject):
        return
    first = found.sample.tensors()[0]
    given = (found.sample.input, *found.sample.args, *found.sample.kwargs.values())
    numbers = sorted({one for one in given if type(one) in (int, float) and math.isfinite(one)})
    around = [(number, number + 1, number - 1) for number in numbers[:2]]
    for values in (*around, (0, 1), (1,), (0,), (float("inf"), float("nan"), float("-inf"), 1)):
        floating = first.is_floating_point() or first.is_complex()
        if not floating and not all(map(math.isfinite, values)):
            continue

        # Each tensor begins with another value: of two that are alike, one says what both say.
        begins = itertools.count()

        def of_values(
            tensor: torch.Tensor, values: tuple[float, ...] = values, begins: Iterator[int] = begins
        ) -> torch.Tensor:
            if tensor.dtype != first.dtype:
                return tensor
            order = (torch.arange(tensor.numel()) * 7 // 3 + next(begins)) % len(values)
            return torch.tensor(values)[order].to(tensor.dtype).reshape(tensor.shape)

        changed = reference_of_modified_call(found, mapped(found.sample, of_values))
        if changed is not None:
            yield str(values), changed


def _in_four_dimensions(target: Target, recorder: Recorder, found: Answer, tried: LayoutCoverage) -> None:
    """Try channels_last on a call that has no tensor of four dimensions."""
    if trusts_its_callers(found.subject) or any(tensor.dim() == 4 for tensor in found.sample.tensors()):
        return
    deeper = in_dimensions(found, 4)
    if deeper is None:
        return
    for form in forms_of(target, deeper):
        for place, tensor in enumerate(deeper.sample.tensors()[:_TENSORS]):
            if tensor.dim() != 4 or not tried.wants((form, _CHANNELS_LAST, place), deeper):
                continue
            if hold(target, recorder, deeper, form, Laid(channels_last_at_offset, _CHANNELS_LAST, place)):
                tried.add((form, _CHANNELS_LAST, place), deeper)


def rows_alike(found: Answer, place: int) -> Answer | None:
    """Return the same call with all rows of one tensor equal to its first; None if the CPU raises for it."""
    tensor = found.sample.tensors()[place]
    counts = not (tensor.is_floating_point() or tensor.is_complex())
    factors = found.rule.name == "factorisation"
    if factors and counts and tensor.dim() < 2:
        return None  # a pivot may stand for two rows, and the last one has none beside it
    if factors and not counts:  # equal rows make a matrix singular; equal matrices do not
        batched = None if trusts_its_callers(found.subject) else in_dimensions(found, 3)
        if batched is None or batched.sample.tensors()[place].dim() < 3:
            return None
        found = batched
        tensor = found.sample.tensors()[place]
    repeated = alike(tensor)
    if repeated is None:
        return None
    if counts and place > 0:
        segments = "segment_reduce" in found.subject.name and tensor.dim() > 1  # those of rows, all the same
        may_be_alike = segments or _MAY_BE_ALIKE.match(found.subject.name) is not None
        if trusts_its_callers(found.subject) and not may_be_alike:
            return None  # lengths and offsets that fit no longer
        named = _named(found)
        if named.get("include_last_offset") and named.get("offsets") is tensor:
            return None  # the last one is the number of indices
        if _write_to_one_place(found, tensor):
            return None  # in an order that is free
    return reference_of_modified_call(found, with_tensor(found.sample, place, repeated))


def _named(found: Answer) -> dict[str, Any]:
    return {argument.name: value for argument, value in arguments(found)}


def _write_to_one_place(found: Answer, indices: torch.Tensor) -> bool:
    """Return whether a call writes different values to one place if all rows of an argument are alike."""
    name = found.subject.name
    if not _WRITES_PLACES.match(base_name(name)) or _IN_ANY_ORDER.match(name):
        return False
    named = _named(found)
    if not any(one is indices for key in ("index", "indices") for one in trees.tensors(named.get(key))):
        return False
    if named.get("accumulate"):
        return False
    along = next(dimension for dimension, size in enumerate(indices.shape) if size > 1)
    dim = named.get("dim")
    return dim is None or indices.dim() < 2 or dim % indices.dim() == along
