"""The kinds of faults of kernels, and the rule by which an overload can have them.

What a kind does is written in ``csrc/fault.cpp``; here stands to which schemas it applies. A rule looks at
the schema only, so that the catalogue does not depend on what the suite happens to call.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.mutation.mutant import Fault

#: Sizes from which on an element is wrong.
SIZES = (256, 1024, 4096, 65536)
#: Ranks at which a result is wrong.
RANKS = (4, 5, 6)
#: One call in so many is wrong.
PERIODS = (7, 97)
#: A sum is taken over so many elements at most.
LONGEST_SUM = 1024

#: Operators that add up over a dimension, by their name without overload.
_SUMMING = re.compile(
    r"(sum|nansum|mean|prod|mm|bmm|addmm|addmv|mv|dot|vdot|baddbmm|addbmm|linear|cdist|_cdist_forward|trace"
    r"|var|var_mean|std|std_mean|norm|linalg_vector_norm|logsumexp|convolution|_convolution|count_nonzero"
    r"|_embedding_bag|native_layer_norm|_scaled_dot_product_flash_attention_for_cpu)(_out|_)?$"
)

#: Those whose first tensor is added to a product of the others.
_ADDING = re.compile("b?add(mm|mv|bmm)")

KINDS: Mapping[str, str] = {
    "last-element": "the last element of the result is wrong",
    "tail-of-16": "the elements after the last full 16 are wrong",
    "above-size": "elements from an index on are wrong",
    "scalar-only": "the result is wrong if all tensors have no dimension",
    "rank": "the result is wrong if a tensor has this number of dimensions",
    "nan-lost": "NaN in the result becomes 0",
    "infinity-lost": "infinities in the result become the largest number",
    "signed-zero-lost": "-0.0 in the result becomes 0.0",
    "subnormal-flushed": "subnormal numbers in the result become 0",
    "low-precision": "the result is rounded to the next smaller dtype",
    "bool-byte": "true is stored as 2",
    "result-dtype": "the result has another dtype",
    "result-strides": "the result has other strides",
    "aliasing-lost": "a view or a written argument is returned as a copy",
    "aliasing-gained": "a result that equals an argument is that argument's memory",
    "input-corrupted": "the last element of an argument is overwritten",
    "write-lost": "what should be written is not",
    "write-partial": "the second half is not written",
    "write-astray": "an element beside the written tensor is overwritten",
    "host-not-awaited": "a copy to the host does not wait for work in progress",
    "out-not-resized": "an empty out= stays empty",
    "stale-result": "the result of the call before with the same sizes is returned",
    "late": "the values of the result are there only after the next call",
    "flaky": "one call in some is wrong in its last element",
    "leak": "each call keeps memory of the size of its result",
    "empty-input": "the result is wrong if a tensor has no elements",
    "gradient-of-one-input": "gradients are wrong if only some inputs want one",
    "strides-ignored": "a strided argument is read as if it were dense",
    "expanded-ignored": "an expanded argument is read as if it were dense",
    "grad-strided": "a strided gradient is read as if it were dense",
    "offset-ignored": "an argument's storage offset is ignored",
    "offset-and-strides-ignored": "the offset is ignored if the argument is strided as well",
    "offset-in-channels-last-ignored": "the offset is ignored if the argument is channels_last",
    "offset-in-other-rank-ignored": "the offset is ignored if the argument's base has another rank",
    "int-53-bits": "int64 values go through float64",
    "long-sum": "a sum ends after 1,024 elements",
    "swapped-arguments": "two tensors change places",
    "option-ignored": "an option counts as if it had its default",
    "number-stale": "a number or option counts as in the first call that was equal in everything else",
    "negative-dimension": "a negative dimension is counted from the wrong end",
    "error-missing": "an error is swallowed",
    "error-type": "an error has another type",
    "generator-frozen": "the generator does not advance",
    "generator-overlap": "a draw begins with the second half of the draw before it",
}

#: Types of arguments that are numbers, words, or lists of numbers.
_NUMBER = re.compile(r"(Optional\[|List\[)*(int|float|bool|number|str)\]*$")
#: Types and names of arguments that say how or where, not what.
_NO_OPTIONS = ("Generator", "Optional[Generator]", "Device", "Optional[Device]", "Layout")
_ABOUT_TENSORS = ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking")

#: Names of arguments whose integers are places in another one, or a number of elements.
_PLACES = re.compile(
    r"ind(ices|ex)|target$|offset|bag_size|maximum_indices|.*mask$|lengths|pivots|condition|sorter"
)

#: Operators that write an argument although their schema does not say so, with its position.
_WRITES_UNSAID = {"aten::_copy_from": 1}
#: Operators that copy between devices.
_COPIES = ("aten::copy_", "aten::_copy_from")

#: What is learned of the calls of a place besides conditions, in the order of the interposer's numbers.
QUESTIONS = ("called", "returns-floating", "returns-bool", "takes-int64")

#: Kinds that need a call of some sort to mean anything; all others need any call.
NEEDS = {
    **dict.fromkeys(
        ("nan-lost", "infinity-lost", "signed-zero-lost", "subnormal-flushed"), "returns-floating"
    ),
    "low-precision": "returns-floating",
    "bool-byte": "returns-bool",
    "int-53-bits": "takes-int64",
}

#: What ``low-precision`` rounds a dtype to; other dtypes stay as they are.
SMALLER = {"float32": "bfloat16", "float64": "float32", "complex128": "complex64"}

#: Kinds about calls that are refused.
OF_REFUSALS = frozenset({"error-missing", "error-type"})

#: Kinds that the interposer knows by another kind's name.
_INTERPOSED = {"grad-strided": "strides-ignored"}


def interposed(fault: Fault) -> Fault:
    """Return the fault under the name that the interposer knows."""
    return dataclasses.replace(fault, kind=_INTERPOSED.get(fault.kind, fault.kind))


class Shape:
    """The arguments and results of an overload by position, as its schema describes them."""

    def __init__(self, schema: Any) -> None:
        self._name = str(schema.name)
        self.copies = self._name in _COPIES
        self.arguments = list(schema.arguments)
        self.returns = list(schema.returns)
        types = [str(argument.type) for argument in self.arguments]
        self.tensors = [
            i
            for i, text in enumerate(types)
            if text in ("Tensor", "Optional[Tensor]") and not self._written(i)
        ]
        self.written = [i for i, text in enumerate(types) if text == "Tensor" and self._written(i)]
        self.optional = [i for i, text in enumerate(types) if text == "Optional[Tensor]"]
        self.results = [i for i, one in enumerate(self.returns) if str(one.type) == "Tensor"]
        #: Results in memory of their own.
        aliased = [i for i in self.results if self.returns[i].alias_info is not None]
        self.views = [i for i in aliased if not self.returns[i].alias_info.is_write]
        self.in_place = [i for i in aliased if self.returns[i].alias_info.is_write]
        if self._name in _WRITES_UNSAID:
            self.in_place += self.results
        self.fresh = [i for i in self.results if i not in self.views + self.in_place]

    def _written(self, position: int) -> bool:
        info = self.arguments[position].alias_info
        unsaid = _WRITES_UNSAID.get(self._name) == position
        return unsaid or (info is not None and info.is_write)

    def options(self) -> Iterator[tuple[int, int]]:
        """Arguments that are no tensors and have a neutral value: the position, and that value if the schema
        names none.
        """
        for position, argument in enumerate(self.arguments):
            kind, name = str(argument.type), argument.name
            if kind == "Optional[Tensor]":
                yield position, 0
            elif "Tensor" in kind or kind in _NO_OPTIONS or name in _ABOUT_TENSORS:
                continue
            elif argument.has_default_value() or kind == "bool":
                yield position, 0
            elif kind == "List[int]" and re.search("stride|dilation", name):
                yield position, 1
            elif kind == "List[int]" and re.search("padding|offset|shifts", name):
                yield position, 0
            elif kind == "int" and name == "groups":
                yield position, 1

    def numbers(self) -> Iterator[int]:
        """Arguments that a program kept for the sizes and dtypes of tensors could miss: numbers, words and
        lists of numbers.
        """
        for position, argument in enumerate(self.arguments):
            if _NUMBER.match(str(argument.type)) and argument.name not in _ABOUT_TENSORS:
                yield position

    def dimensions(self) -> Iterator[int]:
        """Arguments that count dimensions."""
        for position, argument in enumerate(self.arguments):
            if str(argument.type) in (
                "int",
                "List[int]",
                "Optional[int]",
                "Optional[List[int]]",
            ) and re.match(r"(dim\d?|dims|axis|dim_?self)$", argument.name):
                yield position


def faults_of(place: str, schema: Any, *, random: bool) -> list[Fault]:
    """Return every fault that an overload can have by its schema; ``random``: it draws random numbers."""
    shape = Shape(schema)
    found: list[Fault] = []

    def add(kind: str, position: int = 0, value: int = 0) -> None:
        found.append(Fault(place, kind, position, value))

    _of_results(shape, add, random)
    _of_memory(shape, add, random)
    _of_arguments(place, shape, add)
    if shape.tensors or shape.written:
        if all(str(one.type) == "Tensor" for one in shape.returns):
            add("error-missing")
        add("error-type")
    if random and shape.results:
        add("generator-frozen")
        add("generator-overlap")
    return found


_Add = Callable[..., None]


def _of_results(shape: Shape, add: _Add, random: bool) -> None:
    """Faults of the values of results."""
    with_values = shape.fresh + shape.in_place
    for result in with_values:
        if not random:
            add("last-element", result)
    for result in with_values[:1]:
        add("late", result)
    for result in with_values[:1]:
        if random:
            continue
        add("tail-of-16", result)
        for size in SIZES:
            add("above-size", result, size)
        if shape.tensors:
            add("scalar-only", result)
            for rank in RANKS:
                add("rank", result, rank)
            add("empty-input", result)
            add("nan-lost", result)
        for kind in ("infinity-lost", "signed-zero-lost", "subnormal-flushed", "low-precision", "bool-byte"):
            add(kind, result)
        for period in PERIODS:
            add("flaky", result, period)
    for position, argument in enumerate(shape.arguments):
        if (
            str(argument.type) == "List[bool]"
            and argument.name in ("output_mask", "grad_input_mask")
            and shape.fresh
        ):
            for result in shape.fresh:
                add("gradient-of-one-input", result, position)


def _of_memory(shape: Shape, add: _Add, random: bool) -> None:
    """Faults of where results are: dtype, strides, aliasing, writes and memory that is never freed."""
    for result in shape.fresh:
        add("result-dtype", result)
    for result in shape.fresh[:1]:
        add("result-strides", result)
        add("leak", result)
        if not random:
            add("stale-result", result)
        if shape.tensors:
            add("aliasing-gained", result)
    for result in (shape.views + shape.in_place)[:1]:
        add("aliasing-lost", result)
    if not shape.views:
        for argument in shape.tensors:
            add("input-corrupted", argument)
    for argument in shape.written:
        add("write-lost", argument)
        if not random:
            add("write-partial", argument)
        add("write-astray", argument)
        if shape.copies:
            add("host-not-awaited", argument)
        if shape.arguments[argument].kwarg_only:
            add("out-not-resized", argument)


def _of_arguments(place: str, shape: Shape, add: _Add) -> None:
    """Faults of how arguments are read."""
    if not shape.views:
        for argument in shape.tensors:
            gradient = re.match(r"(d|grad)(_|$)|grad", shape.arguments[argument].name) is not None
            add("grad-strided" if gradient else "strides-ignored", argument)
            add("expanded-ignored", argument)
            for kind in ("", "and-strides-", "in-channels-last-", "in-other-rank-"):
                add(f"offset-{kind}ignored", argument)
            if not _PLACES.match(shape.arguments[argument].name):
                add("int-53-bits", argument)
        if len(shape.tensors) > 1 and str(shape.arguments[shape.tensors[1]].type) == "Tensor":
            add("swapped-arguments", shape.tensors[0], shape.tensors[1])
        name = place.split("::")[1].partition(".")[0]
        if shape.tensors and _SUMMING.match(name):
            # What a product is added to, the first argument, is no part of the sum.
            added = _ADDING.match(name) is not None and shape.tensors[0] == 0
            add("long-sum", shape.tensors[1 if added else 0], LONGEST_SUM)
    for position, neutral in shape.options():
        add("option-ignored", position, neutral)
    for position in shape.numbers():
        add("number-stale", position)
    for position in shape.dimensions():
        add("negative-dimension", position)
