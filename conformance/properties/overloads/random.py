"""Property: draws of random numbers are repeatable, and successive draws do not overlap."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.compare import fact, same_bits, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import (
    call_forms_of,
    has_separate_autograd_kernel,
    with_out_arguments,
)
from conformance.properties.overloads._modified_calls import (
    arguments_with_values,
    reference_of_modified_call,
    with_argument,
    with_mapped_tensors,
)
from conformance.properties.overloads._one_argument_pairs import other_float
from conformance.properties.overloads._references import (
    OverloadReference,
    arguments_written_but_not_returned,
    dtypes_including_random_calls,
    is_unchecked,
    outputs_with_unreturned_writes,
    references,
    references_of_handmade_calls,
)
from conformance.properties.overloads._retained_memory import check_no_memory_retained
from conformance.properties.shared.distribution_tests import restoring_generators
from conformance.properties.shared.execution import copy_sample_to_device, report_failed_call, run_operator
from conformance.properties.shared.memory_layouts import at_offset
from conformance.samples.copies import to_host
from conformance.samples.enlarged import enlargements
from conformance.samples.handmade_calls.calls import RANDOM_CALLS
from conformance.subjects.overloads import Overload
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_LIMIT = 3
_SEED = 20
#: Draws with fewer elements are not checked, because two small draws may be equal by chance.
_FEWEST = 16
#: The number of elements to which a small draw is enlarged. Two draws of this size are not equal by chance,
#: even if an element has only few possible values, as for bernoulli.
_ENLARGED_SIZE = 257
#: The limit for failures, as the negative logarithm of a probability: an observation is a failure if its
#: probability for a correct generator is below exp(-30), about 1 in 10^13. Such a coincidence does not occur
#: even in millions of draws.
_MAX_NEGATIVE_LOG_P = 30.0
_DRAWS = 9
#: An upper bound of the probability that two independent 32-bit draws of a continuous distribution are equal.
_RESOLUTION = 2.0**-23
_MAX_NEGATIVE_LOG_P_OF_DISTINCT_VALUES = 15.0


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtypes in which the property checks the overload; none unless it draws random numbers."""
    draws = subject.info.random or subject.name in RANDOM_CALLS
    return dtypes_including_random_calls("overload-random", target, subject) if draws else []


