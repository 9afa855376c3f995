"""Rules that exclude equivalent mutants from the score, each with its reason.

A rule depends on schemas, on documentation, or on the CPU's results for the calls of a point. It never names
a single mutant.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.compare import same_bits
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.oracle import relations
from conformance.oracle.reference import CallForm
from conformance.properties.overloads import errors, layouts, shapes, special_values
from conformance.properties.overloads._call_forms import (
    ArgumentLayout,
    check_call,
    cpu_accepts_form,
    forms_of,
)
from conformance.properties.overloads._calls_of_unchecked_overloads import calls_of_callers
from conformance.properties.overloads._modified_calls import (
    arguments_with_values,
    bits_differ,
    index_of_tensor,
    reference_of_modified_call,
    reference_of_rank,
    values_affect_result,
    with_argument,
    with_mapped_tensors,
    with_tensor,
)
from conformance.properties.overloads._one_argument_pairs import (
    DETERMINED_BY_TENSORS,
    neighbouring_numbers,
    pairs_of_callers,
    results_differ,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    fixes_signs_of_zeros,
    is_unchecked,
    overload_reference,
)
from conformance.properties.overloads._result_strides import required_strides
from conformance.properties.overloads.forms import requires_nonnegative_dims
from conformance.properties.overloads.options import VALUE_NEUTRAL_OPTIONS, calls_with_other_values
from conformance.properties.shared.memory_layouts import LAYOUTS, expanded
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample, bytes_of_storage, dtype_name, dtype_of
from conformance.samples.recorded_calls import calls_of
from conformance.subjects import overloads, torch_databases
from conformance.subjects.torch_databases import Subject, find
from conformance.target import file as target_file
from tools.mutation import operators, points
from tools.mutation.campaign import Fate
from tools.mutation.mutant import Mutant

#: Mutation operators that change values of a result. Their mutants are equivalent if the values of the result
#: are unspecified.
VALUE_OPERATORS = frozenset(
    {
        *("last-element", "tail-of-16", "above-size", "scalar-only", "rank", "nan-lost", "infinity-lost"),
        *("signed-zero-lost", "subnormal-flushed", "low-precision", "bool-byte", "stale-result", "flaky"),
        *("empty-input",),
    }
)
#: Mutation operators that have an effect only if the mutated result has several elements.
SEVERAL_ELEMENT_OPERATORS = frozenset(
    {"last-element", "tail-of-16", "above-size", "result-strides", "write-partial"}
)
#: Mutation operators that have an effect only if the call writes elements of the mutated argument.
WRITE_OPERATORS = frozenset({"write-lost", "write-partial", "write-astray", "out-not-resized"})
#: Mutation operators that have an effect only if the mutated argument has several elements.
LAYOUT_OPERATORS = frozenset(
    {"strides-ignored", "expanded-ignored", "grad-strided", "offset-and-strides-ignored"}
)
#: Mutation operators that pass a different value of an option to the kernel.
OPTION_OPERATORS = frozenset({"option-ignored", "number-stale"})
#: Mutation operators that pass different values of a tensor argument to the kernel.
ARGUMENT_OPERATORS = LAYOUT_OPERATORS | {
    *("offset-ignored", "offset-in-channels-last-ignored", "offset-in-other-rank-ignored"),
}
#: By mutation operator: the memory layouts of the argument that reveal its mutants. A layout is a key of
#: ``LAYOUTS``, or ``expanded``.
_LAYOUTS_BY_OPERATOR: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("strides-ignored", "grad-strided"),
        ("gaps", "gaps and an offset", "transposed memory at an offset", "channels_last at an offset"),
    ),
    "offset-and-strides-ignored": (
        *("gaps and an offset", "transposed memory at an offset", "channels_last at an offset"),
    ),
    "offset-in-channels-last-ignored": ("channels_last at an offset",),
    "expanded-ignored": ("expanded",),
}
#: Torch operators whose documented formula is symmetric in the first two tensors.
_SYMMETRIC = re.compile(
    r"(add|mul|multiply|eq|ne|not_equal|maximum|minimum|fmax|fmin|gcd|lcm|hypot|logaddexp2?|logical_(and|or|xor)"
    r"|bitwise_(and|or|xor)|mse_loss|smooth_l1_loss|huber_loss|dot|equal|clamp_(max|min))$"
)
#: Torch operators whose documented formula is symmetric in the second and third tensor. Their in-place form
#: writes the first tensor.
_SYMMETRIC_AFTER_FIRST = re.compile("addcmul$")
#: Names of arguments that only specify sizes.
_SIZE_ARGUMENTS = frozenset({"size", "n", "m", "window_length"})
#: The maximal number of calls of a point that are examined.
_MAX_CALLS = 6
#: The dtypes in which calls are examined if the mutant is not confined to one dtype.
_DEFAULT_DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")


def equivalence_reason(mutant: Mutant, fate: str, calls: Mapping[tuple[str, str], Set[str]]) -> str | None:
    """Return why a mutant that was not killed is equivalent, or None if it is not.

    ``calls`` holds, for each (point, question of :data:`tools.mutation.operators.QUESTIONS`), the dtypes for
    which the answer is yes.
    """
    base = base_name(mutant.point)
    if mutant.operator in VALUE_OPERATORS and relations.is_uninitialised(base.rstrip("_")):
        return "the values of the result are unspecified"
    moves_values = special_values.moves_values(mutant.point) or fixes_signs_of_zeros(base.rstrip("_"))
    if mutant.operator == "signed-zero-lost" and not moves_values:
        return "no document specifies the sign of a computed zero"
    if mutant.operator == "subnormal-flushed" and not special_values.keeps_small_numbers(mutant.point):
        return (
            "no document specifies subnormal results of functions other than arithmetic, exp, "
            "moves and choices"
        )
    if mutant.operator == "stale-result" and _takes_sizes_only(mutant.point):
        return "all results of one size are equal"
    symmetric = _SYMMETRIC if mutant.position == 0 else _SYMMETRIC_AFTER_FIRST
    if mutant.operator == "swapped-arguments" and symmetric.match(base.rstrip("_")):
        return "torch documents the operator as symmetric in the two tensors"
    subject = subject_of(mutant.point)
    if (
        subject is not None
        and mutant.operator in operators.REFUSAL_OPERATORS
        and not _cpu_refuses_some_call(subject, mutant.point)
    ):
        return "the CPU accepts every wrong call that the suite can make, and no document requires a refusal"
    if (
        subject is not None
        and mutant.dtype is not None
        and _is_unsupported_dtype_on_cpu(subject, mutant.dtype)
    ):
        return "the CPU accepts no call in that dtype, and no document requires the dtype"
    if (
        mutant.operator == "result-strides"
        and subject is not None
        and not _mutated_result_has_required_strides(mutant, subject)
    ):
        return "no Meta kernel agrees with the CPU on the strides in any call that the suite can make"
    if (
        subject is not None
        and mutant.operator in OPTION_OPERATORS
        and _option_changes_no_value(mutant, subject)
    ):
        return "torch documents that the option changes no value"
    if (
        subject is not None
        and mutant.operator in _LAYOUTS_BY_OPERATOR
        and not _cpu_passes_layout_check(mutant, subject)
    ):
        return "torch's own kernel gives different results for such a layout of the argument in every call"
    if (
        subject is not None
        and mutant.operator == "empty-input"
        and _is_unwritten_for_empty_input(mutant, subject)
    ):
        return (
            "torch's own kernel leaves the result for empty input unwritten in every call "
            "that the suite can make"
        )
    if subject is not None and mutant.dtype is not None and _is_dtype_of_no_caller(subject, mutant.dtype):
        return "torch's database lists that dtype for no operator that calls the point"
    if fate != Fate.ASLEEP.value:
        return None
    required_call = operators.REQUIRED_CALLS.get(mutant.operator)
    if (
        required_call is not None
        and (mutant.point, "called") in calls
        and (mutant.point, required_call) not in calls
    ):
        return f"the operator needs a point that is called and {required_call.replace('-', ' ')}"
    if subject is None:
        return None
    if mutant.operator == "empty-input" and subject.info.pointwise:
        return "the result for empty input has no elements"
    if not _examined_references(subject, mutant.dtype):
        return None  # the suite has no call in that dtype, so the rules below do not apply
    if mutant.operator == "negative-dimension" and requires_nonnegative_dims(subject.name):
        return "only operators may call the overload, and they pass no negative dimension"
    if mutant.operator == "option-ignored" and _other_values_not_implemented(mutant, subject):
        return "the CPU reports every other value of the option as not implemented"
    if mutant.operator == "number-stale" and not _argument_alone_changes_result(mutant, subject):
        return (
            "no two calls that the suite can make differ only in this argument and have different CPU results"
        )
    if mutant.operator == "rank" and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_cpu_accepts_rank, mutant.value)
    ):
        return f"the CPU accepts no tensor of {mutant.value} dimensions in any call that the suite can make"
    if mutant.operator == "scalar-only" and not _is_true_for_any_reference(
        subject, mutant.dtype, _cpu_accepts_scalars_only
    ):
        return "the CPU accepts no call with scalar tensors only that the suite can make"
    if mutant.operator == "empty-input" and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_cpu_returns_elements_for_empty_input, mutant)
    ):
        return "the CPU accepts no empty tensor in any call that the suite can make, or returns no elements"
    if mutant.operator == "int-53-bits" and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_has_int64_argument_and_integer_result, mutant)
    ):
        return "no call that the suite can make has an int64 mutated argument and an integer result"
    if mutant.operator in LAYOUT_OPERATORS and subject.name in layouts.UNSAFE_STRIDES:
        return "torch's own kernel reads beyond the memory of strided arguments, and its callers pass none"
    if mutant.operator in ARGUMENT_OPERATORS and _is_unsupported_argument(mutant, subject):
        return "the CPU reports the mutated argument as not supported"
    if mutant.operator in LAYOUT_OPERATORS and not _any_call_with_argument(
        mutant, subject, _cpu_accepts_several_elements
    ):
        return "every tensor that the CPU accepts as the mutated argument has one element"
    if mutant.operator == "int-53-bits" and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_rounding_changes_result, mutant)
    ):
        return "the CPU returns the same for rounded integers in every call that the suite can make"
    if mutant.operator in ARGUMENT_OPERATORS and not _argument_affects_result(mutant, subject):
        return "the CPU's results do not depend on the values of the mutated argument in any call"
    if mutant.operator == "swapped-arguments" and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_cpu_accepts_swapped_arguments, mutant)
    ):
        return (
            "the CPU refuses the two tensors exchanged, or gives the same result, in every "
            "call that the suite can make"
        )
    if mutant.operator == "low-precision" and not any(
        map(_is_inexact_in_smaller_dtype, _mutated_results(mutant, subject))
    ):
        return "the CPU's results are exact in the next smaller dtype in every call that the suite can make"
    if mutant.operator in WRITE_OPERATORS and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_changes_written_argument, mutant)
    ):
        return "the CPU changes no element of the mutated argument in any call that the suite can make"
    if mutant.operator in SEVERAL_ELEMENT_OPERATORS and not _is_true_for_any_reference(
        subject, mutant.dtype, functools.partial(_mutated_result_has_several_elements, mutant)
    ):
        return "the mutated result has one element in every call that the suite can make"
    if mutant.operator == "offset-in-channels-last-ignored" and not _any_call_with_argument(
        mutant, subject, _cpu_accepts_four_or_five_dimensions
    ):
        return "the CPU accepts no mutated argument of 4 or 5 dimensions in any call that the suite can make"
    if mutant.operator == "aliasing-gained" and not any(
        _returns_argument(mutant, modified)
        for modified in _references_with_special_values(subject, mutant.dtype)
    ):
        return "the CPU returns no argument's values for any special value in any argument"
    if mutant.operator in _SPECIAL_VALUE_TESTS and not _cpu_returns_special_value(mutant, subject):
        return "no result of the CPU contains a value that the operator changes, for any special value"
    return None


def _takes_sizes_only(point: str) -> bool:
    """Return whether all positional arguments of an overload are sizes."""
    positional = [argument for argument in points.schema_of(point).arguments if not argument.kwarg_only]
    return all(argument.name in _SIZE_ARGUMENTS for argument in positional)


@functools.cache
def subject_of(point: str) -> Subject | None:
    """Return the overload subject of which the point is a form, or None if there is none."""
    namespace, _, name = point.partition("::")
    bare, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), bare, None) if "::" not in name else None
    op = getattr(packet, overload or "default", None)
    if op is None:
        return None  # not a kernel of the device
    for overload_name in (
        overloads.name_without_namespace(overloads.function_of(op)),
        overloads.name_without_namespace(op),
    ):
        if overload_name in overloads.overload_table():
            with contextlib.suppress(
                LookupError
            ):  # the operators that call the overload exist only in a newer torch
                return find("overload", overload_name)
    return None


@functools.cache
def _examined_references(subject: Subject, dtype: str | None) -> tuple[OverloadReference, ...]:
    """Return the references of the first calls of an overload, in one dtype or in the default dtypes."""
    usual_dtypes = [name for name in _DEFAULT_DTYPES if name in subject.info.dtypes] or subject.info.dtypes[
        : len(_DEFAULT_DTYPES)
    ]
    names = usual_dtypes if dtype is None else [dtype]
    references = []
    for name in names:
        samples = calls_of(subject, name)
        for index in range(min(samples.available, _MAX_CALLS)):
            reference = overload_reference(subject, name, samples[index])
            if reference is not None:
                references.append(reference)
    return tuple(references)


def _is_true_for_any_reference(
    subject: Subject, dtype: str | None, predicate: Callable[[OverloadReference], bool]
) -> bool:
    return any(predicate(reference) for reference in _examined_references(subject, dtype))


def _cpu_accepts_rank(rank: int, reference: OverloadReference) -> bool:
    if any(t.dim() == rank for t in reference.sample.tensors()):
        return True
    if is_unchecked(reference.subject):
        return False
    deeper = reference_of_rank(reference, rank)
    return deeper is not None and any(t.dim() == rank for t in deeper.sample.tensors())


@functools.cache
def _is_unsupported_dtype_on_cpu(subject: Subject, dtype: str) -> bool:
    """Return whether the CPU refuses every call of the subject after a conversion of its tensors to
    ``dtype``.
    """
    if _examined_references(subject, dtype):
        return False
    was_tried = False
    for reference in _examined_references(subject, None):
        indices = [
            value
            for argument, value in arguments_with_values(reference)
            if argument.name in ("index", "indices")
        ]
        index_ids = {id(tensor) for tensor in trees.tensors(indices)}

        def convert_values(
            tensor: torch.Tensor, old: torch.dtype = reference.dtype, index_ids: Set[int] = index_ids
        ) -> Any:
            return (
                tensor.to(dtype_of(dtype)) if tensor.dtype == old and id(tensor) not in index_ids else tensor
            )

        if not all(t.numel() for t in reference.sample.tensors()):
            continue  # the CPU accepts any dtype for empty tensors
        if (
            overload_reference(subject, dtype, with_mapped_tensors(reference.sample, convert_values))
            is not None
        ):
            return False
        was_tried = True
    return was_tried


def _is_dtype_of_no_caller(subject: Subject, dtype: str) -> bool:
    """Return whether torch's database lists the dtype for no operator that calls the subject."""
    if dtype in subject.info.dtypes:
        return False
    callers = {*subject.info.operators, *_operators_of_the_same_name(subject)}
    return all(
        dtype_of(dtype) not in torch_testing_internals.listed_dtypes(find("operator", name).info)
        for name in callers
    )


