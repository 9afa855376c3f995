"""First derivatives asked for in other ways."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees
from conformance.framework.calls import CallOutcome
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.properties.operators import _gradients
from conformance.properties.shared.dtypes import differentiable, pristine
from conformance.properties.shared.execution import WRITES_TWICE, copy_in
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2

#: Those of the inputs that were asked for; None if there is none.
Gradients = list[torch.Tensor | None]
#: Inputs and results of which each is asked for alone.
_ALONE = 3


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in WRITES_TWICE or subject.name == "as_strided_scatter":
        return []  # several positions write to one element
    return differentiable(target, subject, ("float64", "float32", "complex64"))[:1]


@dataclasses.dataclass(frozen=True)
class GradientRequest:
    """A way to ask for gradients: of one input alone, from one result alone, from gradients in some layout,
    of an operator that is called several times.
    """

    words: str
    input: int | None = None
    result: int | None = None
    #: ``dense``, ``strided``, or ``ones`` as a dense tensor or ``expanded``.
    layout: str = "dense"
    #: Whether the other results have a gradient of zeros rather than none.
    zeros: bool = False
    calls: int = 1


@register(
    "gradient-uses",
    subject_kind="operator",
    statement=(
        "Gradients do not depend on which other inputs want one, on the layout of the gradients that they "
        "come from, or on whether other results have none or zeros; they add up if an input is used twice."
    ),
    documentation="notes/autograd.html",
    level="training",
    applies=applies,
    capabilities=("autograd",),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    info = pristine(subject)
    # In other dtypes two right devices round otherwise: there the device is held to what it gives itself.
    precise = recorder.id.dtype in ("float64", "complex128")
    for sample, _ in _gradients.cases(target, subject, recorder, LIMIT):
        known: dict[GradientRequest, Gradients] = {}

        def on_the_cpu(
            way: GradientRequest, sample: Sample = sample, known: dict[GradientRequest, Gradients] = known
        ) -> Gradients | None:
            if way not in known:
                call = functools.partial(_gradients_by, info, info.op, to_host(sample), way)
                outcome = _gradients.on_cpu(recorder, sample, call)
                if not outcome.ok:
                    return None
                known[way] = outcome.value
            return known[way]

        results = _gradients.on_cpu(recorder, sample, functools.partial(_places, info, to_host(sample)))
        if not results.ok or not results.value:
            recorder.compared(1)  # the CPU has no derivative either
            continue
        size = max(map(_gradients.largest, _gradients.inputs_of(sample)), default=0.0)
        for way, alike in _ways(len(_gradients.inputs_of(sample)), results.value):
            due = on_the_cpu(alike)
            own = due if precise or due is None else _on_device(target, recorder, subject, sample, alike, due)
            if due is None or own is None:
                continue
            due, own = _for(way, due), _for(way, own)
            _agree(target, recorder, subject, sample, way, (due, own), on_the_cpu, size)


def _for(way: GradientRequest, plain: Gradients) -> Gradients:
    """Return the part of plain gradients that a way asks for, as often as it calls the operator."""
    due = [None if g is None else way.calls * g.cpu() for g in plain]
    return due if way.input is None else due[way.input : way.input + 1]


def _on_device(
    target: Target, recorder: Recorder, subject: Subject, sample: Sample, way: GradientRequest, due: Gradients
) -> Gradients | None:
    """Return the device's gradients; None if it raised, which is recorded."""
    copy = copy_in(target, recorder, sample)
    if copy is None:
        return None
    call = functools.partial(_gradients_by, subject.info, subject.info.op, copy, way)
    with torch_testing_internals.quiet():
        found: Gradients | None = _gradients.on_target(
            target, recorder, sample, call, CallOutcome(value=due), f"the backward {way.words}"
        )
    return found


