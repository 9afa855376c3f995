"""The rules by which a mutant says nothing about the suite, each with its reason.

A rule goes by schemas, by documentation, or by what the CPU answers to the calls that the suite knows of the
place and to those made of them; never by a single mutant.
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
from conformance.properties.overloads import errors, layouts, shapes, values
from conformance.properties.overloads._call_forms import (
    CPU_FAILS_TOO,
    FUNCTION,
    IN_PLACE,
    OUT,
    ArgumentLayout,
    check_call,
    cpu_accepts_form,
    forms_of,
)
from conformance.properties.overloads._caller_calls import calls_of_callers
from conformance.properties.overloads._modified_calls import (
    arguments,
    differ,
    in_dimensions,
    mapped,
    place_of,
    reference_of_modified_call,
    values_affect_result,
    with_argument,
    with_tensor,
)
from conformance.properties.overloads._one_argument_pairs import (
    OF_SIZES,
    neighbouring_numbers,
    pairs_of_callers,
    results_differ,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    fixes_signs_of_zeros,
    is_reproducible_on_cpu,
    is_unchecked,
    overload_reference,
)
from conformance.properties.overloads._result_strides import promised
from conformance.properties.overloads.forms import counts_from_the_start
from conformance.properties.overloads.options import NO_VALUES, others
from conformance.properties.shared.memory_layouts import LAYOUTS, expanded
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.operators import Sample, bits, dtype_name, dtype_of
from conformance.samples.recorded_calls import calls_of
from conformance.subjects import overloads, torch_databases
from conformance.subjects.torch_databases import Subject, find
from conformance.target import file as target_file
from tools.mutation import operators, points
from tools.mutation.campaign import Fate
from tools.mutation.mutant import Fault

#: Kinds of faults of values in a result; a place whose values are free cannot have them.
OF_VALUES = frozenset(
    {
        *("last-element", "tail-of-16", "above-size", "scalar-only", "rank", "nan-lost", "infinity-lost"),
        *("signed-zero-lost", "subnormal-flushed", "low-precision", "bool-byte", "stale-result", "flaky"),
        *("empty-input",),
    }
)
#: Kinds that need a result of several elements.
OF_SEVERAL = frozenset({"last-element", "tail-of-16", "above-size", "result-strides", "write-partial"})
#: Kinds that need an argument of which a call writes elements.
OF_WRITES = frozenset({"write-lost", "write-partial", "write-astray", "out-not-resized"})
#: Kinds that show only if an argument has several elements.
OF_LAYOUTS = frozenset({"strides-ignored", "expanded-ignored", "grad-strided", "offset-and-strides-ignored"})
#: Kinds that give a kernel another option.
OF_OPTIONS = frozenset({"option-ignored", "number-stale"})
#: Kinds that give a kernel other values for an argument.
OF_ARGUMENTS = OF_LAYOUTS | {
    *("offset-ignored", "offset-in-channels-last-ignored", "offset-in-other-rank-ignored"),
}
#: The layouts that show a kind of fault of an argument, by the words of messages.
_LAYOUTS_OF: Mapping[str, Sequence[str]] = {
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
#: Operators that torch documents by a formula which their first two tensors may change places in.
_SYMMETRIC = re.compile(
    r"(add|mul|multiply|eq|ne|not_equal|maximum|minimum|fmax|fmin|gcd|lcm|hypot|logaddexp2?|logical_(and|or|xor)"
    r"|bitwise_(and|or|xor)|mse_loss|smooth_l1_loss|huber_loss|dot|equal|clamp_(max|min))$"
)
#: The same of the two tensors behind the first one, which the form in place writes.
_SYMMETRIC_BEHIND = re.compile("addcmul$")
#: Arguments that give a size and nothing else.
_SIZES = frozenset({"size", "n", "m", "window_length"})
#: Calls of a place that are looked at, and dtypes if the mutant names none.
_CALLS = 6
_DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")


def reason(fault: Fault, fate: str, calls: Mapping[tuple[str, str], Set[str]]) -> str | None:
    """Return why a mutant that was not killed says nothing, None if it does.

    ``calls`` holds what was learned of the calls of each place: the dtypes for which the answer to a question
    of :data:`tools.mutation.operators.QUESTIONS` is yes.
    """
    base = base_name(fault.place)
    if fault.kind in OF_VALUES and relations.is_uninitialised(base.rstrip("_")):
        return "the values of the result are free"
    moved = values.moves(fault.place) or fixes_signs_of_zeros(base.rstrip("_"))
    if fault.kind == "signed-zero-lost" and not moved:
        return "no document promises the sign of a zero that is computed"
    if fault.kind == "subnormal-flushed" and not values.keeps_small_numbers(fault.place):
        return (
            "no document promises a subnormal number of functions beyond arithmetic, exp, moves and choices"
        )
    if fault.kind == "stale-result" and _is_made_of_sizes(fault.place):
        return "results of one size are all the same"
    symmetric = _SYMMETRIC if fault.position == 0 else _SYMMETRIC_BEHIND
    if fault.kind == "swapped-arguments" and symmetric.match(base.rstrip("_")):
        return "torch documents the operator as the same with the two tensors exchanged"
    subject = subject_of(fault.place)
    if (
        subject is not None
        and fault.kind in operators.OF_REFUSALS
        and not _is_refused_ever(subject, fault.place)
    ):
        return "the CPU refuses no wrong call that the suite can make, and no document asks a device to"
    if subject is not None and fault.dtype is not None and _is_beyond_the_cpu(subject, fault.dtype):
        return "the CPU takes no call in that dtype, and no document asks a device to"
    if fault.kind == "result-strides" and subject is not None and not _promises_strides(fault, subject):
        return "no Meta kernel agrees with the CPU on the strides in any call that the suite can make"
    if subject is not None and fault.kind in OF_OPTIONS and _changes_no_value(fault, subject):
        return "torch documents that the option changes no value"
    if subject is not None and fault.kind in _LAYOUTS_OF and not _is_kept_by_the_cpu(fault, subject):
        return "torch's own kernel gives other results for such a layout of that argument in every call"
    if subject is not None and fault.kind == "empty-input" and _is_unwritten(fault, subject):
        return (
            "torch's own kernel leaves the result of nothing unwritten in every call that the suite can make"
        )
    if subject is not None and fault.dtype is not None and _is_listed_nowhere(subject, fault.dtype):
        return "torch's database lists that dtype for no operator that calls the place"
    if fate != Fate.ASLEEP.value:
        return None
    need = operators.NEEDS.get(fault.kind)
    if need is not None and (fault.place, "called") in calls and (fault.place, need) not in calls:
        return f"the kind needs a place that is called and {need.replace('-', ' ')}"
    if subject is None:
        return None
    if fault.kind == "empty-input" and subject.info.pointwise:
        return "the result of nothing has no elements"
    if not _answers(subject, fault.dtype):
        return None  # the suite has no call in that dtype, which says nothing
    if fault.kind == "negative-dimension" and counts_from_the_start(subject.name):
        return "only operators may call the overload, and they pass no negative dimension"
    if fault.kind == "option-ignored" and _has_one_value(fault, subject):
        return "the CPU says of every other value of the option that it is not implemented"
    if fault.kind == "number-stale" and not _changes_alone(fault, subject):
        return (
            "no two calls that the suite can make differ in this argument alone and in what the CPU returns"
        )
    if fault.kind == "rank" and not _takes(subject, fault.dtype, functools.partial(_in_rank, fault.value)):
        return f"the CPU takes no tensor of {fault.value} dimensions in any call that the suite can make"
    if fault.kind == "scalar-only" and not _takes(subject, fault.dtype, _of_scalars):
        return "the CPU takes no call of scalars alone that the suite can make"
    if fault.kind == "empty-input" and not _takes(
        subject, fault.dtype, functools.partial(_of_nothing, fault)
    ):
        return "the CPU takes no empty tensor in any call that the suite can make, or returns nothing there"
    if fault.kind == "int-53-bits" and not _takes(subject, fault.dtype, functools.partial(_has_int64, fault)):
        return "no call that the suite can make has an int64 tensor there, and a result that holds its digits"
    if fault.kind in OF_LAYOUTS and subject.name in layouts.UNSAFE_STRIDES:
        return "torch's own kernel reads strided arguments beyond their memory, and its callers pass none"
    if fault.kind in OF_ARGUMENTS and _is_taken_never(fault, subject):
        return "the CPU says of that argument that it is not supported"
    if fault.kind in OF_LAYOUTS and not _has_argument_that(fault, subject, _can_be_laid):
        return "every tensor that the CPU takes there has one element"
    if fault.kind == "int-53-bits" and not _takes(subject, fault.dtype, functools.partial(_is_exact, fault)):
        return "the CPU returns the same for rounded integers in every call that the suite can make"
    if fault.kind in OF_ARGUMENTS and not _matters_in_any_call(fault, subject):
        return "the CPU's results do not depend on the values of that argument in any call"
    if fault.kind == "swapped-arguments" and not _takes(
        subject, fault.dtype, functools.partial(_can_be_swapped, fault)
    ):
        return (
            "the CPU refuses or cannot tell the two tensors exchanged in every call that the suite can make"
        )
    if fault.kind == "low-precision" and not any(map(_needs_precision, _results(fault, subject))):
        return "the CPU's results are exact in the next smaller dtype in every call that the suite can make"
    if fault.kind in OF_WRITES and not _takes(subject, fault.dtype, functools.partial(_writes, fault)):
        return "the CPU changes no element there in any call that the suite can make"
    if fault.kind in OF_SEVERAL and not _takes(subject, fault.dtype, functools.partial(_several, fault)):
        return "the CPU returns one element there in every call that the suite can make"
    if fault.kind == "offset-in-channels-last-ignored" and not _has_argument_that(
        fault, subject, _can_have_channels
    ):
        return "the CPU takes no tensor of four or five dimensions there in any call that the suite can make"
    if fault.kind == "aliasing-gained" and not any(
        _returns_argument(fault, one) for one in _asked(subject, fault.dtype)
    ):
        return "the CPU returns no argument's values for any special value in any argument"
    if fault.kind in _VALUES and not _returns(fault, subject):
        return "the CPU returns no such value for any special value in any argument"
    return None


def _is_made_of_sizes(place: str) -> bool:
    """Return whether an overload takes sizes alone, beside how its result is kept."""
    positional = [argument for argument in points.schema(place).arguments if not argument.kwarg_only]
    return all(argument.name in _SIZES for argument in positional)


@functools.cache
def subject_of(place: str) -> Subject | None:
    """Return the subject whose forms a place is one of; None if there is none."""
    namespace, _, name = place.partition("::")
    bare, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), bare, None) if "::" not in name else None
    op = getattr(packet, overload or "default", None)
    if op is None:
        return None  # no kernel of the device
    for known in (overloads.name_of(overloads.function_of(op)), overloads.name_of(op)):
        if known in overloads.table():
            with contextlib.suppress(LookupError):  # its operators are those of a newer torch
                return find("overload", known)
    return None


@functools.cache
def _answers(subject: Subject, dtype: str | None) -> tuple[OverloadReference, ...]:
    usual = [name for name in _DTYPES if name in subject.info.dtypes] or subject.info.dtypes[: len(_DTYPES)]
    names = usual if dtype is None else [dtype]
    found = []
    for name in names:
        samples = calls_of(subject, name)
        for index in range(min(samples.available, _CALLS)):
            one = overload_reference(subject, name, samples[index])
            if one is not None:
                found.append(one)
    return tuple(found)


def _takes(subject: Subject, dtype: str | None, of: Callable[[OverloadReference], bool]) -> bool:
    return any(of(found) for found in _answers(subject, dtype))


def _in_rank(rank: int, reference: OverloadReference) -> bool:
    if any(t.dim() == rank for t in reference.sample.tensors()):
        return True
    if is_unchecked(reference.subject):
        return False
    deeper = in_dimensions(reference, rank)
    return deeper is not None and any(t.dim() == rank for t in deeper.sample.tensors())


@functools.cache
def _is_beyond_the_cpu(subject: Subject, dtype: str) -> bool:
    """Return whether the CPU refuses every call of a subject when its tensors have another dtype."""
    if _answers(subject, dtype):
        return False
    tried = False
    for found in _answers(subject, None):
        indices = [value for argument, value in arguments(found) if argument.name in ("index", "indices")]
        kept = {id(tensor) for tensor in trees.tensors(indices)}

        def of_dtype(tensor: torch.Tensor, old: torch.dtype = found.dtype, kept: Set[int] = kept) -> Any:
            return tensor.to(dtype_of(dtype)) if tensor.dtype == old and id(tensor) not in kept else tensor

        if not all(t.numel() for t in found.sample.tensors()):
            continue  # of nothing it takes any dtype
        if overload_reference(subject, dtype, mapped(found.sample, of_dtype)) is not None:
            return False
        tried = True
    return tried


def _is_listed_nowhere(subject: Subject, dtype: str) -> bool:
    """Return whether torch's database lists a dtype for no operator that calls a subject."""
    if dtype in subject.info.dtypes:
        return False
    callers = {*subject.info.operators, *_operators_of_the_same_name(subject)}
    return all(
        dtype_of(dtype) not in torch_testing_internals.listed_dtypes(find("operator", name).info)
        for name in callers
    )