def _operators_of_the_same_name(subject: Subject) -> Iterator[str]:
    """Yield the operators of torch's database with the overload's name, in any namespace."""
    base = base_name(subject.name)
    for operator in torch_databases.subjects("operator"):
        if operator.name.rpartition(".")[2] == base or getattr(operator.info, "aten_name", None) == base:
            yield operator.name


def _mutated_result_has_required_strides(mutant: Mutant, subject: Subject) -> bool:
    """Return whether the strides of the mutated result are documented for any call of the subject."""
    unchecked = is_unchecked(subject)
    references = _examined_references(subject, mutant.dtype)
    for reference in references:
        deeper = None if unchecked else reference_of_rank(reference, 4)
        for candidate in (reference, deeper):
            expected_strides = [] if candidate is None else required_strides(candidate)
            if mutant.position < len(expected_strides) and len(expected_strides[mutant.position] or ()) > 1:
                return True
    return not references  # without a call the rule does not apply


def _mutated_argument(mutant: Mutant, reference: OverloadReference) -> torch.Tensor | None:
    """Return the tensor argument at the mutant's position, or None."""
    arguments = [reference.sample.input, *reference.sample.args]
    if mutant.position < len(arguments):
        argument = arguments[mutant.position]
    else:
        argument = reference.sample.kwargs.get(reference.overload.op._schema.arguments[mutant.position].name)
    return argument if isinstance(argument, torch.Tensor) else None