def _agree(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    way: GradientRequest,
    expected: tuple[Gradients, Gradients],
    on_the_cpu: Callable[[GradientRequest], Gradients | None],
    size: float,
) -> None:
    """Compare with what is due of the CPU, and of the target."""
    due, held = expected
    trial = recorder.trial()
    actual = _on_device(target, trial, subject, sample, way, due)
    if actual is not None:
        _compare(target, trial, subject, sample, way, actual, held, size)
    if trial.failed and not target.is_cpu:
        # The CPU's own kernels may not keep to it: then no device is held to it.
        twin, own = recorder.trial(), on_the_cpu(way)
        if own is not None:
            _compare(target.on_cpu(), twin, subject, sample, way, own, due, size)
        if own is None or twin.failed:
            recorder.compared(1)
            recorder.note(f"the CPU does not keep to this itself, {way.words}")
            return
    recorder.absorb(trial)


def _compare(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    way: GradientRequest,
    actual: Gradients,
    due: Gradients,
    size: float,
) -> None:
    _gradients.compare_gradients(
        target, recorder, subject, sample, actual, due, label=f"the gradient {way.words}", size=size
    )


def _ways(inputs: int, results: Sequence[int]) -> Iterator[tuple[GradientRequest, GradientRequest]]:
    """Yield ways to ask, each with one that gives the same gradients."""
    plain = GradientRequest("of all inputs")
    yield GradientRequest("from strided gradients", layout="strided"), plain
    yield (
        GradientRequest("from expanded gradients", layout="expanded"),
        GradientRequest("from ones", layout="ones"),
    )
    yield GradientRequest("of an input that is used twice", calls=2), plain
    if inputs > 1:
        for input in range(min(inputs, _ALONE)):
            yield GradientRequest(f"of input {input} alone", input=input), plain
    if len(results) > 1:
        for result in results[:_ALONE]:
            words = f"from result {result} alone"
            yield GradientRequest(words, result=result), GradientRequest(words, result=result, zeros=True)


def _results(info: Any, op: Any, sample: Sample) -> list[torch.Tensor]:
    """Return the floating and complex results, whether they have a graph or not."""
    result = torch_testing_internals.gradcheck_wrapper(info)(op, sample.input, *sample.args, **sample.kwargs)
    if sample.process is not None:
        result = sample.process(result)
    return [
        t
        for t in trees.tensors(result)
        if (t.is_floating_point() or t.is_complex()) and t.layout is torch.strided
    ]


def _places(info: Any, sample: Sample) -> list[int]:
    """Return the places of the results with a graph."""
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        return [place for place, t in enumerate(_results(info, info.op, sample)) if t.requires_grad]


def _gradients_by(info: Any, op: Any, sample: Sample, way: GradientRequest) -> Gradients:
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        inputs = _gradients.inputs_of(sample)
        if way.input is not None:
            kept = inputs[way.input]
            inputs = [kept]
            given = trees.tree_map(
                lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) and leaf is not kept else leaf,
                sample.arguments,
            )
            sample = sample.replace(input=given[0], args=given[1], kwargs=given[2])
        outputs, cotangents = [], []
        for _ in range(way.calls):
            for place, output in enumerate(_results(info, op, sample)):
                if not output.requires_grad:
                    continue
                if way.result is not None and place != way.result:
                    if not way.zeros:
                        continue
                    cotangent = torch.zeros_like(output)
                else:
                    cotangent = _cotangent(output, place, way.layout)
                outputs.append(output)
                cotangents.append(cotangent)
        if not outputs:
            return [None] * len(inputs)
        return list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))


def _cotangent(output: torch.Tensor, place: int, layout: str) -> torch.Tensor:
    if layout in ("ones", "expanded"):
        one = torch.ones((), dtype=output.dtype, device=output.device).expand(output.shape)
        return one.contiguous() if layout == "ones" else one
    dense = _gradients.noise_for(output, 17 + place)
    if layout == "dense" or dense.dim() == 0:
        return dense
    # Every other element of memory that is twice as large, behind an offset.
    wide = torch.zeros((*dense.shape[:-1], 2 * dense.shape[-1] + 1), dtype=dense.dtype, device=dense.device)
    strided = wide[..., 1::2]
    strided.copy_(dense)
    return strided
