"""The oracle: what a result should be, computed on the CPU and as far as possible in float64.

For one sample three things are computed, once per process: the result of the same call on the CPU in the same
dtype (``plain``: shapes, dtypes, strides, integer results), the result of the call with all floating
arguments and the default dtype in float64 (``precise``), and how far ``precise`` moves when the inputs move
by half a unit of the dtype (``spread``, see :mod:`conformance.checking.tolerances`).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import zlib
from collections.abc import Iterator
from typing import Any

import torch

from conformance import torch_private
from conformance.checking import trees
from conformance.checking.tolerances import Rule, rule, unit_of
from conformance.oracle import announcements, promises
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, SampleSet, bits, dtype_name, dtype_of, samples_of
from conformance.subjects.databases import Subject, find

#: One in so many oracle values is recomputed in a process that never loaded the backend.
RECOMPUTED = 50
#: Step of the probes and how many there are.
PROBES = 2
#: In float64 the oracle has no more digits than the result, so the step must stand out of its rounding.
_STEP_DOUBLE = 2.0**-24

_UP: dict[torch.dtype, torch.dtype] = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


@dataclasses.dataclass
class Expected:
    """What the CPU says about one sample. Where it raised, ``error`` is set and the rest is None.

    ``precise`` has the nesting of ``plain`` with float64 or complex128 leaves; it is ``plain`` itself where
    the rule asks for the same dtype or float64 is refused. ``spread`` holds one float64 tensor, or None,
    per tensor.
    """

    plain: Any = None
    precise: Any = None
    spread: list[torch.Tensor | None] = dataclasses.field(default_factory=list)
    error: Exception | None = None
    elements: int = 1
    computed: torch.dtype = torch.float32
    raised_precision: bool = False
    uninitialised: bool = False

    @property
    def ok(self) -> bool:
        return self.error is None


@contextlib.contextmanager
def _surroundings(default: torch.dtype, seed: int) -> Iterator[None]:
    threads = torch.get_num_threads()
    before = torch.get_default_dtype()
    if threads != 1:
        torch.set_num_threads(1)  # the order of sums depends on it
    torch.set_default_dtype(default)
    try:
        with torch_private.torch_seeded(seed), torch_private.quiet():
            yield
    finally:
        torch.set_default_dtype(before)
        if threads != 1:
            torch.set_num_threads(threads)


def call(info: Any, sample: Sample) -> Any:
    """The operator on a sample, results detached from the graph and from the arguments' memory."""
    with torch.no_grad():
        return sample.call(info.op)


def _detached(tree: Any) -> Any:
    def leaf(value: Any) -> Any:
        return value.detach() if isinstance(value, torch.Tensor) else value

    return trees.tree_map(leaf, tree)


def _same_nesting(one: Any, other: Any) -> bool:
    first, second = list(trees.leaves(one)), list(trees.leaves(other))
    if len(first) != len(second):
        return False
    for a, b in zip(first, second, strict=False):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return False
        if isinstance(a, torch.Tensor) and (a.shape != b.shape or a.layout != b.layout):
            return False
    return True


def coarsest(sample: Sample, dtype: torch.dtype) -> torch.dtype:
    """The floating dtype with the largest unit among the arguments; ``dtype`` where they have none."""
    found = [t.dtype for t in sample.tensors() if t.is_floating_point() or t.is_complex()]
    return max(found, key=unit_of) if found else dtype


def _continuous(value: Any, dtype: torch.dtype) -> Any:
    """An argument as something that can move by a fraction of itself, or None.

    Tensors of an integral dtype under test move too, as float64: what an operator makes of them is as
    uncertain as their conversion. Where they are indices the operator refuses them, and there is no spread.
    """
    if isinstance(value, (float, complex)):
        return value
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.numel() == 0:
        return None
    if value.is_floating_point() or value.is_complex():
        return value
    return value.to(torch.float64) if value.dtype == dtype else None


def _perturbed(sample: Sample, dtype: torch.dtype, seed: int, step: float, numbers: bool) -> Sample:
    """All tensors, and with ``numbers`` all Python numbers, of a sample moved by ``step`` in random
    directions.
    """
    generator = torch.Generator().manual_seed(seed)

    def sign() -> int:
        return int(torch.randint(0, 2, (), generator=generator)) * 2 - 1

    def nudge(value: Any) -> Any:
        continuous = _continuous(value, dtype)
        if continuous is None or (isinstance(value, (float, complex)) and not numbers):
            return value
        if not isinstance(continuous, torch.Tensor):
            return continuous * (1 + sign() * step)
        signs = torch.randint(0, 2, value.shape, generator=generator, dtype=torch.int8) * 2 - 1
        return continuous * (1 + signs.to(torch.float64) * step)

    input, args, kwargs = trees.tree_map(nudge, sample.arguments)
    if numbers and isinstance(input, int) and not isinstance(input, bool):
        input = input * (1 + sign() * step)
    return sample.replace(input=input, args=args, kwargs=kwargs)