def _operators_of_the_same_name(subject: Subject) -> Iterator[str]:
    """Yield the operators of torch's database whose name is that of the overload, in any namespace."""
    base = base_name(subject.name)
    for one in torch_databases.subjects("operator"):
        if one.name.rpartition(".")[2] == base or getattr(one.info, "aten_name", None) == base:
            yield one.name


def _promises_strides(fault: Fault, subject: Subject) -> bool:
    trusting = is_unchecked(subject)
    known = _answers(subject, fault.dtype)
    for found in known:
        deeper = None if trusting else in_dimensions(found, 4)
        for one in (found, deeper):
            due = [] if one is None else promised(one)
            if fault.position < len(due) and len(due[fault.position] or ()) > 1:
                return True
    return not known  # no call says nothing


def _argument(fault: Fault, reference: OverloadReference) -> torch.Tensor | None:
    given = [reference.sample.input, *reference.sample.args]
    if fault.position < len(given):
        there = given[fault.position]
    else:
        there = reference.sample.kwargs.get(reference.overload.op._schema.arguments[fault.position].name)
    return there if isinstance(there, torch.Tensor) else None


def _has_argument_that(
    fault: Fault, subject: Subject, holds: Callable[[Fault, OverloadReference, torch.Tensor], bool]
) -> bool:
    """Return whether something holds of an argument in any call that has it, or no call has it."""
    known = _answers(subject, fault.dtype)
    having = [(found, there) for found in known if (there := _argument(fault, found)) is not None]
    return not having or any(holds(fault, found, there) for found, there in having)


