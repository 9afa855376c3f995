"""Property: a gradient does not depend on how it is requested, for example for one input alone or for all
inputs together, or from one result or from all results.
"""

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
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import differentiable_dtypes, unmodified_info
from conformance.properties.shared.execution import WRITES_TWICE, copy_sample_to_device
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

LIMIT = 2

#: The gradients of the requested inputs; None for an input without a gradient.
Gradients = list[torch.Tensor | None]
#: The maximum number of inputs whose gradients are requested alone, and of results from which gradients are
#: requested alone.
_ALONE = 3


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name in WRITES_TWICE or subject.name == "as_strided_scatter":
        return []  # several positions write to one element
    return differentiable_dtypes(target, subject, ("float64", "float32", "complex64"))[:1]


@dataclasses.dataclass(frozen=True)
class GradientRequest:
    """One way to request gradients, such as for one input, from one result, or from strided cotangents."""

    description: str
    input: int | None = None
    result: int | None = None
    #: The cotangents: random values (``dense`` or ``strided``), or tensors of ones (``ones`` if dense, or
    #: ``expanded``).
    layout: str = "dense"
    #: Only if ``result`` is set: True passes gradients of zeros for the other results, False passes no
    #: gradients for the other results.
    zero_cotangents_for_other_results: bool = False
    calls: int = 1


