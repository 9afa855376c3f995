"""Collect calls of overloads: record them on the CPU while operators run on their samples, or use handmade
calls.
"""

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
from conformance.samples.handmade_calls.calls import TensorMaker
from conformance.samples.handmade_calls.discriminating import DISCRIMINATING_CALLS
from conformance.samples.operators import (
    LARGE_SAMPLE_ELEMENTS,
    Sample,
    SampleSet,
    dtype_name,
    dtype_of,
    evenly_spaced_indices,
    samples_of,
)
from conformance.subjects.overloads import functional_form_of, name_without_namespace
from conformance.subjects.torch_databases import Subject, find

#: The number of samples of an operator that are run to record its calls.
_SAMPLES_TO_RUN = 8
#: ``_MAX_CALLS``: the maximal number of calls of an overload. ``_MAX_CALLS_OF_ONE_SAMPLE``: the maximal
#: number of calls from one sample of an operator.
_MAX_CALLS = 8
_MAX_CALLS_OF_ONE_SAMPLE = 2
#: No further operator is run if the operators so far yield at least this number of different calls.
_ENOUGH = 4
#: The maximal number of elements of a recorded call. Larger calls reveal nothing more about the overload.
_MAX_ELEMENTS = 4096


class CallRecording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that stores private copies of the arguments of all calls of the overload
    ``overload_name``.

    Calls with tensors that are not strided are ignored. ``dtypes`` maps each recorded overload to the dtypes
    of the first tensors of its calls. If ``overload_name`` is None, only ``dtypes`` is filled, for all
    overloads.
    """

    def __init__(self, overload_name: str | None = None, *, largest: int = _MAX_ELEMENTS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._largest = largest
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.dtypes: dict[str, set[str]] = {}
        self._overload_name = overload_name
        self._names: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "aten":
            name = self._names.get(func)
            if name is None:
                name = self._names[func] = name_without_namespace(functional_form_of(func))
            self._record_call(func, name, args, kwargs)
        return func(*args, **kwargs)

    def _record_call(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._overload_name not in (None, name):
            return
        tensors = trees.tensors((args, kwargs))
        if not all(t.layout is torch.strided and not t.is_quantized and not t.is_nested for t in tensors):
            return
        first = next((dtype_name(t.dtype) for t in tensors), None)
        if first is not None:
            self.dtypes.setdefault(name, set()).add(first)
        if self._overload_name is None or trees.numel((args, kwargs)) > self._largest:
            return
        outs = {a.name for a in func._schema.arguments if a.kwarg_only and a.alias_info is not None}
        if "out" in kwargs or outs & set(kwargs):
            kwargs = {key: value for key, value in kwargs.items() if key not in outs}
        self.calls.append(Copier(torch.device("cpu"), check=False).copy_tree((args, kwargs)))


def record_calls(
    operator: Subject, dtype: torch.dtype, sample: Sample, recording: CallRecording, *, backward: bool
) -> None:
    """Run an operator on a copy of a sample while ``recording`` is active, with the backward pass if
    ``backward`` is true.

    If the operator raises an exception, the calls before the exception stay recorded.
    """
    host = to_host(sample)
    try:
        with torch_testing_internals.torch_seeded(0), torch_testing_internals.silence_warnings(), recording:
            if not backward:
                with torch.no_grad():
                    host.call(operator.info.op)
                return
            results = trees.tensors(host.call(operator.info.op))
            roots = [t for t in results if t.requires_grad]
            if roots:
                torch.autograd.backward(roots, [_integer_gradient(operator.name, t) for t in roots])
    except Exception:
        return


def _integer_gradient(name: str, root: torch.Tensor) -> torch.Tensor:
    """Return a gradient of small random integers with the shape of ``root``.

    The integers are exact in every dtype and not all equal, so that a kernel that reads a wrong element is
    detected.
    """
    return TensorMaker(name, dtype_name(root.dtype)).values(*root.shape, low=-2, high=2)


_cache: SubjectCache[tuple[str, str], SampleSet] = SubjectCache()


def clear_cache() -> None:
    """Delete all recorded calls (for tests)."""
    _cache.clear()


def calls_of(subject: Subject, dtype: str) -> SampleSet:
    """Return the calls of an overload in one dtype, which is the dtype of the first tensor argument.

    The calls differ in the shapes of their tensors or in other arguments.
    """
    return _cache.value(
        subject.name, ("calls", dtype), lambda: SampleSet(subject.name, _make_calls(subject, dtype))
    )


def cached_calls(subject: Subject, key: tuple[str, str], make: Callable[[], list[Sample]]) -> SampleSet:
    """Return the calls that ``make`` returns, numbered from 0. The calls are made once and cached.

    ``key`` is (purpose, dtype).
    """

    def numbered() -> SampleSet:
        return SampleSet(subject.name, [call.replace(index=index) for index, call in enumerate(make())])

    return _cache.value(subject.name, key, numbered)


def deterministic_calls_of(subject: Subject, dtype: str) -> SampleSet:
    """Return handmade calls of a random overload with arguments that allow only one result."""
    return _cache.value(
        subject.name,
        ("certain", dtype),
        lambda: SampleSet(
            subject.name, calls.handmade_samples(subject.name, dtype, calls.DETERMINISTIC_CALLS)
        ),
    )


def _make_calls(subject: Subject, dtype: str) -> list[Sample]:
    if subject.name in calls.HANDMADE_CALLS:
        return calls.handmade_samples(subject.name, dtype)
    if dtype in subject.info.converted:
        return list(converted_calls(subject, dtype))
    calls_by_form: dict[tuple[Any, ...], Sample] = {}
    backward = subject.info.backward
    for name in subject.info.operators:
        if len(calls_by_form) >= _ENOUGH:
            break
        operator = find("operator", name)
        if dtype not in {dtype_name(d) for d in _supported_dtypes(operator, backward)}:
            continue
        samples = samples_of(operator, dtype_of(dtype), requires_grad=backward)
        for index in evenly_spaced_indices(samples.available, _SAMPLES_TO_RUN):
            if trees.numel(samples[index].arguments) > LARGE_SAMPLE_ELEMENTS:
                continue
            taken_count = 0
            for sample in calls_made_by(subject, operator, dtype, samples[index]):
                if taken_count == _MAX_CALLS_OF_ONE_SAMPLE:
                    break
                form = _call_form(sample)
                if form not in calls_by_form:
                    calls_by_form[form] = sample
                    taken_count += 1
    ordered = sorted(calls_by_form.values(), key=_discrimination_key, reverse=True)
    discriminating = calls.handmade_samples(subject.name, dtype, DISCRIMINATING_CALLS)
    ordered = [*discriminating, *_two_dimensional_call(subject, dtype, ordered), *ordered][:_MAX_CALLS]
    return [sample.replace(index=index) for index, sample in enumerate(ordered)]


#: Arguments that are not converted, because they are indices.
_INDICES = ("index", "indices")


def converted_calls(subject: Subject, dtype: str) -> Iterator[Sample]:
    """Yield the overload's float32 calls, or its int64 calls if there are none, converted to ``dtype``.

    If the overload has calls in neither dtype, calls in a different dtype are converted. Infinite and NaN
    arguments become 1, because an integer dtype does not represent them.
    """
    own = [name for name in subject.info.dtypes if name not in (dtype, *subject.info.converted)]
    source = min(own, key=lambda name: (name != "float32", name != "int64", name))
    names = [argument.name for argument in find(subject.kind, subject.name).info.op._schema.arguments]
    calls = calls_of(subject, source)
    for sample in (calls[index] for index in range(calls.available)):
        arguments = dict(zip(names, (sample.input, *sample.args), strict=False)) | sample.kwargs
        unconverted = {id(t) for name in _INDICES for t in trees.tensors(arguments.get(name))}

        def convert_leaf(value: Any, unconverted: set[int] = unconverted) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return 1
            if (
                not isinstance(value, torch.Tensor)
                or dtype_name(value.dtype) != source
                or id(value) in unconverted
            ):
                return value
            return value.to(dtype_of(dtype))

        input, args, kwargs = trees.tree_map(convert_leaf, sample.arguments)
        yield sample.replace(input=input, args=args, kwargs=kwargs)


def calls_made_by(
    subject: Subject, operator: Subject, dtype: str, sample: Sample, *, largest: int = _MAX_ELEMENTS
) -> Iterator[Sample]:
    """Run ``operator`` on a sample and yield its calls of the overload ``subject`` in one dtype.

    Calls with more than ``largest`` elements in total are omitted.
    """
    recording = CallRecording(subject.name, largest=largest)
    record_calls(operator, dtype_of(dtype), sample, recording, backward=subject.info.backward)
    for args, kwargs in recording.calls:
        if not args:
            return
        call = Sample(0, args[0], tuple(args[1:]), kwargs)
        if dtype_name(call.tensors()[0].dtype) == dtype:
            yield _with_distinct_gradient(subject, call)


def _with_distinct_gradient(subject: Subject, call: Sample) -> Sample:
    """Return the call with new gradient arguments: a gradient whose elements are all equal, such as the
    gradient of a mean, is replaced by a gradient with different elements.
    """
    arguments = [call.input, *call.args]
    schema = find(subject.kind, subject.name).info.op._schema
    for position, argument in enumerate(schema.arguments[: len(arguments)]):
        value = arguments[position]
        if argument.name.startswith("grad") and _is_uniform(value):
            arguments[position] = _integer_gradient(subject.name, value)
    return call.replace(input=arguments[0], args=tuple(arguments[1:]))


def _is_uniform(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() < 2:
        return False
    return (value.is_floating_point() or value.is_complex()) and bool((value == value.reshape(-1)[0]).all())


def callers_with_samples(subject: Subject, dtype: str, count: int) -> Iterator[tuple[Subject, Sample]]:
    """Yield (operator, sample) for each operator that calls an overload, with ``count`` samples of each
    operator.
    """
    if subject.name in calls.HANDMADE_CALLS:
        return  # handmade calls replace the operators' calls
    backward = subject.info.backward
    for name in subject.info.operators:
        operator = find("operator", name)
        if dtype in {dtype_name(d) for d in _supported_dtypes(operator, backward)}:
            samples = samples_of(operator, dtype_of(dtype), requires_grad=backward)
            for index in evenly_spaced_indices(samples.available, count):
                yield operator, samples[index]


def _two_dimensional_call(subject: Subject, dtype: str, ordered: list[Sample]) -> Iterator[Sample]:
    """Yield a two-dimensional variant of the first call of a pointwise overload.

    Many argument layouts need two dimensions. Nothing is yielded if the first call has two dimensions.
    """
    if not find(subject.kind, subject.name).info.pointwise or not ordered or ordered[0].input is None:
        return
    best = ordered[0]
    largest = max(best.tensors(), key=lambda t: t.numel())
    if min(largest.dim(), largest.numel()) >= 2:
        return
    count = largest.numel()
    rows = next((rows for rows in (4, 3, 2, 5, 7) if count > rows and count % rows == 0), 0)
    shape = (rows, count // rows) if rows else (4, 5)

    def make_two_dimensional(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != largest.shape:
            return value
        if rows:
            return value.reshape(shape)
        return TensorMaker(subject.name, dtype_name(value.dtype)).values(*shape)

    input, args, kwargs = trees.tree_map(make_two_dimensional, best.arguments)
    yield best.replace(input=input, args=args, kwargs=kwargs)


def _supported_dtypes(operator: Subject, backward: bool) -> Any:
    return (
        torch_testing_internals.backward_dtypes(operator.info)
        if backward
        else torch_testing_internals.forward_dtypes(operator.info)
    )


def _call_form(sample: Sample) -> tuple[Any, ...]:
    leaf_texts = [
        tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in trees.leaves(sample.arguments)
    ]
    return (*leaf_texts, *sorted(sample.kwargs))


def _discrimination_key(sample: Sample) -> tuple[bool, int, int]:
    """Return a key that is larger for calls with several elements, then with two dimensions, then with more
    tensors.
    """
    tensors = sample.tensors()
    largest = max(tensors, key=lambda t: t.numel())
    return (
        largest.numel() > 1 and all(t.numel() for t in tensors),
        min(largest.dim(), 2),
        len(tensors),
    )
