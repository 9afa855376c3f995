"""Shrink samples that fail: fewer samples, fewer arguments, smaller shapes, simpler values.

A candidate is accepted if the property's check, run on it alone, finds a failure with the same signature. The
same check must also pass on the CPU, because a correct device may fail on some smaller samples too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.framework import trees
from conformance.model.verdicts import Failure
from conformance.oracle import relations
from conformance.reproduction.rerun import Key, RerunTrial, failure_signature
from conformance.samples.operators import Sample
from conformance.samples.random_programs.program import Program
from conformance.samples.random_programs.shrink import smaller_programs

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
#: The time limit in seconds for shrinking.
BUDGET_SECONDS = 30.0
#: A change of one leaf of a sample's arguments. The function returns the leaf itself if nothing changes.
Change = Callable[[Any], Any]


@dataclasses.dataclass
class ShrinkingResult:
    """The sample sets that still fail, their failure, and a summary of the shrinking."""

    sets: dict[Key, list[Any]]
    failure: Failure
    tried: int = 0
    accepted: int = 0
    summary: str = ""
    sample: Any = None


def shrink_samples(
    trial: RerunTrial,
    failure: Failure,
    *,
    sample_index: int | None,
    budget: float = BUDGET_SECONDS,
    simplify: bool = True,
) -> ShrinkingResult:
    """Return the smallest samples, found within ``budget`` seconds, with which the check still has this
    failure.

    ``sample_index`` is the index of the first sample to try (default: the failing sample). If ``simplify``
    is false, the failing sample is only separated from the other samples.
    """
    deadline = time.perf_counter() + budget
    sets = trial.used_sample_sets()
    shrunk = _single_failing_sample(trial, sets, failure, sample_index)
    if shrunk is None:
        reason = "the failure needs several samples" if sets else "the property makes its own samples"
        return ShrinkingResult(sets, failure, summary=f"not shrunk: {reason}")
    sample = shrunk.sample
    is_random = getattr(sample, "random", False)
    if isinstance(sample, Sample):
        is_random = relations.is_random(trial.subject.name, sample)
    if is_random:
        shrunk.summary += ", not shrunk: its values are random, and few random values may agree by chance"
    elif simplify and isinstance(sample, Sample):
        _simplify(trial, shrunk, deadline, simpler_samples)
    elif simplify and isinstance(sample, Program):
        _simplify(trial, shrunk, deadline, smaller_programs)
    elif simplify and hasattr(sample, "constructor") and hasattr(sample, "call"):
        _simplify(trial, shrunk, deadline, _simpler_module_calls)
    return shrunk


def _single_failing_sample(
    trial: RerunTrial, sets: dict[Key, list[Any]], failure: Failure, sample_index: int | None
) -> ShrinkingResult | None:
    """Return the sample sets reduced to one failing sample, or None if no single sample fails."""
    first = sample_index if sample_index is not None else failure.sample
    for key, members in sets.items():
        order = [sample for sample in members if sample.index == first]
        if sample_index is None:
            order += [sample for sample in members if sample.index != first][:3]
        for sample in order:
            single_sample = sample.replace(index=0) if isinstance(sample, Sample) else sample
            single_set: dict[Key, list[Any]] = {other_key: [] for other_key in sets}
            single_set[key] = [single_sample]
            choices = [single_set]
            # A check may also look up the sample with the same index in another set, such as the samples with
            # gradients. Therefore also try both samples together.
            twins = [
                other_key for other_key in sets if other_key != key and other_key[0] == key[0] == "samples"
            ]
            if isinstance(sample, Sample) and twins and first is not None:
                same_sample = [twin.replace(index=0) for twin in sets[twins[0]] if twin.index == first]
                choices += [{**single_set, twins[0]: same_sample}] if same_sample else []
            for choice in choices:
                new_failure = trial.failure_with(choice, failure_signature(failure))
                if new_failure is not None:
                    return ShrinkingResult(
                        choice, new_failure, sample=single_sample, summary=f"sample {sample.index} alone"
                    )
    return None


def _simplify(
    trial: RerunTrial, shrunk: ShrinkingResult, deadline: float, simpler: Callable[[Any], Iterator[Any]]
) -> None:
    """Replace the sample of ``shrunk`` by a simpler sample with the same failure, until none exists or time
    is up.
    """
    wanted_signature = failure_signature(shrunk.failure)
    key = next(key for key, members in shrunk.sets.items() if any(x is shrunk.sample for x in members))
    correct = trial.cpu_trial()
    if correct is not None and not correct.passes_with(shrunk.sets):
        correct = None  # the CPU fails too, so it cannot serve as a control
    waiting = simpler(shrunk.sample)
    while (candidate := next(waiting, None)) is not None:
        if time.perf_counter() >= deadline:
            shrunk.summary += f"; stopped after {shrunk.tried} candidates"
            return
        shrunk.tried += 1
        sets = {**shrunk.sets, key: [candidate]}
        new_failure = trial.failure_with(sets, wanted_signature)
        if new_failure is not None and (correct is None or correct.passes_with(sets)):
            shrunk.sets, shrunk.sample, shrunk.failure = sets, candidate, new_failure
            shrunk.accepted += 1
            waiting = simpler(candidate)


def simpler_samples(sample: Sample) -> Iterator[Sample]:
    """Yield simpler samples, the greatest simplifications first."""
    for name in sample.kwargs:
        yield sample.replace(kwargs={key: value for key, value in sample.kwargs.items() if key != name})
    if sample.args:
        yield sample.replace(args=sample.args[:-1])
    input, *args = map(_first_tensor_only, (sample.input, *sample.args))
    if any(new is not old for new, old in zip((input, *args), (sample.input, *sample.args), strict=True)):
        yield sample.replace(input=input, args=tuple(args))
    for change in itertools.chain(_with_smaller_tensors(sample), _with_simpler_values(sample)):
        candidate = _with_changed_leaves(sample, change)
        if candidate is not None:
            yield candidate


def _first_tensor_only(tree: Any) -> Any:
    """Return the first tensor of a list or tuple, as a list or tuple; return other values unchanged."""
    able = type(tree) in (list, tuple) and len(tree) > 1
    return tree[:1] if able and all(isinstance(x, torch.Tensor) for x in tree) else tree


def _with_changed_leaves(sample: Sample, change: Change) -> Sample | None:
    """Return the sample with each leaf changed, or None if nothing changed or the change failed."""
    changes: dict[int, Any] = {}

    def change_leaf(value: Any) -> Any:
        if id(value) not in changes:
            changes[id(value)] = change(value)
        return changes[id(value)]

    try:
        with torch.no_grad():
            input, args, kwargs = trees.tree_map(change_leaf, sample.arguments)
    except Exception:
        return None
    if all(
        new is old
        for new, old in zip(trees.leaves((input, args, kwargs)), trees.leaves(sample.arguments), strict=True)
    ):
        return None
    return sample.replace(input=input, args=args, kwargs=kwargs)


def _is_strided_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_nested


def _copy_with_own_memory(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy with its own memory. The copy requires grad if ``like`` requires grad."""
    resolved = tensor.detach().resolve_conj().resolve_neg()
    return resolved.clone(memory_format=torch.contiguous_format).requires_grad_(like.requires_grad)