def _has_int64(fault: Fault, reference: OverloadReference) -> bool:
    there = _argument(fault, reference)
    if there is None or there.dtype != torch.int64:
        return False
    return any(not (t.is_floating_point() or t.is_complex()) for t in trees.tensors(reference.outputs))


def _can_be_laid(fault: Fault, reference: OverloadReference, there: torch.Tensor) -> bool:
    if there.numel() > 1 or is_unchecked(reference.subject):
        return there.numel() > 1
    place = place_of(reference, there)
    several = (there.detach().reshape(-1)[:1].expand(size) for size in ((2,), (2, 2)) if there.numel())
    return any(
        reference_of_modified_call(reference, with_tensor(reference.sample, place, one.clone())) is not None
        for one in several
    )


def _is_exact(fault: Fault, reference: OverloadReference) -> bool:
    """Return whether rounding the argument's integers to float64 changes a result."""
    there = _argument(fault, reference)
    if there is None or there.dtype != torch.int64:
        return there is None
    place = place_of(reference, there)
    if is_unchecked(reference.subject):
        return True  # other integers could be undefined
    for wide in values.wide_integers(reference, place):
        one = reference_of_modified_call(reference, wide)
        two = reference_of_modified_call(
            reference, mapped(wide, lambda t: t.double().long() if t.dtype == torch.int64 else t)
        )
        if one is not None and two is not None and differ(one, two):
            return True
    return False


