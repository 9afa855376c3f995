"""Calls of overloads: recorded on the CPU while operators run on their samples, or built."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import Copier, to_host
from conformance.samples.handmade_calls import calls
from conformance.samples.handmade_calls.calls import Maker
from conformance.samples.handmade_calls.discriminating import TELLING
from conformance.samples.operators import LARGE, Sample, SampleSet, dtype_name, dtype_of, evenly, samples_of
from conformance.subjects.overloads import function_of, name_of
from conformance.subjects.torch_databases import Subject, find

#: Samples of an operator that are run for their calls.
_SAMPLES = 8
#: Calls of an overload that are kept; of one sample at most so many.
_CALLS = 8
_OF_ONE_SAMPLE = 2
#: With so many of one operator no other is asked.
_ENOUGH = 4
#: Calls with larger tensors say no more about the overload.
_LARGEST = 4096


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, keeps private copies of the arguments of calls, by the name of their overload.

    Only calls whose tensors are all strided; ``wanted`` names the only overload to keep, None keeps none but
    counts: ``dtypes`` holds the dtype of the first tensor of every call.
    """

    def __init__(self, wanted: str | None = None, *, largest: int = _LARGEST) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._largest = largest
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.dtypes: dict[str, set[str]] = {}
        self._wanted = wanted
        self._names: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "aten":
            name = self._names.get(func)
            if name is None:
                name = self._names[func] = name_of(function_of(func))
            self._note(func, name, args, kwargs)
        return func(*args, **kwargs)

    def _note(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._wanted not in (None, name):
            return
        tensors = trees.tensors((args, kwargs))
        if not all(t.layout is torch.strided and not t.is_quantized and not t.is_nested for t in tensors):
            return
        first = next((dtype_name(t.dtype) for t in tensors), None)
        if first is not None:
            self.dtypes.setdefault(name, set()).add(first)
        if self._wanted is None or trees.numel((args, kwargs)) > self._largest:
            return
        outs = {a.name for a in func._schema.arguments if a.kwarg_only and a.alias_info is not None}
        if "out" in kwargs or outs & set(kwargs):
            kwargs = {key: value for key, value in kwargs.items() if key not in outs}
        self.calls.append(Copier(torch.device("cpu"), check=False).tree((args, kwargs)))


def record(
    operator: Subject, dtype: torch.dtype, sample: Sample, recording: Recording, *, backward: bool
) -> None:
    """Run an operator on a copy of a sample, and its backward pass; what raises was still recorded."""
    host = to_host(sample)
    try:
        with torch_testing_internals.torch_seeded(0), torch_testing_internals.quiet(), recording:
            if not backward:
                with torch.no_grad():
                    host.call(operator.info.op)
                return
            results = trees.tensors(host.call(operator.info.op))
            roots = [t for t in results if t.requires_grad]
            if roots:
                torch.autograd.backward(roots, [_gradient(operator.name, t) for t in roots])
    except Exception:
        return


def _gradient(name: str, root: torch.Tensor) -> torch.Tensor:
    """Return values that differ: of ones a kernel may read any, and they are exact in every dtype."""
    return Maker(name, dtype_name(root.dtype)).values(*root.shape, low=-2, high=2)


_cache: SubjectCache[tuple[str, str], SampleSet] = SubjectCache()


def forget() -> None:
    """Drop all recorded calls (for tests)."""
    _cache.clear()


def calls_of(subject: Subject, dtype: str) -> SampleSet:
    """Return calls of an overload whose first tensor has a dtype, each of another form, as samples."""
    return _cache.value(
        subject.name, ("calls", dtype), lambda: SampleSet(subject.name, _calls(subject, dtype))
    )


def kept(subject: Subject, key: tuple[str, str], make: Callable[[], list[Sample]]) -> SampleSet:
    """Return further calls of an overload, made once and kept beside the others as long as they are.

    ``key`` says what they are for and the dtype; the set numbers the calls from 0.
    """

    def numbered() -> SampleSet:
        return SampleSet(subject.name, [call.replace(index=index) for index, call in enumerate(make())])

    return _cache.value(subject.name, key, numbered)


def certain_calls_of(subject: Subject, dtype: str) -> SampleSet:
    """Return calls of an overload that draws random numbers whose result is the same for all of them."""
    return _cache.value(
        subject.name,
        ("certain", dtype),
        lambda: SampleSet(subject.name, calls.samples(subject.name, dtype, calls.CERTAIN)),
    )


def _calls(subject: Subject, dtype: str) -> list[Sample]:
    if subject.name in calls.BUILT:
        return calls.samples(subject.name, dtype)
    if dtype in subject.info.converted:
        return list(converted(subject, dtype))
    found: dict[tuple[Any, ...], Sample] = {}
    backward = subject.info.backward
    for name in subject.info.operators:
        if len(found) >= _ENOUGH:
            break
        operator = find("operator", name)
        if dtype not in {dtype_name(d) for d in _dtypes(operator, backward)}:
            continue
        samples = samples_of(operator, dtype_of(dtype), requires_grad=backward)
        for index in evenly(samples.available, _SAMPLES):
            if trees.numel(samples[index].arguments) > LARGE:
                continue
            taken = 0
            for sample in made_by(subject, operator, dtype, samples[index]):
                if taken == _OF_ONE_SAMPLE:
                    break
                form = _form(sample)
                if form not in found:
                    found[form] = sample
                    taken += 1
    ordered = sorted(found.values(), key=_worth, reverse=True)
    telling = calls.samples(subject.name, dtype, TELLING)
    ordered = [*telling, *_in_rows(subject, dtype, ordered), *ordered][:_CALLS]
    return [sample.replace(index=index) for index, sample in enumerate(ordered)]


#: Arguments that keep their dtype, as they are places.
_INDICES = ("index", "indices")


def converted(subject: Subject, dtype: str) -> Iterator[Sample]:
    """Yield the calls of an overload in the dtype of most of its calls, with tensors of another dtype.

    A number that is infinite or NaN is 1 there, as other dtypes have no such number.
    """
    own = [name for name in subject.info.dtypes if name not in (dtype, *subject.info.converted)]
    source = min(own, key=lambda name: (name != "float32", name != "int64", name))
    names = [argument.name for argument in find(subject.kind, subject.name).info.op._schema.arguments]
    calls = calls_of(subject, source)
    for sample in (calls[index] for index in range(calls.available)):
        given = dict(zip(names, (sample.input, *sample.args), strict=False)) | sample.kwargs
        kept = {id(t) for name in _INDICES for t in trees.tensors(given.get(name))}

        def leaf(value: Any, kept: set[int] = kept) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return 1
            if not isinstance(value, torch.Tensor) or dtype_name(value.dtype) != source or id(value) in kept:
                return value
            return value.to(dtype_of(dtype))

        input, args, kwargs = trees.tree_map(leaf, sample.arguments)
        yield sample.replace(input=input, args=args, kwargs=kwargs)


def made_by(
    subject: Subject, operator: Subject, dtype: str, sample: Sample, *, largest: int = _LARGEST
) -> Iterator[Sample]:
    """Yield the calls of an overload that an operator makes for a sample, with tensors of at most ``largest``
    elements together.
    """
    recording = Recording(subject.name, largest=largest)
    record(operator, dtype_of(dtype), sample, recording, backward=subject.info.backward)
    for args, kwargs in recording.calls:
        if not args:
            return
        call = Sample(0, args[0], tuple(args[1:]), kwargs)
        if dtype_name(call.tensors()[0].dtype) == dtype:
            yield _with_telling_gradient(subject, call)


def _with_telling_gradient(subject: Subject, call: Sample) -> Sample:
    """The call with values that differ for a gradient that is the same everywhere, as of a mean."""
    given = [call.input, *call.args]
    schema = find(subject.kind, subject.name).info.op._schema
    for position, argument in enumerate(schema.arguments[: len(given)]):
        value = given[position]
        if argument.name.startswith("grad") and _is_uniform(value):
            given[position] = _gradient(subject.name, value)
    return call.replace(input=given[0], args=tuple(given[1:]))


def _is_uniform(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() < 2:
        return False
    return (value.is_floating_point() or value.is_complex()) and bool((value == value.reshape(-1)[0]).all())


def sources(subject: Subject, dtype: str, count: int) -> Iterator[tuple[Subject, Sample]]:
    """Yield operators that call an overload, each with ``count`` of its samples."""
    if subject.name in calls.BUILT:
        return  # no operator calls it
    backward = subject.info.backward
    for name in subject.info.operators:
        operator = find("operator", name)
        if dtype in {dtype_name(d) for d in _dtypes(operator, backward)}:
            samples = samples_of(operator, dtype_of(dtype), requires_grad=backward)
            for index in evenly(samples.available, count):
                yield operator, samples[index]


def _in_rows(subject: Subject, dtype: str, ordered: list[Sample]) -> Iterator[Sample]:
    """Yield a pointwise call in two dimensions if operators make none: many layouts need them."""
    if not find(subject.kind, subject.name).info.pointwise or not ordered or ordered[0].input is None:
        return
    best = ordered[0]
    largest = max(best.tensors(), key=lambda t: t.numel())
    if min(largest.dim(), largest.numel()) >= 2:
        return
    count = largest.numel()
    rows = next((rows for rows in (4, 3, 2, 5, 7) if count > rows and count % rows == 0), 0)
    shape = (rows, count // rows) if rows else (4, 5)

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != largest.shape:
            return value
        if rows:
            return value.reshape(shape)
        return Maker(subject.name, dtype_name(value.dtype)).values(*shape)

    input, args, kwargs = trees.tree_map(leaf, best.arguments)
    yield best.replace(input=input, args=args, kwargs=kwargs)


def _dtypes(operator: Subject, backward: bool) -> Any:
    return (
        torch_testing_internals.backward_dtypes(operator.info)
        if backward
        else torch_testing_internals.forward_dtypes(operator.info)
    )


def _form(sample: Sample) -> tuple[Any, ...]:
    words = [
        tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in trees.leaves(sample.arguments)
    ]
    return (*words, *sorted(sample.kwargs))


def _worth(sample: Sample) -> tuple[bool, int, int]:
    """Calls with several elements in several dimensions first; among them those with more arguments."""
    tensors = sample.tensors()
    largest = max(tensors, key=lambda t: t.numel())
    return (
        largest.numel() > 1 and all(t.numel() for t in tensors),
        min(largest.dim(), 2),
        len(tensors),
    )
