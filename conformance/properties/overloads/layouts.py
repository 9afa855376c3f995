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
from conformance.properties.overloads._call_forms import (
    FUNCTION,
    IN_PLACE,
    ArgumentLayout,
    check_call,
    forms_of,
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
from conformance.properties.overloads._references import OverloadReference, dtypes, is_unchecked, references
from conformance.properties.shared.memory_layouts import (
    LAYOUTS,
    Layout,
    alike,
    at_offset,
    channels_last_at_offset,
    expanded,
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

    def wants(self, combination: Combination, reference: OverloadReference) -> bool:
        """Return whether to hold a combination in a call."""
        named = _named_as(combination, reference)
        if named in self._shown:
            return False
        return named not in self._held or self._shows(combination, reference)

    def add(self, combination: Combination, reference: OverloadReference) -> None:
        """Note that a combination was held in a call."""
        named = _named_as(combination, reference)
        self._held.add(named)
        if self._shows(combination, reference):
            self._shown.add(named)

    @staticmethod
    def _shows(combination: Combination, reference: OverloadReference) -> bool:
        place = combination[2]
        return place is None or values_affect_result(reference, place)


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


def _named_as(combination: Combination, reference: OverloadReference) -> tuple[str, str, str]:
    form, word, place = combination
    return form, word, "" if place is None else argument_at(reference, place)


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
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.idle("no tensor of the calls can have another layout")
        if subject.name in UNSAFE_STRIDES:
            for place, form in itertools.product(
                range(len(reference.sample.tensors())), forms_of(target, reference)
            ):
                check_call(
                    target, recorder, reference, form, ArgumentLayout(at_offset, "a storage offset", place)
                )
            continue
        _in_every_layout(target, recorder, reference, tried)
        for values, telling in _telling(reference):
            _in_every_layout(target, recorder, telling, told.setdefault(values, LayoutCoverage()))
            _with_one_row_expanded(target, recorder, telling, told[values])
            _in_four_dimensions(target, recorder, telling, deep)
        _in_four_dimensions(target, recorder, reference, tried)
        _with_one_row_expanded(target, recorder, reference, tried)


def _in_every_layout(
    target: Target, recorder: Recorder, reference: OverloadReference, tried: LayoutCoverage
) -> None:
    tensors = reference.sample.tensors()[:_TENSORS]
    fitting = {word: _fitting(layout, tensors) for word, layout in LAYOUTS.items()}
    written = {word: _fitting(layout, trees.tensors(reference.returned)) for word, layout in LAYOUTS.items()}
    for form in forms_of(target, reference):
        for word, layout in LAYOUTS.items():
            for place in fitting[word]:
                if not tried.wants((form, word, place), reference):
                    continue
                if check_call(target, recorder, reference, form, ArgumentLayout(layout, word, place)):
                    tried.add((form, word, place), reference)
            if form == FUNCTION or not written[word] or not tried.wants((form, word, None), reference):
                continue
            if check_call(target, recorder, reference, form, into=layout):
                tried.add((form, word, None), reference)


def _fitting(layout: Layout, tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the places of the tensors that can have a layout."""
    return [place for place, one in enumerate(tensors) if layout(torch.empty_like(one)) is not None]


def _with_one_row_expanded(
    target: Target, recorder: Recorder, reference: OverloadReference, tried: LayoutCoverage
) -> None:
    forms = list(forms_of(target, reference))
    for place in range(min(len(reference.sample.tensors()), _TENSORS)):
        if place in reference.written:
            continue  # what a call leaves in an element that it writes many times depends on their order
        left = [
            form
            for form in forms
            if (form, place) != (IN_PLACE, 0) and tried.wants((form, "expanded", place), reference)
        ]
        repeated = rows_alike(reference, place) if left else None
        if repeated is None:
            continue
        for form in forms_of(target, repeated):
            if (form, place) == (IN_PLACE, 0) or not tried.wants((form, "expanded", place), repeated):
                continue
            if check_call(
                target, recorder, repeated, form, ArgumentLayout(expanded, "one row expanded", place)
            ):
                tried.add((form, "expanded", place), repeated)


def _telling(reference: OverloadReference) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the answers of a function that says yes or no to values of which it says both, by the values.

    Among them are those around the numbers that it compares with.

    Of random numbers all are finite, and no two are equal: whatever is read in their place gives the same.
    """
    results = trees.tensors(reference.outputs)
    if not results or any(t.dtype != torch.bool for t in results) or is_unchecked(reference.subject):
        return
    first = reference.sample.tensors()[0]
    given = (reference.sample.input, *reference.sample.args, *reference.sample.kwargs.values())
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

        changed = reference_of_modified_call(reference, mapped(reference.sample, of_values))
        if changed is not None:
            yield str(values), changed


def _in_four_dimensions(
    target: Target, recorder: Recorder, reference: OverloadReference, tried: LayoutCoverage
) -> None:
    """Try channels_last on a call that has no tensor of four dimensions."""
    if is_unchecked(reference.subject) or any(tensor.dim() == 4 for tensor in reference.sample.tensors()):
        return
    deeper = in_dimensions(reference, 4)
    if deeper is None:
        return
    for form in forms_of(target, deeper):
        for place, tensor in enumerate(deeper.sample.tensors()[:_TENSORS]):
            if tensor.dim() != 4 or not tried.wants((form, _CHANNELS_LAST, place), deeper):
                continue
            if check_call(
                target, recorder, deeper, form, ArgumentLayout(channels_last_at_offset, _CHANNELS_LAST, place)
            ):
                tried.add((form, _CHANNELS_LAST, place), deeper)


def rows_alike(reference: OverloadReference, place: int) -> OverloadReference | None:
    """Return the same call with all rows of one tensor equal to its first; None if the CPU raises for it."""
    tensor = reference.sample.tensors()[place]
    counts = not (tensor.is_floating_point() or tensor.is_complex())
    factors = reference.rule.name == "factorisation"
    if factors and counts and tensor.dim() < 2:
        return None  # a pivot may stand for two rows, and the last one has none beside it
    if factors and not counts:  # equal rows make a matrix singular; equal matrices do not
        batched = None if is_unchecked(reference.subject) else in_dimensions(reference, 3)
        if batched is None or batched.sample.tensors()[place].dim() < 3:
            return None
        reference = batched
        tensor = reference.sample.tensors()[place]
    repeated = alike(tensor)
    if repeated is None:
        return None
    if counts and place > 0:
        segments = (
            "segment_reduce" in reference.subject.name and tensor.dim() > 1
        )  # those of rows, all the same
        may_be_alike = segments or _MAY_BE_ALIKE.match(reference.subject.name) is not None
        if is_unchecked(reference.subject) and not may_be_alike:
            return None  # lengths and offsets that fit no longer
        named = _named(reference)
        if named.get("include_last_offset") and named.get("offsets") is tensor:
            return None  # the last one is the number of indices
        if _write_to_one_place(reference, tensor):
            return None  # in an order that is free
    return reference_of_modified_call(reference, with_tensor(reference.sample, place, repeated))


def _named(reference: OverloadReference) -> dict[str, Any]:
    return {argument.name: value for argument, value in arguments(reference)}


def _write_to_one_place(reference: OverloadReference, indices: torch.Tensor) -> bool:
    """Return whether a call writes different values to one place if all rows of an argument are alike."""
    name = reference.subject.name
    if not _WRITES_PLACES.match(base_name(name)) or _IN_ANY_ORDER.match(name):
        return False
    named = _named(reference)
    if not any(one is indices for key in ("index", "indices") for one in trees.tensors(named.get(key))):
        return False
    if named.get("accumulate"):
        return False
    along = next(dimension for dimension, size in enumerate(indices.shape) if size > 1)
    dim = named.get("dim")
    return dim is None or indices.dim() < 2 or dim % indices.dim() == along