def _matters_in_any_call(fault: Fault, subject: Subject) -> bool:
    """Return whether the values of an argument matter in any call that has it, or no call has it."""
    known = _answers(subject, fault.dtype)
    having = [(found, there) for found in known if (there := _argument(fault, found)) is not None]
    return any(values_affect_result(found, place_of(found, there)) for found, there in having) or (
        bool(known) and not having
    )


def _can_be_swapped(fault: Fault, reference: OverloadReference) -> bool:
    given = [reference.sample.input, *reference.sample.args]
    if max(fault.position, fault.value) >= len(given):
        return True  # given by name
    one, two = given[fault.position], given[fault.value]
    if not (isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)):
        return False
    if one.dtype != two.dtype:
        return False
    if one.shape == two.shape and bits(one) != bits(two):
        return True
    if is_unchecked(reference.subject):
        return False
    given[fault.position], given[fault.value] = two, one
    return (
        reference_of_modified_call(reference, reference.sample.replace(input=given[0], args=tuple(given[1:])))
        is not None
    )


def _needs_precision(result: torch.Tensor) -> bool:
    less = operators.SMALLER.get(str(result.dtype).removeprefix("torch."))
    return less is not None and bits(result.to(getattr(torch, less)).to(result.dtype)) != bits(result)


def _of_nothing(fault: Fault, reference: OverloadReference) -> bool:
    if is_unchecked(reference.subject) and not _empty_calls(reference.subject, dtype_name(reference.dtype)):
        return any(count != 0 for count in _counts_on_meta(fault, reference))
    form = _form_of(reference.subject, fault.place)
    return any(
        _returns_elements(fault, changed) and cpu_accepts_form(changed, form)
        for changed in _answers_to_nothing(reference)
    )


