"""Compiled calls keep to the memory of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt
from conformance.framework.compare import compare_exact, compare_metadata, fact, on_host
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _compile_checks
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY, cpu_accepts, transformed
from conformance.properties.operators.layout import gapped, reversed_order, shifted
from conformance.properties.operators.views import aliases, may_alias
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import first_dtypes
from conformance.properties.shared.execution import copy_in
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 3


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not _compile_checks.has_graph(subject):
        return []
    if subject.name in ABOUT_MEMORY and not may_alias(subject.info.name):
        return []
    return first_dtypes(target, subject, ("float32", "int64", "complex64", "bool"))


@register(
    "compile_views",
    subject_kind="operator",
    statement=(
        "Compiled, strided inputs at an offset give the oracle's values; views share memory with their "
        "base, even if the graph writes to them."
    ),
    documentation="generated/torch.compile.html",
    level="core",
    applies=applies,
    capabilities=("compile", "views"),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    compiler = _compile_checks.Compiler(target, recorder)
    if may_alias(subject.info.name):
        _outputs(target, subject, recorder, compiler)
    elif not _inputs(target, subject, recorder, compiler):
        recorder.note("the operator takes no tensor that could have another layout")
        recorder.compared(1)
        return
    compiler.settle()


def awkward(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values transposed and with gaps if there are two dimensions, else at an offset."""
    return gapped(reversed_order(tensor)) if tensor.dim() > 1 else shifted(tensor)


def _inputs(target: Target, subject: Subject, recorder: Recorder, compiler: _compile_checks.Compiler) -> bool:
    reference = _compile_checks.unseeded_operator(find("operator", subject.name))
    for sample, want in _compile_checks.cases(target, subject, recorder, LIMIT):
        derived = transformed(sample, awkward)
        copy = None if derived is None else copy_in(target, recorder, derived)
        if derived is None or copy is None:
            continue
        if not cpu_accepts(reference, derived):
            continue
        what = "the compiled operator on strided inputs"
        again = copy_in(target, recorder, derived)
        outcome = compiler.forward(
            derived, copy, _compile_checks.unseeded_operator(subject), reference, again=again, label=what
        )
        if outcome is not None:
            what = "the compiled result of strided inputs"
            compare_outputs(target, recorder, subject, sample, outcome.value, want, label=what)
        return True
    return recorder.failed


def writing(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``op``, whose results are then set to one within the same graph."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = op(*args, **kwargs)
        for part in result if isinstance(result, (tuple, list)) else (result,):
            part.fill_(1)
        return result

    return call


def _writable(tensor: torch.Tensor) -> bool:
    """Return whether every element has memory of its own, as writing demands."""
    if tensor.layout is not torch.strided:
        return False
    places = torch.arange(tensor.untyped_storage().nbytes() // tensor.itemsize)
    taken = places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return not tensor.numel() or int(torch.bincount(taken.flatten()).max()) == 1


def _outputs(
    target: Target, subject: Subject, recorder: Recorder, compiler: _compile_checks.Compiler
) -> None:
    reference = _compile_checks.unseeded_operator(find("operator", subject.name))
    # Functionalisation knows the memory behind an argument only as far as its elements reach.
    about_memory = subject.name in ABOUT_MEMORY
    for sample, want in _compile_checks.cases(target, subject, recorder, 3 * LIMIT):
        if compiler.captured == LIMIT:
            break
        given = sample.input
        strided = isinstance(given, torch.Tensor) and given.layout is torch.strided and bool(given.numel())
        host = to_host(sample)
        reference_call = attempt(lambda host=host: host.call(writing(reference)))  # type: ignore[misc]
        results = trees.tensors(want.outputs)
        if (
            not strided
            or not reference_call.ok
            or not results
            or not all(map(_writable, results))
            or about_memory
        ):
            # Overlapping memory, numbers: the values are all that can be compared.
            copy = copy_in(target, recorder, sample)
            if copy is not None:
                again = copy_in(target, recorder, sample)
                outcome = compiler.forward(
                    sample, copy, _compile_checks.unseeded_operator(subject), reference, again=again
                )
                if outcome is not None:
                    compare_outputs(target, recorder, subject, sample, outcome.value, want)
            continue
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        what = "the compiled operator with a write to its result"
        written = writing(_compile_checks.unseeded_operator(subject))
        again = copy_in(target, recorder, sample)
        outcome = compiler.forward(sample, copy, written, writing(reference), again=again, label=what)
        if outcome is not None:
            _compare(recorder, sample, host, copy, reference_call.value, outcome.value)


def _compare(
    recorder: Recorder, sample: Sample, host: Sample, copy: Sample, expected: Any, actual: Any
) -> None:
    index = sample.index
    for place, (want, got) in enumerate(zip(trees.tensors(expected), trees.tensors(actual), strict=False)):
        shared, is_shared = aliases(want, host.input), aliases(got, copy.input)
        word = "shares no memory" if shared else "shares memory"
        message = f"compiled, output {place} {word} with the input, unlike on the CPU."
        if fact(recorder, shared == is_shared, Kind.ALIASING, message, sample=index) and shared:
            compare_metadata(recorder, got, want, label=f"output {place}", sample=index, stride=True)
    what = "the input after a compiled write to its view"
    compare_exact(recorder, copy.input, on_host(host.input), label=what, sample=index)