def _any_call_with_argument(
    mutant: Mutant, subject: Subject, predicate: Callable[[Mutant, OverloadReference, torch.Tensor], bool]
) -> bool:
    """Return True if the predicate is true for the mutated argument of any call, or if no call has the
    argument.
    """
    references = _examined_references(subject, mutant.dtype)
    with_argument = [
        (reference, argument)
        for reference in references
        if (argument := _mutated_argument(mutant, reference)) is not None
    ]
    return not with_argument or any(
        predicate(mutant, reference, argument) for reference, argument in with_argument
    )


def _has_int64_argument_and_integer_result(mutant: Mutant, reference: OverloadReference) -> bool:
    argument = _mutated_argument(mutant, reference)
    if argument is None or argument.dtype != torch.int64:
        return False
    return any(not (t.is_floating_point() or t.is_complex()) for t in trees.tensors(reference.outputs))


def _cpu_accepts_several_elements(
    mutant: Mutant, reference: OverloadReference, argument: torch.Tensor
) -> bool:
    if argument.numel() > 1 or is_unchecked(reference.subject):
        return argument.numel() > 1
    tensor_index = index_of_tensor(reference, argument)
    several = (argument.detach().reshape(-1)[:1].expand(size) for size in ((2,), (2, 2)) if argument.numel())
    return any(
        reference_of_modified_call(
            reference, with_tensor(reference.sample, tensor_index, several_elements.clone())
        )
        is not None
        for several_elements in several
    )