def _answers_to_nothing(reference: OverloadReference) -> Sequence[OverloadReference]:
    if is_unchecked(reference.subject):
        return _empty_calls(reference.subject, dtype_name(reference.dtype))
    made = shapes.empty(reference)
    return [one for one in made if any(tensor.numel() == 0 for tensor in one.sample.tensors())]


def _is_unwritten(fault: Fault, subject: Subject) -> bool:
    """Return whether what the CPU returns for nothing is what its memory held before, in every call."""
    made = [one for found in _answers(subject, fault.dtype) for one in _answers_to_nothing(found)]
    having = [one for one in made if _returns_elements(fault, one)]
    return bool(having) and not any(is_reproducible_on_cpu(one, fault.position) for one in having)


def _counts_on_meta(fault: Fault, reference: OverloadReference) -> Iterator[int | None]:
    """Yield how many elements the result has for calls with an empty tensor, by torch's Meta kernel, which
    reads no memory; None if it cannot say.

    The CPU cannot be asked for calls of what trusts its callers: others may end the process.
    """
    for sample in _emptied(reference.sample):
        if reference.overload.op._schema.name.endswith("_"):
            yield 0  # the first tensor itself
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(str(reference.overload.op.name()), "Meta"):
            yield None
            continue
        meta = mapped(
            sample, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        )
        outcome = attempt(functools.partial(meta.call, reference.overload.op))
        if outcome.ok:
            results = trees.tensors(outcome.value)
            yield results[fault.position].numel() if fault.position < len(results) else None
        elif isinstance(outcome.error, NotImplementedError) or "meta" in str(outcome.error).lower():
            yield None  # it wants values


def _emptied(sample: Sample) -> Iterator[Sample]:
    """Yield a call without elements along one dimension: of all tensors, of those of the first one's shape,
    and of that one.
    """
    tensors = sample.tensors()
    scopes = [tensors, [t for t in tensors if t.shape == tensors[0].shape], tensors[:1]]
    for scope, dimension in itertools.product(scopes, (0, 1, -1)):
        chosen = {id(t) for t in scope if t.dim() > max(dimension, 0)}
        if id(tensors[0]) in chosen:
            yield mapped(sample, lambda t: t.narrow(dimension, 0, 0) if id(t) in chosen else t)  # noqa: B023


@functools.cache
def _empty_calls(subject: Subject, dtype: str) -> Sequence[OverloadReference]:
    """The calls with an empty tensor that operators make of an overload that trusts them."""
    made = (
        overload_reference(subject, dtype, call) for call in calls_of_callers(subject, dtype).chosen(None)
    )
    return [one for one in made if one and any(t.numel() == 0 for t in one.sample.tensors())]


def _returns_elements(fault: Fault, reference: OverloadReference) -> bool:
    """Return whether the result that the fault makes wrong has elements."""
    results = trees.tensors(reference.outputs)
    return fault.position >= len(results) or results[fault.position].numel() > 0


def _several(fault: Fault, reference: OverloadReference) -> bool:
    result = _written(fault, reference) if fault.kind in OF_WRITES else _result(fault, reference)
    if result is not None and result.numel() == 1 and is_unchecked(reference.subject):
        return False
    return result is None or result.dim() > (1 if fault.kind == "result-strides" else 0)