def _moved(
    info: Any, sample: Sample, dtype: torch.dtype, seed: int, step: float, tensors: list[torch.Tensor]
) -> list[torch.Tensor] | None:
    """The result for moved inputs; where a moved Python number (a scale factor, an order) changes shapes or
    is refused, for moved tensors alone; None where that fails too.
    """
    for numbers in (True, False):
        try:
            found = trees.tensors(call(info, _perturbed(to_host(sample, _UP), dtype, seed, step, numbers)))
        except Exception:
            continue
        if [t.shape for t in found] == [t.shape for t in tensors]:
            return found
    return None


def _with_leaf(tree: Any, place: int, value: Any) -> Any:
    """The tree with another value for its leaf number ``place``."""
    places = iter(range(place + 1))
    return trees.tree_map(lambda leaf: value if next(places, None) == place else leaf, tree)


def _alone(sample: Sample, dtype: torch.dtype, step: float) -> list[list[Sample]]:
    """For every argument with floating values, the sample with that argument alone moved up and down."""
    leaves: list[Any] = []
    trees.tree_map(leaves.append, sample.arguments)
    found = []
    for place, leaf in enumerate(leaves):
        continuous = _continuous(leaf, dtype)
        if continuous is None:
            continue
        pair = []
        for moved in (continuous * (1 + step), continuous * (1 - step)):
            input, args, kwargs = _with_leaf(sample.arguments, place, moved)
            pair.append(sample.replace(input=input, args=args, kwargs=kwargs))
        found.append(pair)
    return found


def _distances(
    wanted: list[int], moved: list[torch.Tensor], tensors: list[torch.Tensor], step: float
) -> dict[int, torch.Tensor]:
    found = {}
    for i in wanted:
        distance = ((moved[i] - tensors[i]).abs() / step).to(torch.float64)
        found[i] = torch.nan_to_num(distance, nan=0.0, posinf=0.0, neginf=0.0)
    return found


def _spread_of_parts(
    info: Any, sample: Sample, dtype: torch.dtype, step: float, tensors: list[torch.Tensor], wanted: list[int]
) -> list[torch.Tensor | None]:
    """The sum over the arguments of how far the result moves with each alone, so that nothing cancels."""
    spread: list[torch.Tensor | None] = [None] * len(tensors)
    for pair in _alone(to_host(sample, _UP), dtype, step):
        larger: dict[int, torch.Tensor] = {}
        for one in pair:
            try:
                moved = trees.tensors(call(info, one))
            except Exception:
                continue
            if [t.shape for t in moved] != [t.shape for t in tensors]:
                continue
            for i, distance in _distances(wanted, moved, tensors, step).items():
                larger[i] = torch.maximum(distance, larger[i]) if i in larger else distance
        for i, distance in larger.items():
            earlier = spread[i]
            spread[i] = distance if earlier is None else earlier + distance
    return spread


def _spread(
    info: Any, sample: Sample, precise: Any, dtype: torch.dtype, seed: int, applied: Rule
) -> list[torch.Tensor | None]:
    tensors = trees.tensors(precise)
    spread: list[torch.Tensor | None] = [None] * len(tensors)
    wanted = [
        i
        for i, t in enumerate(tensors)
        if t.layout is torch.strided and (t.is_floating_point() or t.is_complex())
    ]
    if not wanted:
        return spread
    unit = max(unit_of(coarsest(sample, torch.float32)), *(unit_of(tensors[i].dtype) for i in wanted))
    step = max(unit / 2, _STEP_DOUBLE)
    if applied.separate:
        return _spread_of_parts(info, sample, dtype, step, tensors, wanted)
    for probe in range(PROBES):
        moved = _moved(info, sample, dtype, seed + probe, step, tensors)
        if moved is None:
            continue
        for i, distance in _distances(wanted, moved, tensors, step).items():
            earlier = spread[i]
            spread[i] = distance if earlier is None else torch.maximum(distance, earlier)
    for i in wanted:
        found = spread[i]
        if found is not None and found.numel() and not applied.local:
            spread[i] = torch.maximum(found, found.mean())
    return spread


def compute(subject: Subject, dtype: torch.dtype, sample: Sample, *, seed: int | None = None) -> Expected:
    """What the CPU says about a sample, not cached; never raises for an error of the operator."""
    info = find(subject.kind, subject.name).info
    applied = rule(subject.name, dtype)
    if seed is None:
        seed = torch_private.seed_for("oracle", subject.name, dtype_name(dtype), str(sample.index))
    with _surroundings(torch.get_default_dtype(), seed):
        try:
            plain = _detached(call(info, to_host(sample)))
        except Exception as error:
            return Expected(error=error)
    elements = max([1, *(t.numel() for t in sample.tensors())])
    expected = Expected(plain=plain, precise=plain, elements=elements, computed=coarsest(sample, dtype))
    expected.uninitialised = promises.is_uninitialised(subject.name)
    expected.spread = [None] * len(trees.tensors(plain))
    if not _has_floating_result(plain) or applied.exact or promises.free_of_values(subject.name, sample):
        return expected
    with _surroundings(torch.float64, seed):
        _raise_precision(expected, info, sample, dtype, applied, seed)
    return expected