def _rounding_changes_result(mutant: Mutant, reference: OverloadReference) -> bool:
    """Return whether rounding the argument's integers to float64 changes a result."""
    argument = _mutated_argument(mutant, reference)
    if argument is None or argument.dtype != torch.int64:
        return argument is None
    tensor_index = index_of_tensor(reference, argument)
    if is_unchecked(reference.subject):
        return True  # other integers could be undefined
    for wide_call in special_values.wide_integers(reference, tensor_index):
        exact_reference = reference_of_modified_call(reference, wide_call)
        rounded_reference = reference_of_modified_call(
            reference,
            with_mapped_tensors(wide_call, lambda t: t.double().long() if t.dtype == torch.int64 else t),
        )
        if (
            exact_reference is not None
            and rounded_reference is not None
            and bits_differ(exact_reference, rounded_reference)
        ):
            return True
    return False


def _argument_affects_result(mutant: Mutant, subject: Subject) -> bool:
    """Return True if the values of the mutated argument affect the result of any call, or if no call has the
    argument.
    """
    references = _examined_references(subject, mutant.dtype)
    with_argument = [
        (reference, argument)
        for reference in references
        if (argument := _mutated_argument(mutant, reference)) is not None
    ]
    return any(
        values_affect_result(reference, index_of_tensor(reference, argument))
        for reference, argument in with_argument
    ) or (bool(references) and not with_argument)