def _result(fault: Fault, reference: OverloadReference) -> torch.Tensor | None:
    results = trees.tensors(reference.outputs)
    return results[fault.position] if fault.position < len(results) else None


def _written(fault: Fault, reference: OverloadReference) -> torch.Tensor | None:
    """The result that a form writes to the argument at the fault's position; None if that is no out=."""
    overload: overloads.Overload = reference.subject.info
    if _form_of(reference.subject, fault.place) != OUT:
        return None
    written = overload.out._schema.arguments[fault.position].name
    results = trees.tensors(reference.returned)
    if written not in overload.outs or len(results) != len(overload.outs):
        return None
    return results[list(overload.outs).index(written)]


def _writes(fault: Fault, reference: OverloadReference) -> bool:
    """Return whether a call changes the argument that the fault makes wrong, as far as is known."""
    result = _written(fault, reference)
    if result is not None:
        return result.numel() > 0
    if fault.position or fault.kind == "write-astray" or _form_of(reference.subject, fault.place) != IN_PLACE:
        return True
    inside, given = reference.in_place, reference.sample.input
    return inside is None or not isinstance(given, torch.Tensor) or not same_bits(inside.outputs, given)


def _can_have_channels(fault: Fault, reference: OverloadReference, there: torch.Tensor) -> bool:
    if there.dim() in (4, 5):
        return True
    if is_unchecked(reference.subject):
        return False
    deeper = in_dimensions(reference, 4)
    changed = None if deeper is None else _argument(fault, deeper)
    return changed is not None and changed.dim() in (4, 5)


def _returns_argument(fault: Fault, reference: OverloadReference) -> bool:
    """Return whether the result that the fault makes wrong has an argument's values.

    A NaN is not one of them: the fault compares, and finds none.
    """
    result = _result(fault, reference)
    if result is None or result.numel() == 0:
        return False
    result = result.resolve_conj().resolve_neg().contiguous()
    given = (t.detach().contiguous() for t in reference.sample.tensors())
    return any(
        one.dtype == result.dtype and one.shape == result.shape and bits(one) == bits(result)
        for one in given
        if not bool((one != one).any())
    )


def _form_of(subject: Subject, place: str) -> str:
    overload: overloads.Overload = subject.info
    forms = {str(overload.in_place): IN_PLACE, str(overload.out): OUT}
    name = place.replace("::", ".")
    return forms.get(name if "." in place else f"{name}.default", FUNCTION)


@functools.cache
def _is_refused_ever(subject: Subject, place: str) -> bool:
    form = _form_of(subject, place)
    return any(errors.is_refused_ever(found, form) for found in _answers(subject, None))


def _changes_no_value(fault: Fault, subject: Subject) -> bool:
    name = subject.info.op._schema.arguments[fault.position].name
    if name in ("check_errors", "unsafe", "non_blocking", "self_is_result"):
        return False  # they decide about errors and waits
    real = fault.dtype is not None and not dtype_of(fault.dtype).is_complex
    if name == "hermitian" and real and base_name(subject.name).startswith("linalg_ldl_"):
        return True  # torch.linalg.ldl_factor
    return name in NO_VALUES or f"{base_name(subject.name)}.{name}" in NO_VALUES


def _has_one_value(fault: Fault, subject: Subject) -> bool:
    """Return whether the CPU says of every other value of an option that it is not implemented."""
    name = subject.info.op._schema.arguments[fault.position].name
    tried = [
        attempt(functools.partial(sample.call, found.overload.op))
        for found in _answers(subject, fault.dtype)
        for sample in others(found, name)
    ]
    return bool(tried) and all("not implemented" in str(one.error) for one in tried)


def _changes_alone(fault: Fault, subject: Subject) -> bool:
    """Return whether two calls that the suite can make differ in one argument and in what the CPU returns."""
    name = subject.info.op._schema.arguments[fault.position].name
    if name in OF_SIZES or subject.info.random:
        return bool(subject.info.random)  # of what is random no result can be compared
    for found in _answers(subject, fault.dtype):
        changed = (reference_of_modified_call(found, sample) for sample in others(found, name))
        if any(one is not None and results_differ(found, one) for one in changed):
            return True
        if any(argument == name for argument, _ in neighbouring_numbers(found)):
            return True
    dtypes = (fault.dtype,) if fault.dtype is not None else _DTYPES
    taken = [dtype for dtype in dtypes if dtype in subject.info.dtypes]
    return any(argument == name for dtype in taken for argument, _, _ in pairs_of_callers(subject, dtype))