def _raise_precision(
    expected: Expected, info: Any, sample: Sample, dtype: torch.dtype, applied: Rule, seed: int
) -> None:
    precise = expected.plain
    if applied.oracle == "float64":
        try:
            found = _detached(call(info, to_host(sample, _UP)))
        except Exception:
            found = None
        if found is None or not _same_nesting(found, expected.plain):
            return
        precise = found
        expected.raised_precision = dtype not in (torch.float64, torch.complex128)
    expected.precise = precise
    expected.spread = _spread(info, sample, precise, dtype, seed, applied)


def _has_floating_result(tree: Any) -> bool:
    for leaf in trees.leaves(tree):
        if isinstance(leaf, (float, complex)):
            return True
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            return True
    return False


_OPERATORS_KEPT = 3
_cache: collections.OrderedDict[str, dict[tuple[str, int], Expected]] = collections.OrderedDict()


def expected(subject: Subject, dtype: torch.dtype, index: int, samples: SampleSet | None = None) -> Expected:
    """What the CPU says about the shared sample of that index; computed once per process.

    One in fifty values, always the same ones, is announced to the journal for recomputation elsewhere.
    """
    values = _cache.pop(subject.name, None)
    if values is None:
        values = {}
        while len(_cache) >= _OPERATORS_KEPT:
            _cache.popitem(last=False)
    _cache[subject.name] = values
    key = (dtype_name(dtype), index)
    found = values.get(key)
    if found is None:
        source = samples if samples is not None else samples_of(subject, dtype)
        found = values[key] = compute(subject, dtype, source[index])
        if found.ok and chosen_for_recomputation(subject.name, *key):
            announce(subject.name, key[0], index, found)
    return found


def forget() -> None:
    """Drop all cached values (for tests)."""
    _cache.clear()


def chosen_for_recomputation(operator: str, dtype: str, index: int) -> bool:
    """Whether this value belongs to the fixed two in a hundred that are recomputed."""
    return zlib.crc32(f"{operator}/{dtype}/{index}".encode()) % RECOMPUTED == 0


def announce(operator: str, dtype: str, index: int, found: Expected) -> None:
    """Announce the digest of an oracle value to the journal, if anything receives announcements."""
    if announcements.wanted():
        announcements.announce(operator, dtype, index, digest_of(found))


def _coarse(leaf: torch.Tensor) -> torch.Tensor:
    """Floating values as whole steps of a fraction of the largest one; others as they are.

    Solvers give other last bits where the heap is aligned otherwise; a backend that changes what the CPU
    computes changes more than that.
    """
    if leaf.is_complex():
        leaf = torch.view_as_real(leaf)
    if not leaf.is_floating_point():
        return leaf
    steps = 2.0**20 if leaf.dtype == torch.float64 else 2.0**6
    wide = leaf.double()
    finite = wide.isfinite()
    largest = torch.where(finite, wide.abs(), 0.0).max().clamp_min(torch.finfo(torch.float64).tiny)
    whole = torch.where(finite, (wide / largest * steps).round(), 0.0).long()
    kind = wide.isnan().long() + 2 * wide.isposinf().long() + 4 * wide.isneginf().long()
    return torch.stack([whole, kind])


def digest_of(value: Expected) -> str:
    """A digest of everything that is compared; uninitialised and random results count by their metadata."""
    state = hashlib.sha256()
    if value.error is not None:
        state.update(type(value.error).__name__.encode())
        return state.hexdigest()
    for leaf in [*trees.leaves(value.plain), *trees.leaves(value.precise)]:
        if isinstance(leaf, torch.Tensor):
            state.update(f"{leaf.dtype}{list(leaf.shape)}{leaf.layout}".encode())
            if leaf.layout is torch.strided and leaf.numel() and not value.uninitialised:
                state.update(bits(_coarse(leaf.resolve_conj().resolve_neg().contiguous().clone())))
        elif not callable(leaf):
            state.update(repr(leaf).encode())
    return state.hexdigest()


def digest(op_name: str, dtype_name: str, index: int) -> str:
    """The digest of one oracle value, computed afresh in this process; LookupError for unknown names."""
    subject = find("operator", op_name)
    dtype = dtype_of(dtype_name)
    return digest_of(compute(subject, dtype, samples_of(subject, dtype)[index]))
