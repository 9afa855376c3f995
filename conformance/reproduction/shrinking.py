"""Smaller samples that still fail: fewer of them, fewer arguments, smaller shapes, simpler values.

The property itself decides: a candidate counts when its check, run with it as the only sample, finds a
failure of the same signature, and when the same check holds on the CPU, since a sample may become one on
which a right device fails too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.checking import trees
from conformance.model.verdicts import Failure
from conformance.oracle import promises
from conformance.reproduction.trial import Key, Trial, signature
from conformance.samples.operators import Sample

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
#: Seconds that shrinking may take.
BUDGET = 30.0


@dataclasses.dataclass
class Shrunk:
    """What shrinking came to: the sets of samples that still fail, the failure they give, and how it went."""

    sets: dict[Key, list[Any]]
    failure: Failure
    tried: int = 0
    taken: int = 0
    words: str = ""
    sample: Any = None


def shrink(
    trial: Trial, failure: Failure, *, number: int | None, budget: float = BUDGET, simplify: bool = True
) -> Shrunk:
    """The smallest samples found on which the check still fails as it did.

    ``number`` is the sample to begin with (default: that of the failure); with ``simplify`` False the sample
    is only set apart from the others.
    """
    wanted = signature(failure)
    until = time.perf_counter() + budget
    sets = trial.sets()
    found = _alone(trial, sets, failure, wanted, number)
    if found is None:
        words = "the property makes its own samples" if not sets else "it takes several samples to fail"
        return Shrunk(sets, failure, words=f"not shrunk: {words}")
    if _is_random(trial, found.sample):
        found.words += ", not shrunk: its values are random, so that few of them may agree by chance"
        return found
    simpler = candidates if isinstance(found.sample, Sample) else _calls if _is_call(found.sample) else None
    if simplify and simpler is not None:
        _simplify(trial, found, wanted, until, simpler)
    return found


def _alone(
    trial: Trial, sets: dict[Key, list[Any]], failure: Failure, wanted: str, number: int | None
) -> Shrunk | None:
    """One sample as the only one of all sets, where that is enough to fail."""
    first = number if number is not None else failure.sample
    for key, members in sets.items():
        order = [one for one in members if one.index == first]
        if number is None:
            order += [one for one in members if one.index != first][:3]
        for sample in order:
            alone = sample.replace(index=0) if isinstance(sample, Sample) else sample
            candidate: dict[Key, list[Any]] = {other: [] for other in sets}
            candidate[key] = [alone]
            if isinstance(sample, Sample):
                # The same sample stands in every set that a check may look into by number.
                for other, others in sets.items():
                    if other != key and other[0] == "samples" and key[0] == "samples" and first is not None:
                        candidate[other] = [one.replace(index=0) for one in others if one.index == first]
                        break
            for chosen in _with_and_without(candidate, key):
                again = trial.fails(chosen, wanted)
                if again is not None:
                    return Shrunk(chosen, again, sample=alone, words=f"sample {sample.index} alone")
    return None


def _is_random(trial: Trial, sample: Any) -> bool:
    if isinstance(sample, Sample):
        return promises.is_random(trial.subject.name, sample)
    return bool(getattr(sample, "random", False))


def _with_and_without(candidate: dict[Key, list[Any]], key: Key) -> Iterator[dict[Key, list[Any]]]:
    yield {other: (members if other == key else []) for other, members in candidate.items()}
    if any(members for other, members in candidate.items() if other != key):
        yield candidate


def _key_of(found: Shrunk) -> Key:
    return next(key for key, members in found.sets.items() if any(one is found.sample for one in members))


def _simplify(
    trial: Trial, found: Shrunk, wanted: str, until: float, simpler: Callable[[Any], Iterator[Any]]
) -> None:
    key = _key_of(found)
    right = trial.on_cpu()
    if right is not None and not right.holds(found.sets):
        right = None  # it says nothing where the CPU fails as well
    progress = True
    while progress and time.perf_counter() < until:
        progress = False
        for candidate in simpler(found.sample):
            if time.perf_counter() >= until:
                found.words += f"; stopped after {found.tried} candidates"
                return
            found.tried += 1
            sets = {**found.sets, key: [candidate]}
            again = trial.fails(sets, wanted)
            if again is not None and (right is None or right.holds(sets)):
                found.sets, found.sample, found.failure = sets, candidate, again
                found.taken += 1
                progress = True
                break


def candidates(sample: Sample) -> Iterator[Sample]:
    """Simpler samples, the greatest simplifications first."""
    for name in sample.kwargs:
        yield sample.replace(kwargs={key: value for key, value in sample.kwargs.items() if key != name})
    if sample.args:
        yield sample.replace(args=sample.args[:-1])
    yield from _shorter_lists(sample)
    yield from _smaller(sample)
    yield from _plainer(sample)


def _changed(sample: Sample, change: Callable[[Any], Any]) -> Sample | None:
    """The sample with ``change`` applied to each leaf; None where nothing changed or it cannot be made."""
    changed = False
    made: dict[int, Any] = {}

    def leaf(value: Any) -> Any:
        nonlocal changed
        if id(value) in made:
            return made[id(value)]
        new = change(value)
        if new is not value:
            changed = True
        made[id(value)] = new
        return new

    try:
        with torch.no_grad():
            input, args, kwargs = trees.tree_map(leaf, sample.arguments)
    except Exception:
        return None
    return sample.replace(input=input, args=args, kwargs=kwargs) if changed else None


def _shorter_lists(sample: Sample) -> Iterator[Sample]:
    """Lists of tensors with fewer of them."""

    def shorter(tree: Any) -> Any:
        if (
            isinstance(tree, (list, tuple))
            and len(tree) > 1
            and all(isinstance(x, torch.Tensor) for x in tree)
        ):
            return type(tree)(tree[:1]) if type(tree) in (list, tuple) else tree
        return tree

    input, args = shorter(sample.input), tuple(map(shorter, sample.args))
    if input is not sample.input or any(a is not b for a, b in zip(args, sample.args, strict=True)):
        yield sample.replace(input=input, args=args)


def _strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_nested


def _own(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A plain tensor of its own memory, which requires grad where ``like`` does."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.clone(memory_format=torch.contiguous_format).requires_grad_(like.requires_grad)


def _smaller(sample: Sample) -> Iterator[Sample]:
    """Fewer dimensions and shorter ones, in all tensors alike or in one alone."""
    tensors = [t for t in sample.tensors() if _strided(t)]
    ranks = sorted({t.dim() for t in tensors if t.dim() > 0}, reverse=True)
    for rank in ranks:
        for end in (0, -1):
            yield from _some(_changed(sample, functools.partial(_flattened, rank=rank, end=end)))
    lengths = sorted({n for t in tensors for n in t.shape if n > 1}, reverse=True)
    for length in lengths:
        for new in dict.fromkeys((1, 2, length // 2, length - 1)):
            for numbers, layout in itertools.product((False, True), repeat=2):
                if 0 < new < length:
                    cut = functools.partial(_cut, old=length, new=new, numbers=numbers, layout=layout)
                    yield from _some(_changed(sample, cut))
    for tensor in tensors:
        for dim, length in enumerate(tensor.shape):
            for new in dict.fromkeys((1, length // 2)):
                if 0 < new < length:
                    shorter = _own(tensor.detach().narrow(dim, 0, new), tensor)
                    yield from _some(_changed(sample, functools.partial(_swapped, old=tensor, new=shorter)))


def _flattened(value: Any, rank: int, end: int) -> Any:
    """A tensor of that rank without its first or last dimension."""
    if not _strided(value) or value.dim() != rank or value.shape[end] == 0:
        return value
    return _own(value.detach().select(end, 0), value)


def _swapped(value: Any, old: Any, new: Any) -> Any:
    return new if value is old else value


def _cut(value: Any, old: int, new: int, numbers: bool, layout: bool) -> Any:
    """Every dimension of ``old`` elements cut to ``new``; with ``numbers`` such numbers in arguments as well.

    With ``layout`` what is left stays where it is in memory.
    """
    if not _strided(value):
        return new if numbers and type(value) is int and value == old else value
    if old not in value.shape or (layout and value.is_contiguous()):
        return value
    part = value.detach()
    for dim, length in enumerate(value.shape):
        if length == old:
            part = part.narrow(dim, 0, new)
    # Whole numbers may be places in a dimension that has become shorter.
    if value.dtype in _SIGNED and value.numel() and int(value.min()) >= 0 and int(value.max()) < old:
        part = part.remainder(new)
    return part.requires_grad_(value.requires_grad) if layout else _own(part, value)


def _some(sample: Sample | None) -> Iterator[Sample]:
    if sample is not None:
        yield sample


def _plainer(sample: Sample) -> Iterator[Sample]:
    """Simpler memory and values, one tensor or number after the other."""
    for leaf in trees.leaves(sample.arguments):
        for new in _plainer_leaf(leaf):
            yield from _some(_changed(sample, functools.partial(_swapped, old=leaf, new=new)))


def _plainer_leaf(leaf: Any) -> Iterator[Any]:
    if isinstance(leaf, bool):
        if leaf:
            yield False
    elif isinstance(leaf, int):
        yield from (new for new in (0, 1) if abs(new) < abs(leaf))
    elif isinstance(leaf, float):
        yield from (new for new in (0.0, 1.0, 0.5, float(round(leaf))) if _simpler(leaf, new))
    elif _strided(leaf) and leaf.numel():
        yield from _plainer_tensor(leaf)


def _simpler(old: float, new: float) -> bool:
    """Whether a number takes less to write, so that shrinking ends."""
    return (len(repr(new)), repr(new)) < (len(repr(old)), repr(old)) and new == new and old == old


def _cost(tensor: torch.Tensor) -> int:
    return sum(len(repr(value)) for value in tensor.detach().resolve_conj().resolve_neg().flatten().tolist())


def _plainer_tensor(leaf: torch.Tensor) -> Iterator[torch.Tensor]:
    elsewhere = leaf.untyped_storage().nbytes() != leaf.numel() * leaf.itemsize
    if not leaf.is_contiguous() or leaf.storage_offset() or leaf.is_conj() or leaf.is_neg() or elsewhere:
        yield _own(leaf, leaf)
        return  # values of memory that matters are left alone
    if leaf.numel() > 4096:
        return
    plain = leaf.detach()
    before = _cost(plain)
    makes: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.zeros_like, torch.ones_like]
    if plain.is_floating_point():
        makes += [
            torch.round,
            lambda t: (t * 4).round() / 4,
            lambda t: (t.double() * 100).round().div(100).to(t.dtype),
        ]
    elif plain.is_complex():
        makes.append(lambda t: torch.view_as_complex(torch.view_as_real(t).round()))
    for make in makes:
        try:
            new = make(plain)
        except (RuntimeError, NotImplementedError):
            continue
        if _cost(new) < before:
            yield new.requires_grad_(leaf.requires_grad)


def _is_call(sample: Any) -> bool:
    return hasattr(sample, "constructor") and hasattr(sample, "call")


def _calls(sample: Any) -> Iterator[Any]:
    """Simpler calls of a module: fewer keywords of the constructor, smaller arguments."""
    args, kwargs = sample.constructor
    for name in kwargs:
        rest = {key: value for key, value in kwargs.items() if key != name}
        yield dataclasses.replace(sample, constructor=(args, rest), _module=None)
    call_args, call_kwargs = sample.call
    for smaller in candidates(Sample(0, call_args, (), call_kwargs)):
        if isinstance(smaller.input, tuple):
            yield dataclasses.replace(sample, call=(smaller.input, smaller.kwargs), _module=None)