def _replace_if_same(value: Any, old: Any, new: Any) -> Any:
    return new if value is old else value


def _with_smaller_tensors(sample: Sample) -> Iterator[Change]:
    """Yield changes that remove or shorten dimensions, in all tensors or in a single tensor."""
    tensors = [tensor for tensor in sample.tensors() if _is_strided_tensor(tensor)]
    for rank in sorted({tensor.dim() for tensor in tensors if tensor.dim() > 0}, reverse=True):
        for end in (0, -1):
            yield functools.partial(_without_outer_dimension, rank=rank, end=end)
    for length in sorted({n for tensor in tensors for n in tensor.shape if n > 1}, reverse=True):
        for new in dict.fromkeys((1, 2, length // 2, length - 1)):
            for numbers, layout in itertools.product((False, True), repeat=2):
                if 0 < new < length:
                    yield functools.partial(
                        _with_cut_dimensions, old=length, new=new, numbers=numbers, layout=layout
                    )
    for tensor in tensors:
        for dim, length in enumerate(tensor.shape):
            for new in dict.fromkeys((1, length // 2)):
                if 0 < new < length:
                    shorter = _copy_with_own_memory(tensor.detach().narrow(dim, 0, new), tensor)
                    yield functools.partial(_replace_if_same, old=tensor, new=shorter)


def _without_outer_dimension(value: Any, rank: int, end: int) -> Any:
    """Return a tensor of rank ``rank`` without its first or last dimension; return other values unchanged."""
    if not _is_strided_tensor(value) or value.dim() != rank or value.shape[end] == 0:
        return value
    return _copy_with_own_memory(value.detach().select(end, 0), value)


def _with_cut_dimensions(value: Any, old: int, new: int, numbers: bool, layout: bool) -> Any:
    """Return the value with every dimension of ``old`` elements cut to ``new``.

    With ``numbers``, arguments that are the integer ``old`` become ``new`` too. With ``layout``, the
    remaining elements stay at their memory addresses.
    """
    if not _is_strided_tensor(value):
        return new if numbers and type(value) is int and value == old else value
    if old not in value.shape or (layout and value.is_contiguous()):
        return value
    part = value.detach()
    for dim, length in enumerate(value.shape):
        if length == old:
            part = part.narrow(dim, 0, new)
    # Integers may be indices into a dimension that has become shorter.
    if value.dtype in _SIGNED and value.numel() and int(value.min()) >= 0 and int(value.max()) < old:
        part = part.remainder(new)
    return part.requires_grad_(value.requires_grad) if layout else _copy_with_own_memory(part, value)


def _with_simpler_values(sample: Sample) -> Iterator[Change]:
    """Yield changes that simplify the memory layout or the values of one tensor or number."""
    for leaf in trees.leaves(sample.arguments):
        for new in _simpler_leaves(leaf):
            yield functools.partial(_replace_if_same, old=leaf, new=new)


def _simpler_leaves(leaf: Any) -> Iterator[Any]:
    if isinstance(leaf, (bool, int)):
        yield from (new for new in (type(leaf)(0), type(leaf)(1)) if abs(new) < abs(leaf))
    elif isinstance(leaf, float):
        values = (0.0, 1.0, 0.5, round(leaf, 0))
        yield from (new for new in values if (len(repr(new)), repr(new)) < (len(repr(leaf)), repr(leaf)))
    elif _is_strided_tensor(leaf) and leaf.numel():
        simple = _copy_with_own_memory(leaf, leaf)
        views = (
            leaf.untyped_storage().nbytes() != leaf.numel() * leaf.itemsize or leaf.is_conj() or leaf.is_neg()
        )
        if views or not leaf.is_contiguous() or leaf.storage_offset():
            yield simple  # the values may depend on this memory layout
        elif leaf.numel() <= 4096:
            yield from _simpler_tensors(simple.detach(), leaf.requires_grad)


def _simpler_tensors(values: torch.Tensor, requires_grad: bool) -> Iterator[torch.Tensor]:
    """Yield tensors whose values have shorter literals."""
    changes: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.zeros_like, torch.ones_like]
    if values.is_floating_point():
        changes += [
            torch.round,
            lambda x: (x * 4).round() / 4,
            lambda x: (x.double() * 100).round().div(100).to(x.dtype),
        ]
    elif values.is_complex():
        changes.append(lambda x: torch.view_as_complex(torch.view_as_real(x).round()))
    for change in changes:
        try:
            new = change(values)
        except (RuntimeError, NotImplementedError):
            continue
        if _literal_length(new) < _literal_length(values):
            yield new.requires_grad_(requires_grad)


def _literal_length(tensor: torch.Tensor) -> int:
    return sum(len(repr(value)) for value in tensor.flatten().tolist())


def _simpler_module_calls(sample: Any) -> Iterator[Any]:
    """Yield simpler calls of a module: fewer constructor keywords, smaller arguments."""
    args, kwargs = sample.constructor
    for name in kwargs:
        rest = {key: value for key, value in kwargs.items() if key != name}
        yield dataclasses.replace(sample, constructor=(args, rest), _module=None)
    call_args, call_kwargs = sample.call
    for smaller in simpler_samples(Sample(0, call_args, (), call_kwargs)):
        if isinstance(smaller.input, tuple):
            yield dataclasses.replace(sample, call=(smaller.input, smaller.kwargs), _module=None)