def _cpu_accepts_swapped_arguments(mutant: Mutant, reference: OverloadReference) -> bool:
    arguments = [reference.sample.input, *reference.sample.args]
    if max(mutant.position, mutant.value) >= len(arguments):
        return True  # passed by keyword
    first, second = arguments[mutant.position], arguments[mutant.value]
    if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return False
    if first.dtype != second.dtype:
        return False
    if first.shape == second.shape and bytes_of_storage(first) != bytes_of_storage(second):
        return True
    if is_unchecked(reference.subject):
        return False
    arguments[mutant.position], arguments[mutant.value] = second, first
    return (
        reference_of_modified_call(
            reference, reference.sample.replace(input=arguments[0], args=tuple(arguments[1:]))
        )
        is not None
    )


def _is_inexact_in_smaller_dtype(result: torch.Tensor) -> bool:
    smaller_dtype = operators.NEXT_SMALLER_DTYPE.get(str(result.dtype).removeprefix("torch."))
    return smaller_dtype is not None and bytes_of_storage(
        result.to(getattr(torch, smaller_dtype)).to(result.dtype)
    ) != bytes_of_storage(result)


def _cpu_returns_elements_for_empty_input(mutant: Mutant, reference: OverloadReference) -> bool:
    if is_unchecked(reference.subject) and not _caller_references_with_empty_tensor(
        reference.subject, dtype_name(reference.dtype)
    ):
        return any(count != 0 for count in _result_sizes_on_meta(mutant, reference))
    form = _call_form_of_point(reference.subject, mutant.point)
    return any(
        _result_has_elements(mutant, changed) and cpu_accepts_form(changed, form)
        for changed in _references_with_empty_input(reference)
    )


def _references_with_empty_input(reference: OverloadReference) -> Sequence[OverloadReference]:
    if is_unchecked(reference.subject):
        return _caller_references_with_empty_tensor(reference.subject, dtype_name(reference.dtype))
    empty_references = shapes.with_empty_tensors(reference)
    return [
        reference
        for reference in empty_references
        if any(tensor.numel() == 0 for tensor in reference.sample.tensors())
    ]