@register(
    "gradient-uses",
    subject_kind="operator",
    statement=(
        "Gradients do not depend on the other requested inputs, on the layout of the incoming gradients, or "
        "on whether other results have no gradient or zeros. They add up if an input is used twice."
    ),
    documentation="notes/autograd.html",
    basis="consistency",
    ground="A gradient must not depend on other requested gradients or on the layout of incoming gradients",
    level="training",
    applies=dtypes_to_check,
    capabilities=("autograd",),
    modes=("eager",),
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Request gradients in several ways and compare each with an equivalent request."""
    info = unmodified_info(subject)
    # In double precision, the device's gradients are compared with the CPU's. In other dtypes, correct
    # devices round differently, so both requests are made on the device.
    precise = recorder.id.dtype in ("float64", "complex128")
    for sample, _ in _gradients.differentiable_samples(target, subject, recorder, LIMIT):
        cpu_gradients: dict[GradientRequest, Gradients] = {}

        def gradients_on_cpu(
            request: GradientRequest,
            sample: Sample = sample,
            cpu_gradients: dict[GradientRequest, Gradients] = cpu_gradients,
        ) -> Gradients | None:
            if request not in cpu_gradients:
                call = functools.partial(
                    _compute_requested_gradients, info, info.op, to_host(sample), request
                )
                outcome = _gradients.outcome_on_cpu(recorder, sample, call)
                if not outcome.ok:
                    return None
                cpu_gradients[request] = outcome.value
            return cpu_gradients[request]

        results = _gradients.outcome_on_cpu(
            recorder, sample, functools.partial(_indices_of_results_with_graph, info, to_host(sample))
        )
        if not results.ok or not results.value:
            recorder.compared(1)  # the CPU has no derivative, so there is nothing to compare
            continue
        size = max(map(_gradients.largest_magnitude, _gradients.differentiable_inputs(sample)), default=0.0)
        for request, equivalent in _pairs_of_equivalent_requests(
            len(_gradients.differentiable_inputs(sample)), results.value
        ):
            expected = gradients_on_cpu(equivalent)
            device_reference = (
                expected
                if precise or expected is None
                else _gradients_on_device(target, recorder, subject, sample, equivalent, expected)
            )
            if expected is None or device_reference is None:
                continue
            expected, device_reference = (
                _gradients_of_request(request, expected),
                _gradients_of_request(request, device_reference),
            )
            _compare_request(
                target,
                recorder,
                subject,
                sample,
                request,
                (expected, device_reference),
                gradients_on_cpu,
                size,
            )


def _gradients_of_request(request: GradientRequest, all_gradients: Gradients) -> Gradients:
    """Return the gradients of the request's inputs, multiplied by the request's number of calls.

    ``all_gradients`` are the gradients of all inputs for a single call.
    """
    scaled = [None if g is None else request.calls * g.cpu() for g in all_gradients]
    return scaled if request.input is None else scaled[request.input : request.input + 1]


def _gradients_on_device(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    request: GradientRequest,
    expected: Gradients,
) -> Gradients | None:
    """Return the device's gradients. If the device raises an error, record the error and return None."""
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return None
    call = functools.partial(_compute_requested_gradients, subject.info, subject.info.op, copy, request)
    with torch_testing_internals.silence_warnings():
        gradients: Gradients | None = _gradients.value_on_target(
            target, recorder, sample, call, CallOutcome(value=expected), f"the backward {request.description}"
        )
    return gradients


def _compare_request(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    request: GradientRequest,
    expected: tuple[Gradients, Gradients],
    gradients_on_cpu: Callable[[GradientRequest], Gradients | None],
    size: float,
) -> None:
    """Compare the device's gradients with the expected gradients, with the CPU as a control.

    ``expected`` is the pair (gradients of the CPU, gradients that the device must return).
    """
    cpu_expected, required = expected
    trial = recorder.scratch()
    actual = _gradients_on_device(target, trial, subject, sample, request, cpu_expected)
    if actual is not None:
        _compare_requested_gradients(target, trial, subject, sample, request, actual, required, size)
    if trial.failed and not target.is_cpu:
        # If the CPU's own kernels fail the check, nothing is required of the device.
        cpu_trial, cpu_actual = recorder.scratch(), gradients_on_cpu(request)
        if cpu_actual is not None:
            _compare_requested_gradients(
                target.on_cpu(), cpu_trial, subject, sample, request, cpu_actual, cpu_expected, size
            )
        if cpu_actual is None or cpu_trial.failed:
            recorder.compared(1)
            recorder.note(f"gradient {request.description} not checked: the CPU fails the same check")
            return
    recorder.merge(trial)


def _compare_requested_gradients(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    request: GradientRequest,
    actual: Gradients,
    expected: Gradients,
    size: float,
) -> None:
    _gradients.compare_gradients(
        target,
        recorder,
        subject,
        sample,
        actual,
        expected,
        label=f"the gradient {request.description}",
        size=size,
    )


def _pairs_of_equivalent_requests(
    inputs: int, results: Sequence[int]
) -> Iterator[tuple[GradientRequest, GradientRequest]]:
    """Yield pairs of requests whose gradients must be equal up to a factor.

    The gradients of the first request must equal the gradients of the second request, multiplied by the
    number of calls of the first request.
    """
    all_inputs = GradientRequest("of all inputs")
    yield GradientRequest("from strided gradients", layout="strided"), all_inputs
    yield (
        GradientRequest("from expanded gradients", layout="expanded"),
        GradientRequest("from ones", layout="ones"),
    )
    yield GradientRequest("of an input that is used twice", calls=2), all_inputs
    if inputs > 1:
        for input in range(min(inputs, _ALONE)):
            yield GradientRequest(f"of input {input} alone", input=input), all_inputs
    if len(results) > 1:
        for result in results[:_ALONE]:
            description = f"from result {result} alone"
            yield (
                GradientRequest(description, result=result),
                GradientRequest(description, result=result, zero_cotangents_for_other_results=True),
            )


def _floating_results(info: Any, op: Any, sample: Sample) -> list[torch.Tensor]:
    """Return the floating and complex results, with or without an autograd graph."""
    result = torch_testing_internals.gradcheck_wrapper(info)(op, sample.input, *sample.args, **sample.kwargs)
    if sample.process is not None:
        result = sample.process(result)
    return [
        t
        for t in trees.tensors(result)
        if (t.is_floating_point() or t.is_complex()) and t.layout is torch.strided
    ]


def _indices_of_results_with_graph(info: Any, sample: Sample) -> list[int]:
    """Return the indices of the floating and complex results that have an autograd graph."""
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        return [index for index, t in enumerate(_floating_results(info, info.op, sample)) if t.requires_grad]


def _compute_requested_gradients(info: Any, op: Any, sample: Sample, request: GradientRequest) -> Gradients:
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        inputs = _gradients.differentiable_inputs(sample)
        if request.input is not None:
            requested_input = inputs[request.input]
            inputs = [requested_input]
            detached_arguments = trees.tree_map(
                lambda leaf: (
                    leaf.detach() if isinstance(leaf, torch.Tensor) and leaf is not requested_input else leaf
                ),
                sample.arguments,
            )
            sample = sample.replace(
                input=detached_arguments[0], args=detached_arguments[1], kwargs=detached_arguments[2]
            )
        outputs, cotangents = [], []
        for _ in range(request.calls):
            for output_index, output in enumerate(_floating_results(info, op, sample)):
                if not output.requires_grad:
                    continue
                if request.result is not None and output_index != request.result:
                    if not request.zero_cotangents_for_other_results:
                        continue
                    cotangent = torch.zeros_like(output)
                else:
                    cotangent = _make_cotangent(output, output_index, request.layout)
                outputs.append(output)
                cotangents.append(cotangent)
        if not outputs:
            return [None] * len(inputs)
        return list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))


def _make_cotangent(output: torch.Tensor, output_index: int, layout: str) -> torch.Tensor:
    if layout in ("ones", "expanded"):
        ones = torch.ones((), dtype=output.dtype, device=output.device).expand(output.shape)
        return ones.contiguous() if layout == "ones" else ones
    dense = _gradients.random_values_like(output, 17 + output_index)
    if layout == "dense" or dense.dim() == 0:
        return dense
    # The strided tensor uses every second element of a larger memory, after an offset of one element.
    wide = torch.zeros((*dense.shape[:-1], 2 * dense.shape[-1] + 1), dtype=dense.dtype, device=dense.device)
    strided = wide[..., 1::2]
    strided.copy_(dense)
    return strided