def _is_taken_never(fault: Fault, subject: Subject) -> bool:
    """Return whether the CPU says of an argument that no call has that it is not supported."""
    known = _answers(subject, fault.dtype)
    if is_unchecked(subject) or any(_argument(fault, found) is not None for found in known):
        return False
    name = subject.info.op._schema.arguments[fault.position].name
    given = torch.zeros(2, dtype=torch.int64)
    tried = [
        attempt(functools.partial(with_argument(found, name, given).call, found.overload.op))
        for found in known
    ]
    return bool(tried) and all(name in str(one.error) and "not supported" in str(one.error) for one in tried)


def _is_kept_by_the_cpu(fault: Fault, subject: Subject) -> bool:
    """Return whether the CPU itself gives its results for an argument in such a layout, in any call; True if
    no call has the argument.
    """
    if subject.info.random:
        return True  # other layouts may draw in another order
    target = target_file.load("cpu").target("eager")
    form = _form_of(subject, fault.place)
    tried = False
    for found in _answers(subject, fault.dtype):
        there = _argument(fault, found)
        safe = layouts.safe_on_the_cpu(subject, dtype_name(found.dtype))
        if there is None or not safe or form not in forms_of(target, found):
            continue
        place = place_of(found, there)
        for word in _LAYOUTS_OF[fault.kind]:
            layout = LAYOUTS.get(word, expanded)
            laid = layouts.rows_alike(found, place) if layout is expanded else found
            inside = None if laid is None else layout(laid.sample.tensors()[place])
            if (
                laid is None
                or inside is None
                or inside.view.is_contiguous()
                or not values_affect_result(laid, place)
            ):
                continue
            tried = True
            case = CaseId("overload-layouts", subject.name)
            recorder = Recorder(ResultId(case, dtype_name(found.dtype)), seed=0)
            taken = check_call(target, recorder, laid, form, ArgumentLayout(layout, word, place))
            if taken and not any(CPU_FAILS_TOO in note for note in recorder.result().notes):
                return True
    return not tried


def _of_scalars(reference: OverloadReference) -> bool:
    tensors = reference.sample.tensors()
    if all(t.dim() == 0 for t in tensors):
        return True
    return not is_unchecked(reference.subject) and any(
        all(t.dim() == 0 for t in changed.sample.tensors()) for changed in shapes.scalars(reference)
    )


def _returns(fault: Fault, subject: Subject) -> bool:
    return any(_VALUES[fault.kind](tensor) for tensor in _results(fault, subject) if tensor.numel())


def _results(fault: Fault, subject: Subject) -> Iterator[torch.Tensor]:
    """Yield the result that the fault makes wrong, of every call."""
    for one in _asked(subject, fault.dtype):
        results = trees.tensors(one.outputs)
        yield from results[fault.position : fault.position + 1] or results


def _asked(subject: Subject, dtype: str | None) -> Iterator[OverloadReference]:
    """The answers to the calls of a place, and to those made of them with special values."""
    target = target_file.load("cpu").target("eager")
    for found in _answers(subject, dtype):
        yield found
        if values.applies(target, subject):
            yield from values.with_special_values(target, found)


def _any(holds: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], bool]:
    def of(tensor: torch.Tensor) -> bool:
        if tensor.dtype == torch.complex32:
            return True
        plain = tensor.resolve_conj().resolve_neg()
        real = torch.view_as_real(plain) if plain.is_complex() else plain
        return real.is_floating_point() and bool(holds(real).any())

    return of


_VALUES: Mapping[str, Callable[[torch.Tensor], bool]] = {
    "nan-lost": _any(torch.isnan),
    "infinity-lost": _any(torch.isinf),
    "signed-zero-lost": _any(lambda real: (real == 0) & torch.signbit(real)),
    "subnormal-flushed": _any(lambda real: (real != 0) & (real.abs() < torch.finfo(real.dtype).tiny)),
    "bool-byte": lambda tensor: tensor.dtype == torch.bool and bool(tensor.any()),
}