def _is_unwritten_for_empty_input(mutant: Mutant, subject: Subject) -> bool:
    """Return whether the CPU returns unwritten memory for empty input in every call."""
    empty_references = [
        empty_reference
        for reference in _examined_references(subject, mutant.dtype)
        for empty_reference in _references_with_empty_input(reference)
    ]
    with_elements = [
        empty_reference
        for empty_reference in empty_references
        if _result_has_elements(mutant, empty_reference)
    ]
    return bool(with_elements) and not any(
        empty_reference.is_reproducible(mutant.position) for empty_reference in with_elements
    )


def _result_sizes_on_meta(mutant: Mutant, reference: OverloadReference) -> Iterator[int | None]:
    """Yield the number of elements of the mutated result for calls with an empty tensor, or None if unknown.

    Torch's Meta kernel computes the number. An unchecked overload cannot be called on the CPU with such
    arguments, because the call may terminate the process. A Meta kernel reads no memory.
    """
    for sample in _with_empty_dimension(reference.sample):
        if reference.overload.op._schema.name.endswith("_"):
            yield 0  # an in-place overload returns the first tensor
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(str(reference.overload.op.name()), "Meta"):
            yield None
            continue
        meta = with_mapped_tensors(
            sample, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        )
        outcome = attempt(functools.partial(meta.call, reference.overload.op))
        if outcome.ok:
            results = trees.tensors(outcome.value)
            yield results[mutant.position].numel() if mutant.position < len(results) else None
        elif isinstance(outcome.error, NotImplementedError) or "meta" in str(outcome.error).lower():
            yield None  # the Meta kernel needs values


def _with_empty_dimension(sample: Sample) -> Iterator[Sample]:
    """Yield copies of a call in which one dimension of some tensors has size 0.

    The changed tensors are all tensors, the tensors with the shape of the first tensor, or only the first
    tensor.
    """
    tensors = sample.tensors()
    scopes = [tensors, [t for t in tensors if t.shape == tensors[0].shape], tensors[:1]]
    for scope, dimension in itertools.product(scopes, (0, 1, -1)):
        chosen = {id(t) for t in scope if t.dim() > max(dimension, 0)}
        if id(tensors[0]) in chosen:
            yield with_mapped_tensors(sample, lambda t: t.narrow(dimension, 0, 0) if id(t) in chosen else t)  # noqa: B023


@functools.cache
def _caller_references_with_empty_tensor(subject: Subject, dtype: str) -> Sequence[OverloadReference]:
    """Operators of torch's database call the unchecked overload with an empty tensor. Return the references
    of these calls.
    """
    references = (
        overload_reference(subject, dtype, call) for call in calls_of_callers(subject, dtype).chosen(None)
    )
    return [
        reference
        for reference in references
        if reference and any(t.numel() == 0 for t in reference.sample.tensors())
    ]


def _result_has_elements(mutant: Mutant, reference: OverloadReference) -> bool:
    """Return whether the mutated result has elements."""
    results = trees.tensors(reference.outputs)
    return mutant.position >= len(results) or results[mutant.position].numel() > 0


def _mutated_result_has_several_elements(mutant: Mutant, reference: OverloadReference) -> bool:
    result = (
        _written_result(mutant, reference)
        if mutant.operator in WRITE_OPERATORS
        else _mutated_result(mutant, reference)
    )
    if result is not None and result.numel() == 1 and is_unchecked(reference.subject):
        return False
    return result is None or result.dim() > (1 if mutant.operator == "result-strides" else 0)


def _mutated_result(mutant: Mutant, reference: OverloadReference) -> torch.Tensor | None:
    results = trees.tensors(reference.outputs)
    return results[mutant.position] if mutant.position < len(results) else None


def _written_result(mutant: Mutant, reference: OverloadReference) -> torch.Tensor | None:
    """Return the result that an ``out=`` form writes to the argument at the mutant's position, or None for
    other forms.
    """
    overload: overloads.Overload = reference.subject.info
    if _call_form_of_point(reference.subject, mutant.point) != CallForm.OUT:
        return None
    written = overload.out._schema.arguments[mutant.position].name
    results = trees.tensors(reference.returned)
    if written not in overload.outs or len(results) != len(overload.outs):
        return None
    return results[list(overload.outs).index(written)]


def _changes_written_argument(mutant: Mutant, reference: OverloadReference) -> bool:
    """Return whether the call of the reference changes the mutated argument. Return True if the reference
    does not show it.
    """
    result = _written_result(mutant, reference)
    if result is not None:
        return result.numel() > 0
    if (
        mutant.position
        or mutant.operator == "write-astray"
        or _call_form_of_point(reference.subject, mutant.point) != CallForm.IN_PLACE
    ):
        return True
    in_place_reference, input_argument = reference.in_place, reference.sample.input
    return (
        in_place_reference is None
        or not isinstance(input_argument, torch.Tensor)
        or not same_bits(in_place_reference.outputs, input_argument)
    )


