"""The mutation operators of kernels, and the rules that select the operators of an overload.

``csrc/mutant.cpp`` implements the operators. A rule depends on the schema only, so the set of mutants does
not depend on the calls of the suite.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.mutation import parameters
from tools.mutation.mutant import Mutant

#: Base names of operators that sum over a dimension.
_SUMMING = re.compile(
    r"(sum|nansum|mean|prod|mm|bmm|addmm|addmv|mv|dot|vdot|baddbmm|addbmm|linear|cdist|_cdist_forward|trace"
    r"|var|var_mean|std|std_mean|norm|linalg_vector_norm|logsumexp|convolution|_convolution|count_nonzero"
    r"|_embedding_bag|native_layer_norm|_scaled_dot_product_flash_attention_for_cpu)(_out|_)?$"
)

#: Matches the operators of ``_SUMMING`` that add the first tensor to a product of the other tensors.
_ADDING = re.compile("b?add(mm|mv|bmm)")

MUTATION_OPERATORS: Mapping[str, str] = {
    "last-element": "the last element of the result is wrong",
    "tail-of-block": "the elements after the last full block are wrong",
    "above-size": "all elements from an index on are wrong",
    "scalar-only": "the result is wrong if all tensors have no dimension",
    "rank": "the result is wrong if a tensor has a given number of dimensions",
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
    "write-lost": "an argument that the call must write is not written",
    "write-partial": "the second half of a written argument is not written",
    "write-astray": "an element next to the written tensor is overwritten",
    "host-not-awaited": "a copy to the host does not wait for work in progress",
    "out-not-resized": "an empty out= tensor is not resized",
    "stale-result": "the result of the previous call with the same sizes is returned",
    "late": "the result has its values only after the next call",
    "flaky": "in one call of several, the last element of the result is wrong",
    "leak": "each call leaks memory of the size of its result",
    "empty-input": "the result is wrong if a tensor has no elements",
    "gradient-of-one-input": "gradients are wrong if only some inputs require a gradient",
    "strides-ignored": "a strided argument is read as if it were dense",
    "expanded-ignored": "an expanded argument is read as if it were dense",
    "grad-strided": "a strided gradient is read as if it were dense",
    "offset-ignored": "an argument's storage offset is ignored",
    "offset-and-strides-ignored": "the offset is ignored if the argument is strided as well",
    "offset-in-channels-last-ignored": "the offset is ignored if the argument is channels_last",
    "offset-in-other-rank-ignored": "the offset is ignored if the argument's base has another rank",
    "int-53-bits": "int64 values go through float64",
    "long-sum": "a sum ends after a number of elements",
    "swapped-arguments": "two tensor arguments are swapped",
    "option-ignored": "an option is treated as if it had its default value",
    "number-stale": "a number or option has the value of the first call whose other arguments were equal",
    "negative-dimension": "a negative dimension is counted from the wrong end",
    "error-missing": "an error is swallowed",
    "error-type": "an error has another type",
    "generator-frozen": "the generator does not advance",
    "generator-overlap": "a random draw begins with the second half of the previous draw",
}

#: Argument types that are numbers, strings or lists of numbers.
_NUMBER = re.compile(r"(Optional\[|List\[)*(int|float|bool|number|str)\]*$")
#: Types (``_NO_OPTIONS``) and names (``_ABOUT_TENSORS``) of arguments that determine how or where a result
#: is created. They do not determine its values.
_NO_OPTIONS = ("Generator", "Optional[Generator]", "Device", "Optional[Device]", "Layout")
_ABOUT_TENSORS = ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking")

#: Names of arguments whose integers are indices into another argument, or numbers of elements.
_INDEX_ARGUMENTS = re.compile(
    r"ind(ices|ex)|target$|offset|bag_size|maximum_indices|.*mask$|lengths|pivots|condition|sorter"
)

#: Overloads that write an argument although their schema does not declare it, with its position.
_UNDECLARED_WRITES = {"aten::_copy_from": 1}
#: Overloads that copy between devices.
_COPIES = ("aten::copy_", "aten::_copy_from")

#: Kinds of calls that the coverage run distinguishes at each point, in the interposer's order.
CALL_KINDS = ("called", "returns-floating", "returns-bool", "takes-int64")

#: Mutation operator -> the kind of call that can trigger its mutants. Any call can trigger the mutants of an
#: operator that is not listed.
REQUIRED_CALL_KIND = {
    **dict.fromkeys(
        ("nan-lost", "infinity-lost", "signed-zero-lost", "subnormal-flushed"), "returns-floating"
    ),
    "low-precision": "returns-floating",
    "bool-byte": "returns-bool",
    "int-53-bits": "takes-int64",
}

#: The dtype to which ``low-precision`` rounds. Other dtypes are unchanged.
NEXT_SMALLER_DTYPE = {"float32": "bfloat16", "float64": "float32", "complex128": "complex64"}

#: Mutation operators that act only in calls that the CPU refuses.
REFUSAL_OPERATORS = frozenset({"error-missing", "error-type"})

#: Mutation operators that the interposer implements under another name: name -> name in the interposer.
_INTERPOSED = {"grad-strided": "strides-ignored"}


def to_interposed_mutant(mutant: Mutant) -> Mutant:
    """Return the mutant with the operator name of the interposer."""
    return dataclasses.replace(mutant, operator=_INTERPOSED.get(mutant.operator, mutant.operator))


class OverloadSchema:
    """The arguments and results of an overload by position, according to its schema."""

    def __init__(self, schema: Any) -> None:
        self._name = str(schema.name)
        self.copies = self._name in _COPIES
        self.arguments = list(schema.arguments)
        self.returns = list(schema.returns)
        types = [str(argument.type) for argument in self.arguments]
        self.tensors = [
            i
            for i, text in enumerate(types)
            if text in ("Tensor", "Optional[Tensor]") and not self._is_written(i)
        ]
        self.written = [i for i, text in enumerate(types) if text == "Tensor" and self._is_written(i)]
        self.optional = [i for i, text in enumerate(types) if text == "Optional[Tensor]"]
        self.results = [i for i, result in enumerate(self.returns) if str(result.type) == "Tensor"]
        #: Results that alias an argument: views and written arguments.
        aliased = [i for i in self.results if self.returns[i].alias_info is not None]
        self.views = [i for i in aliased if not self.returns[i].alias_info.is_write]
        self.in_place = [i for i in aliased if self.returns[i].alias_info.is_write]
        if self._name in _UNDECLARED_WRITES:
            self.in_place += self.results
        #: Results that are new tensors.
        self.new_results = [i for i in self.results if i not in self.views + self.in_place]

    def _is_written(self, position: int) -> bool:
        info = self.arguments[position].alias_info
        undeclared = _UNDECLARED_WRITES.get(self._name) == position
        return undeclared or (info is not None and info.is_write)

    def options(self) -> Iterator[tuple[int, int]]:
        """Yield the position of each option, and the value that replaces the option if it has no default."""
        for position, argument in enumerate(self.arguments):
            type_name, name = str(argument.type), argument.name
            if type_name == "Optional[Tensor]":
                yield position, 0
            elif "Tensor" in type_name or type_name in _NO_OPTIONS or name in _ABOUT_TENSORS:
                continue
            elif argument.has_default_value() or type_name == "bool":
                yield position, 0
            elif type_name == "List[int]" and re.search("stride|dilation", name):
                yield position, 1
            elif type_name == "List[int]" and re.search("padding|offset|shifts", name):
                yield position, 0
            elif type_name == "int" and name == "groups":
                yield position, 1

    def numbers(self) -> Iterator[int]:
        """Yield the positions of arguments that are numbers, strings or lists of numbers. A device whose
        cache key contains only sizes and dtypes ignores changes of these arguments.
        """
        for position, argument in enumerate(self.arguments):
            if _NUMBER.match(str(argument.type)) and argument.name not in _ABOUT_TENSORS:
                yield position

    def dimensions(self) -> Iterator[int]:
        """Yield the positions of arguments that are dimensions."""
        for position, argument in enumerate(self.arguments):
            if str(argument.type) in (
                "int",
                "List[int]",
                "Optional[int]",
                "Optional[List[int]]",
            ) and re.match(r"(dim\d?|dims|axis|dim_?self)$", argument.name):
                yield position


def mutants_of_overload(point: str, schema: Any, *, random: bool) -> list[Mutant]:
    """Return all mutants that an overload can have according to its schema. ``random``: the overload draws
    random numbers.
    """
    overload = OverloadSchema(schema)
    mutants: list[Mutant] = []

    def add(operator: str, position: int = 0, value: int = 0) -> None:
        mutants.append(Mutant(point, operator, position, value))

    _result_mutants(point, overload, add, random)
    _memory_mutants(overload, add, random)
    _argument_mutants(point, overload, add)
    if overload.tensors or overload.written:
        if all(str(result.type) == "Tensor" for result in overload.returns):
            add("error-missing")
        add("error-type")
    if random and overload.results:
        add("generator-frozen")
        add("generator-overlap")
    return mutants


_Add = Callable[..., None]


def _result_mutants(point: str, overload: OverloadSchema, add: _Add, random: bool) -> None:
    """Add the mutants that change the values of results."""

    def add_with_parameters(operator: str, result: int) -> None:
        for value in parameters.draw_parameters(point, operator, result):
            add(operator, result, value)

    with_values = overload.new_results + overload.in_place
    for result in with_values:
        if not random:
            add("last-element", result)
    for result in with_values[:1]:
        add("late", result)
    for result in with_values[:1]:
        if random:
            continue
        for operator in ("tail-of-block", "above-size"):
            add_with_parameters(operator, result)
        if overload.tensors:
            add("scalar-only", result)
            add_with_parameters("rank", result)
            add("empty-input", result)
            add("nan-lost", result)
        for operator in (
            "infinity-lost",
            "signed-zero-lost",
            "subnormal-flushed",
            "low-precision",
            "bool-byte",
        ):
            add(operator, result)
        add_with_parameters("flaky", result)
    for position, argument in enumerate(overload.arguments):
        if (
            str(argument.type) == "List[bool]"
            and argument.name in ("output_mask", "grad_input_mask")
            and overload.new_results
        ):
            for result in overload.new_results:
                add("gradient-of-one-input", result, position)


def _memory_mutants(overload: OverloadSchema, add: _Add, random: bool) -> None:
    """Add the mutants that concern the dtype, strides, aliasing and writes of results, and leaked memory."""
    for result in overload.new_results:
        add("result-dtype", result)
    for result in overload.new_results[:1]:
        add("result-strides", result)
        add("leak", result)
        if not random:
            add("stale-result", result)
        if overload.tensors:
            add("aliasing-gained", result)
    for result in (overload.views + overload.in_place)[:1]:
        add("aliasing-lost", result)
    if not overload.views:
        for argument in overload.tensors:
            add("input-corrupted", argument)
    for argument in overload.written:
        add("write-lost", argument)
        if not random:
            add("write-partial", argument)
        add("write-astray", argument)
        if overload.copies:
            add("host-not-awaited", argument)
        if overload.arguments[argument].kwarg_only:
            add("out-not-resized", argument)


def _argument_mutants(point: str, overload: OverloadSchema, add: _Add) -> None:
    """Add the mutants that change how the kernel reads arguments."""
    if not overload.views:
        for argument in overload.tensors:
            gradient = re.match(r"(d|grad)(_|$)|grad", overload.arguments[argument].name) is not None
            add("grad-strided" if gradient else "strides-ignored", argument)
            add("expanded-ignored", argument)
            for operator in ("", "and-strides-", "in-channels-last-", "in-other-rank-"):
                add(f"offset-{operator}ignored", argument)
            if not _INDEX_ARGUMENTS.match(overload.arguments[argument].name):
                add("int-53-bits", argument)
        if len(overload.tensors) > 1 and str(overload.arguments[overload.tensors[1]].type) == "Tensor":
            add("swapped-arguments", overload.tensors[0], overload.tensors[1])
        name = point.split("::")[1].partition(".")[0]
        if overload.tensors and _SUMMING.match(name):
            # The long sum runs over the factors of a product. If the first tensor is only added to the
            # product, as in addmm, the mutant changes the second tensor.
            added = _ADDING.match(name) is not None and overload.tensors[0] == 0
            position = overload.tensors[1 if added else 0]
            for length in parameters.draw_parameters(point, "long-sum", position):
                add("long-sum", position, length)
    for position, neutral in overload.options():
        add("option-ignored", position, neutral)
    for position in overload.numbers():
        add("number-stale", position)
    for position in overload.dimensions():
        add("negative-dimension", position)