@register(
    "overload-random",
    subject_kind="overload",
    statement=(
        "After the same seed, an overload draws the same numbers, in every form. A second draw gives other "
        "numbers. At every shift, it repeats no more elements of the first draw than chance explains. With "
        "another number or option as an argument, the same seed gives other numbers if the CPU draws other "
        "numbers. A call neither retains memory nor changes the memory around its tensors."
    ),
    documentation="notes/randomness.html",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
    capabilities=("random",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Draw from fixed seeds in each form and compare the draws with each other."""
    with restoring_generators():
        recorder.allow_nothing_compared("no call of the overload draws random numbers")
        for reference in _drawing_calls(target, subject, recorder):
            _check_draws(target, recorder, reference, CallForm.FUNCTION)
            if has_separate_autograd_kernel(target, reference):
                _check_draws(target, recorder, reference, CallForm.FUNCTION, inference=True)
            overload: Overload = subject.info
            if target.capable("inplace") and (
                reference.has_in_place_reference or _also_writes_noise(overload)
            ):
                _check_draws(target, recorder, reference, CallForm.IN_PLACE)
            if CallForm.OUT in call_forms_of(target, reference):
                _check_draws(target, recorder, reference, CallForm.OUT)
            _check_numbers_have_effect(target, recorder, reference)


def _drawing_calls(target: Target, subject: Subject, recorder: Recorder) -> Iterator[OverloadReference]:
    """Yield references of some calls that draw, then an enlarged version of one of these calls.

    The first call that can be enlarged is enlarged.
    """
    yield from references_of_handmade_calls(target, subject, recorder.id.dtype, RANDOM_CALLS)
    if not subject.info.random:
        return
    larger = None
    for reference in references(target, subject, recorder, _LIMIT, include_random_calls=True):
        yield reference
        if larger is None:
            larger_samples = (
                enlargement.enlarge_sample(_ENLARGED_SIZE)
                for enlargement in enlargements(subject, reference.sample)
                if enlargement.grows
            )
            larger = next(
                (
                    reference_of_modified_call(reference, sample)
                    for sample in larger_samples
                    if sample is not None
                ),
                None,
            )
    if larger is not None:
        yield larger


def _also_writes_noise(overload: Overload) -> bool:
    """Return whether the overload has an in-place form and writes an argument that it does not return."""
    return overload.in_place is not None and bool(arguments_written_but_not_returned(overload.op))


def _check_draws(
    target: Target,
    recorder: Recorder,
    reference: OverloadReference,
    form: CallForm,
    *,
    inference: bool = False,
) -> None:
    """Draw four times in one form and check repeatability, aliasing, memory and repeated elements."""
    copy = copy_sample_to_device(target, recorder, reference.sample)
    if copy is None:
        return
    op = _callable_of_form(reference.subject.info, form)
    include_random_calls: list[list[torch.Tensor]] = []
    for seed in (_SEED, None, _SEED, None):
        if seed is not None:
            target.manual_seed(seed)
        sample = with_mapped_tensors(copy, torch.Tensor.clone)
        embedded = at_offset(sample.input) if form == CallForm.IN_PLACE else None
        if embedded is not None:
            sample = sample.replace(input=embedded.view)
        if form == CallForm.OUT:
            parts = zip(reference.overload.outs, trees.tensors(reference.returned), strict=True)
            outs = {name: torch.zeros_like(part, device=target.torch_device) for name, part in parts}
            sample = with_out_arguments(reference.overload.out, sample, outs)
        with torch.inference_mode() if inference else contextlib.nullcontext():
            outcome = run_operator(target, op, sample)
        if not outcome.ok:
            report_failed_call(target, recorder, reference.sample, outcome, f"the {form}")
            return
        if form == CallForm.IN_PLACE and not arguments_written_but_not_returned(reference.overload.op):
            text = f"the {form} returns another tensor than its input."
            fact(recorder, outcome.value is sample.input, Kind.ALIASING, text, sample=reference.sample.index)
        if embedded is not None and target.has_arbitrary_strides:
            text = f"the {form} has changed the memory around its input."
            fact(
                recorder, embedded.is_unchanged(whole=False), Kind.STATE, text, sample=reference.sample.index
            )
        value = outputs_with_unreturned_writes(
            _callable_of_form(reference.overload, form), sample, outcome.value
        )
        include_random_calls.append([to_host_tensor(tensor) for tensor in trees.tensors(value)])
    if form == CallForm.FUNCTION:
        check_no_memory_retained(target, recorder, op, copy)
    index = reference.sample.index
    for first, second, ordinal in ((0, 2, "first"), (1, 3, "second")):
        same = _all_bits_equal(include_random_calls[first], include_random_calls[second])
        fact(
            recorder, same, Kind.STATE, f"the {ordinal} draw after reseeding has other values.", sample=index
        )
    hosts = trees.tensors(reference.outputs)
    for output_index, (first_draw, second_draw, host) in enumerate(
        zip(include_random_calls[0], include_random_calls[1], hosts, strict=True)
    ):
        # If all values of the CPU's draw are distinct, a constant result is wrong.
        if _distinct_count(host) == host.numel() >= _FEWEST:
            distinct = _distinct_count(first_draw)
            text = f"{first_draw.numel()} drawn elements have only {distinct} distinct values."
            fact(recorder, 2 * distinct > first_draw.numel(), Kind.VALUE, text, sample=index)
        elif _cannot_be_constant_by_chance(host):
            text = f"all {first_draw.numel()} drawn elements are equal."
            fact(recorder, _distinct_count(first_draw) > 1, Kind.VALUE, text, sample=index)
        repeated = _repeated_elements(
            first_draw, second_draw, functools.partial(_cpu_draws, reference, output_index)
        )
        text = ""
        if repeated is not None:
            shift, equal_count = repeated
            text = f"the second draw repeats {equal_count} elements of the first draw, shifted by {shift}."
        fact(recorder, repeated is None, Kind.STATE, text, sample=index)


def _check_numbers_have_effect(target: Target, recorder: Recorder, reference: OverloadReference) -> None:
    """Draw twice from one seed, the second time with a different value of one argument, and check that the
    draws differ.

    Only values that change the CPU's draws are used.
    """
    for name, changed in _with_other_numbers(reference):
        for form in (CallForm.FUNCTION, CallForm.IN_PLACE, CallForm.OUT):
            if form == CallForm.IN_PLACE and not (
                target.capable("inplace") and reference.has_in_place_reference
            ):
                continue
            if form == CallForm.OUT and CallForm.OUT not in call_forms_of(target, reference):
                continue
            draws = [_seed_and_call(target, recorder, variant, form) for variant in (reference, changed)]
            if draws[0] is None or draws[1] is None:
                continue  # the failure is already recorded
            text = f"with another {name}, the {form} draws the same numbers after the same seed."
            differs = not _all_bits_equal(draws[0], draws[1])
            fact(recorder, differs, Kind.VALUE, text, sample=reference.sample.index)


def _with_other_numbers(reference: OverloadReference) -> Iterator[tuple[str, OverloadReference]]:
    """Yield the name of an argument and the reference of the call with another value for this argument.

    A value is used only if it changes many elements of the CPU's draw, so that a correct device does not draw
    the same elements by chance. Unchecked overloads are skipped, because other numbers could make their calls
    undefined.
    """
    if is_unchecked(reference.subject):
        return
    for argument, value in arguments_with_values(reference):
        for other_value in _other_numbers(value):
            changed = reference_of_modified_call(
                reference, with_argument(reference, argument.name, other_value)
            )
            if changed is not None and _surely_differ(reference, changed):
                yield argument.name, changed
                break


def _other_numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 2, value - 1)
    elif isinstance(value, float):
        yield from (other_float(value), value + 1.5)


def _surely_differ(reference: OverloadReference, changed: OverloadReference) -> bool:
    count, differing = 1, 0
    for first, second in zip(_cpu_draws(reference, 0), _cpu_draws(changed, 0), strict=True):
        if first.shape != second.shape:
            return first.numel() != second.numel()
        count += first.numel()
        differing += int((first != second).sum())
    return -(count // _DRAWS) * math.log(1 - differing / count) >= _MAX_NEGATIVE_LOG_P


def _seed_and_call(
    target: Target, recorder: Recorder, reference: OverloadReference, form: CallForm
) -> list[torch.Tensor] | None:
    """Return the tensors that a call returns after the generators are seeded, or None if the call fails."""
    copy = copy_sample_to_device(target, recorder, reference.sample)
    if copy is None:
        return None
    if form == CallForm.OUT:
        parts = zip(reference.overload.outs, trees.tensors(reference.returned), strict=True)
        outs = {name: torch.zeros_like(part, device=target.torch_device) for name, part in parts}
        copy = with_out_arguments(reference.overload.out, copy, outs)
    target.manual_seed(_SEED)
    outcome = run_operator(target, _callable_of_form(reference.subject.info, form), copy)
    if not outcome.ok:
        report_failed_call(target, recorder, reference.sample, outcome, f"the {form}")
        return None
    return [to_host_tensor(tensor) for tensor in trees.tensors(outcome.value)]


def _callable_of_form(overload: Overload, form: CallForm) -> Any:
    return {CallForm.FUNCTION: overload.op, CallForm.IN_PLACE: overload.in_place, CallForm.OUT: overload.out}[
        form
    ]


def _all_bits_equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(
        a.shape == b.shape and same_bits(a, b) for a, b in zip(first, second, strict=True)
    )


def _distinct_count(tensor: torch.Tensor) -> int:
    """Return the number of distinct values."""
    return len(set(tensor.reshape(-1).tolist()))


def _cannot_be_constant_by_chance(values: torch.Tensor) -> bool:
    """Return whether a draw of the same size as ``values`` cannot be constant by chance.

    ``values`` is a draw of the CPU. The share of its most frequent value estimates the probability of this
    value in each element.
    """
    counts = collections.Counter(values.reshape(-1).tolist()).values()
    share = max(counts, default=0) / max(1, values.numel())
    return 0 < share < 1 and -values.numel() * math.log(share) >= _MAX_NEGATIVE_LOG_P


def _repeated_elements(
    first_draw: torch.Tensor, second_draw: torch.Tensor, drawn_by_cpu: Callable[[], Sequence[torch.Tensor]]
) -> tuple[int, int] | None:
    """Return (shift, number of equal elements) if the second draw repeats the shifted first draw.

    The result is None if chance explains the equal elements at every shift.

    The expected share of equal elements is first computed from the values of both draws. If the share at a
    shift exceeds the expected share, the share in the CPU's draws at the same shift is considered too,
    because the elements may have different distributions.
    """
    first, second = first_draw.reshape(-1), second_draw.reshape(-1)
    count = first.numel()
    if count < _FEWEST or first.shape != second.shape:
        return None
    if _is_continuous(first):
        for shift in range(1, count):
            equal_count = _equal_elements(first, second, shift)
            if (
                _negative_log_p_value(equal_count, count - shift, _RESOLUTION)
                >= _MAX_NEGATIVE_LOG_P_OF_DISTINCT_VALUES
            ):
                return shift, equal_count
    counts = collections.Counter(torch.cat([first, second]).tolist()).values()
    chance = sum((number / (2 * count)) ** 2 for number in counts)
    for shift in range(count - _FEWEST + 1):
        equal_count = _equal_elements(first, second, shift)
        if _negative_log_p_value(equal_count, count - shift, chance) < _MAX_NEGATIVE_LOG_P:
            continue
        draws = [draw.reshape(-1) for draw in drawn_by_cpu()]
        cpu_equal_count = sum(
            _equal_elements(earlier, later, shift) for earlier, later in itertools.pairwise(draws)
        )
        cpu_share = (cpu_equal_count + 1) / ((len(draws) - 1) * (count - shift) + 1)
        if _negative_log_p_value(equal_count, count - shift, max(chance, cpu_share)) >= _MAX_NEGATIVE_LOG_P:
            return shift, equal_count
    return None


def _is_continuous(tensor: torch.Tensor) -> bool:
    """Return whether a float32 or float64 tensor has distinct values that are not all integers.

    A tensor of integers is not continuous: it holds counts, which often have equal values.
    """
    if tensor.dtype not in (torch.float32, torch.float64) or bool((tensor == tensor.round()).all()):
        return False
    return _distinct_count(tensor) == tensor.numel()


def _equal_elements(first: torch.Tensor, second: torch.Tensor, shift: int) -> int:
    """Return how many elements of ``first`` equal the element of ``second`` that is ``shift`` positions
    earlier.
    """
    return int((first[shift:] == second[: second.numel() - shift]).sum())


def _negative_log_p_value(hits: int, count: int, chance: float) -> float:
    """Return a lower bound (Chernoff) of -log(p) for the probability p of at least ``hits`` hits by chance.

    Each of ``count`` independent trials hits with probability ``chance``.
    """
    share = hits / count
    if share <= chance or chance >= 1:
        return 0.0
    rest = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return count * (share * math.log(share / chance) + rest)


def _cpu_draws(reference: OverloadReference, output_index: int) -> list[torch.Tensor]:
    """Return the output at an index for several draws of the CPU, each from a different seed."""
    draws = []
    for seed in range(_DRAWS):
        host = to_host(reference.sample)
        with (
            torch_testing_internals.torch_seeded(seed),
            torch_testing_internals.silence_warnings(),
            torch.no_grad(),
        ):
            value = outputs_with_unreturned_writes(
                reference.overload.op, host, host.call(reference.overload.op)
            )
        draws.append(trees.tensors(value)[output_index])
    return draws