def _cpu_accepts_four_or_five_dimensions(
    mutant: Mutant, reference: OverloadReference, argument: torch.Tensor
) -> bool:
    if argument.dim() in (4, 5):
        return True
    if is_unchecked(reference.subject):
        return False
    deeper = reference_of_rank(reference, 4)
    changed = None if deeper is None else _mutated_argument(mutant, deeper)
    return changed is not None and changed.dim() in (4, 5)


def _returns_argument(mutant: Mutant, reference: OverloadReference) -> bool:
    """Return whether the mutated result equals an argument.

    Arguments with NaN are ignored, because the mutant compares values and NaN differs from NaN.
    """
    result = _mutated_result(mutant, reference)
    if result is None or result.numel() == 0:
        return False
    result = result.resolve_conj().resolve_neg().contiguous()
    arguments = (t.detach().contiguous() for t in reference.sample.tensors())
    return any(
        argument.dtype == result.dtype
        and argument.shape == result.shape
        and bytes_of_storage(argument) == bytes_of_storage(result)
        for argument in arguments
        if not bool((argument != argument).any())
    )


def _call_form_of_point(subject: Subject, point: str) -> CallForm:
    overload: overloads.Overload = subject.info
    forms = {str(overload.in_place): CallForm.IN_PLACE, str(overload.out): CallForm.OUT}
    name = point.replace("::", ".")
    return forms.get(name if "." in point else f"{name}.default", CallForm.FUNCTION)


@functools.cache
def _cpu_refuses_some_call(subject: Subject, point: str) -> bool:
    form = _call_form_of_point(subject, point)
    return any(
        errors.cpu_refuses_any_wrong_call(reference, form)
        for reference in _examined_references(subject, None)
    )


def _option_changes_no_value(mutant: Mutant, subject: Subject) -> bool:
    name = subject.info.op._schema.arguments[mutant.position].name
    if name in ("check_errors", "unsafe", "non_blocking", "self_is_result"):
        return False  # these options affect errors and waits
    real = mutant.dtype is not None and not dtype_of(mutant.dtype).is_complex
    if name == "hermitian" and real and base_name(subject.name).startswith("linalg_ldl_"):
        return True  # as torch.linalg.ldl_factor documents
    return name in VALUE_NEUTRAL_OPTIONS or f"{base_name(subject.name)}.{name}" in VALUE_NEUTRAL_OPTIONS


def _other_values_not_implemented(mutant: Mutant, subject: Subject) -> bool:
    """Return whether the CPU reports every other value of an option as not implemented."""
    name = subject.info.op._schema.arguments[mutant.position].name
    outcomes = [
        attempt(functools.partial(sample.call, reference.overload.op))
        for reference in _examined_references(subject, mutant.dtype)
        for sample in calls_with_other_values(reference, name)
    ]
    return bool(outcomes) and all("not implemented" in str(outcome.error) for outcome in outcomes)


def _argument_alone_changes_result(mutant: Mutant, subject: Subject) -> bool:
    """Return whether the suite can make two calls that differ only in the mutated argument and have different
    CPU results.
    """
    name = subject.info.op._schema.arguments[mutant.position].name
    if name in DETERMINED_BY_TENSORS or subject.info.random:
        return bool(subject.info.random)  # random results cannot be compared
    for reference in _examined_references(subject, mutant.dtype):
        changed = (
            reference_of_modified_call(reference, sample)
            for sample in calls_with_other_values(reference, name)
        )
        if any(
            changed_reference is not None and results_differ(reference, changed_reference)
            for changed_reference in changed
        ):
            return True
        if any(argument == name for argument, _ in neighbouring_numbers(reference)):
            return True
    dtypes = (mutant.dtype,) if mutant.dtype is not None else _DEFAULT_DTYPES
    checked_dtypes = [dtype for dtype in dtypes if dtype in subject.info.dtypes]
    return any(
        argument == name for dtype in checked_dtypes for argument, _, _ in pairs_of_callers(subject, dtype)
    )


def _is_unsupported_argument(mutant: Mutant, subject: Subject) -> bool:
    """Return True if no call has the mutated argument and the CPU reports the argument as not supported."""
    references = _examined_references(subject, mutant.dtype)
    if is_unchecked(subject) or any(
        _mutated_argument(mutant, reference) is not None for reference in references
    ):
        return False
    name = subject.info.op._schema.arguments[mutant.position].name
    argument = torch.zeros(2, dtype=torch.int64)
    outcomes = [
        attempt(functools.partial(with_argument(reference, name, argument).call, reference.overload.op))
        for reference in references
    ]
    return bool(outcomes) and all(
        name in str(outcome.error) and "not supported" in str(outcome.error) for outcome in outcomes
    )


def _cpu_passes_layout_check(mutant: Mutant, subject: Subject) -> bool:
    """Return whether the CPU passes the layout check of the mutated argument in any call.

    Return True if no call with the argument could be checked.
    """
    if subject.info.random:
        return True  # the order of random draws may depend on the layout
    target = target_file.load("cpu").target("eager")
    form = _call_form_of_point(subject, mutant.point)
    was_tried = False
    for reference in _examined_references(subject, mutant.dtype):
        argument = _mutated_argument(mutant, reference)
        safe = layouts.cpu_kernel_is_safe(subject, dtype_name(reference.dtype))
        if argument is None or not safe or form not in forms_of(target, reference):
            continue
        tensor_index = index_of_tensor(reference, argument)
        for layout_name in _LAYOUTS_BY_OPERATOR[mutant.operator]:
            layout = LAYOUTS.get(layout_name, expanded)
            layout_reference = (
                layouts.reference_with_equal_rows(reference, tensor_index)
                if layout is expanded
                else reference
            )
            embedded = (
                None if layout_reference is None else layout(layout_reference.sample.tensors()[tensor_index])
            )
            if (
                layout_reference is None
                or embedded is None
                or embedded.view.is_contiguous()
                or not values_affect_result(layout_reference, tensor_index)
            ):
                continue
            was_tried = True
            case = CaseId("overload-layouts", subject.name)
            recorder = Recorder(ResultId(case, dtype_name(reference.dtype)), seed=0)
            conclusion = check_call(
                target, recorder, layout_reference, form, ArgumentLayout(layout, layout_name, tensor_index)
            )
            if conclusion.is_conclusive:
                return True
    return not was_tried


def _cpu_accepts_scalars_only(reference: OverloadReference) -> bool:
    tensors = reference.sample.tensors()
    if all(t.dim() == 0 for t in tensors):
        return True
    return not is_unchecked(reference.subject) and any(
        all(t.dim() == 0 for t in changed.sample.tensors()) for changed in shapes.with_scalars(reference)
    )


def _cpu_returns_special_value(mutant: Mutant, subject: Subject) -> bool:
    return any(
        _SPECIAL_VALUE_TESTS[mutant.operator](tensor)
        for tensor in _mutated_results(mutant, subject)
        if tensor.numel()
    )


def _mutated_results(mutant: Mutant, subject: Subject) -> Iterator[torch.Tensor]:
    """Yield the mutated result of every call."""
    for reference in _references_with_special_values(subject, mutant.dtype):
        results = trees.tensors(reference.outputs)
        yield from results[mutant.position : mutant.position + 1] or results


def _references_with_special_values(subject: Subject, dtype: str | None) -> Iterator[OverloadReference]:
    """Yield the references of the calls of a point, and of these calls with special values."""
    target = target_file.load("cpu").target("eager")
    for reference in _examined_references(subject, dtype):
        yield reference
        if special_values.applies(target, subject):
            yield from special_values.with_special_values(target, reference)


def _any_element_test(predicate: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], bool]:
    def has_matching_element(tensor: torch.Tensor) -> bool:
        if tensor.dtype == torch.complex32:
            return True
        resolved = tensor.resolve_conj().resolve_neg()
        real = torch.view_as_real(resolved) if resolved.is_complex() else resolved
        return real.is_floating_point() and bool(predicate(real).any())

    return has_matching_element


_SPECIAL_VALUE_TESTS: Mapping[str, Callable[[torch.Tensor], bool]] = {
    "nan-lost": _any_element_test(torch.isnan),
    "infinity-lost": _any_element_test(torch.isinf),
    "signed-zero-lost": _any_element_test(lambda real: (real == 0) & torch.signbit(real)),
    "subnormal-flushed": _any_element_test(
        lambda real: (real != 0) & (real.abs() < torch.finfo(real.dtype).tiny)
    ),
    "bool-byte": lambda tensor: tensor.dtype == torch.bool and bool(tensor.any()),
}
