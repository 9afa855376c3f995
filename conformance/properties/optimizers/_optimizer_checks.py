"""Shared code of the optimizer checks: select dtypes, samples and implementations, run steps on the target,
and compare with the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance.framework.calls import CallOutcome, attempt_on, one_line, report_error
from conformance.framework.compare import compare_metadata, compare_values, fact
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import Tolerance, rule
from conformance.model.verdicts import Kind
from conformance.oracle.optimizers import (
    Observation,
    OptimizerProcedure,
    OptimizerReference,
    cached_optimizer_reference,
    for_loop_options,
    observe_parameters_and_state,
)
from conformance.oracle.precision import HIGH_PRECISION_DTYPES
from conformance.samples import sample_limit
from conformance.samples.copies import make_copier
from conformance.samples.operators import dtype_of
from conformance.samples.optimizers import STEP_COUNT, OptimizationProblem, OptimizerSample, optimizer_samples
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Optimizers whose step reduces over the elements of a parameter or over all parameters. All other optimizers
#: are elementwise.
REDUCING_OPTIMIZERS = frozenset({"Muon", "Adafactor", "LBFGS"})

#: Optimizers that store scalar factors in tensors of the default dtype instead of the parameters' dtype.
_OWN_FACTORS = frozenset({"ASGD", "NAdam"})


def supported_dtypes(target: Target, subject: Subject) -> list[str]:
    """Return the parameter dtypes to check, including complex64 if the optimizer supports complex
    parameters.
    """
    names = ["float32", "bfloat16", "float64"]
    if subject.info.supports_complex and not subject.info.step_requires_closure:
        names.append("complex64")
    return [name for name in names if target.declares(name)]


def first_dtype_only(target: Target, subject: Subject) -> list[str]:
    """Return a list with only the first of :func:`supported_dtypes`, for properties that do not depend on the
    dtype.
    """
    return supported_dtypes(target, subject)[:1]


def dtypes_of_dense_optimizer(target: Target, subject: Subject) -> list[str]:
    """Return :func:`supported_dtypes` if the optimizer accepts dense gradients and does not need a closure,
    else an empty list.
    """
    if subject.info.only_supports_sparse_grads or subject.info.step_requires_closure:
        return []
    return supported_dtypes(target, subject)


def options_by_implementation(
    target: Target, subject: Subject, sample: OptimizerSample
) -> dict[str, dict[str, Any]]:
    """Return, by name, the options that select each implementation: for-loop, default, foreach and fused.

    Implementations that the optimizer does not have or the target does not declare are omitted.
    """
    info = subject.info
    for_loop = {key: value for key, value in for_loop_options(sample).items() if key != "capturable"}
    options: dict[str, dict[str, Any]] = {"for-loop": for_loop, "default": {}}
    # foreach accepts a tensor learning rate only if the optimizer is capturable.
    if "foreach" in info.supported_impls and target.capable("foreach_optimizers"):
        if not sample.tensor_lr or sample.capturable:
            options["foreach"] = {"foreach": True}
        else:
            options.pop("default")
    if "fused" in info.supported_impls and target.capable("fused_optimizers") and not sample.dtype.is_complex:
        options["fused"] = {"fused": True}
    return options


def attempt_on_target(target: Target, call: Callable[[], Any]) -> CallOutcome:
    """Run ``call`` on the target and return its outcome. All optimizer checks use this function, so that
    tests can inject faults here.
    """
    return attempt_on(target, call)


def require_success(
    target: Target, recorder: Recorder, outcome: CallOutcome, label: str, sample: int | None = None
) -> bool:
    """Return True if the call on the target succeeded. Otherwise record its error as a failure and return
    False.
    """
    if outcome.error is not None:
        report_error(target, recorder, outcome.error, label=label, sample=sample)
    return outcome.error is None


def select_samples(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    own_limit: int | None = None,
    *,
    such_that: Callable[[OptimizerSample], bool] = lambda sample: True,
) -> list[OptimizerSample]:
    """Return the samples to check, for which ``such_that`` returns True, and record their number."""
    capturable = target.capable("capturable_optimizers")
    samples = optimizer_samples(subject, dtype_of(recorder.id.dtype), capturable=capturable)
    fitting = [sample for sample in samples if such_that(sample)]
    limit = sample_limit.limit(own_limit)
    fitting = fitting if limit is None else fitting[:limit]
    recorder.samples(len(fitting), len(samples))
    return fitting


def samples_with_references(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    procedure: OptimizerProcedure,
    own_limit: int | None = None,
    *,
    such_that: Callable[[OptimizerSample], bool] = lambda sample: True,
) -> Iterator[tuple[OptimizerSample, OptimizerReference]]:
    """Yield the samples to check, each with its reference. Record a note for a sample without a reference."""
    for sample in select_samples(target, subject, recorder, own_limit, such_that=such_that):
        reference = cached_optimizer_reference(subject, sample, procedure)
        if reference.error is None:
            yield sample, reference
        else:
            recorder.note(f"{sample.describe()} has no reference: the CPU raised {one_line(reference.error)}")
            recorder.samples(-1, 0)


def run_procedure(
    target: Target, sample: OptimizerSample, procedure: OptimizerProcedure, options: dict[str, Any]
) -> CallOutcome:
    """Run a procedure on the target with the options of an implementation, and return the outcome."""

    def run_on_device() -> Observation:
        problem = sample.problem(make_copier(target))
        return procedure.run(
            problem, lambda parameters, **more: sample.build(parameters, **{**options, **more})
        )

    return attempt_on_target(target, run_on_device)


def tolerance_of(
    subject: Subject, target: Target, dtype: torch.dtype, result_dtype: torch.dtype, elements: int
) -> Tolerance:
    """Return the tolerance of one element after :data:`STEP_COUNT` steps.

    Each step may add the error of one operator.
    """
    tolerance_rule = rule("optimizer" if subject.name in REDUCING_OPTIMIZERS else "addcmul", dtype)
    # Muon orthogonalises in bfloat16, independent of the parameters' dtype.
    computation_dtype = torch.bfloat16 if subject.name == "Muon" else dtype
    bound = tolerance_rule.tolerance(
        result_dtype, computation_dtype, elements=elements, precision=target.precision
    )
    return bound.widened(STEP_COUNT * (1 if dtype in HIGH_PRECISION_DTYPES else 2))


def rounding_amplification(sample: OptimizerSample) -> float:
    """Return the factor by which the term ``1 - beta ** step`` magnifies rounding errors, or 0 if the
    optimizer is not capturable.

    A capturable optimizer computes the term in float32 tensors, any other optimizer in Python floats.
    """
    if not sample.capturable:
        return 0.0
    betas = sample.options.get("betas", (0.9, 0.999))
    return 1.0 / (1.0 - float(betas[1]))


def compare_observation(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: OptimizerSample,
    actual: Observation,
    reference: OptimizerReference,
    *,
    label: str,
) -> bool:
    """Compare the names, metadata and values of parameters and states with the reference.

    Return whether everything agrees.
    """
    expected_values = reference.outputs if reference.outputs is not None else reference.high_precision
    text = (
        f"{sample.describe()} ({label}) has the observations {', '.join(actual)}, expected "
        f"{', '.join(expected_values)}."
    )
    if not fact(recorder, set(actual) == set(expected_values), Kind.STATE, text, sample=sample.index):
        return False
    matches_all = True
    for name, base in expected_values.items():
        part_label = f"{name} of {sample.describe()} ({label})"
        value, high_precision = actual[name], reference.high_precision[name]
        if name.startswith(("step of", "n_iter")) or not isinstance(base, torch.Tensor) or base.dim() == 0:
            matches_all &= _compare_number(
                recorder, subject, target, sample, value, high_precision, part_label
            )
            continue
        device = target.torch_device
        if not compare_metadata(recorder, value, base, label=part_label, sample=sample.index, device=device):
            matches_all = False
            continue
        bound, sensitivity = tolerance_and_magnitude(target, subject, sample, value, reference, name)
        matches_all &= compare_values(
            recorder,
            value,
            high_precision,
            tolerance=bound,
            label=part_label,
            sample=sample.index,
            sensitivity=sensitivity,
        )
    return matches_all


def _computation_dtype(subject: Subject, sample: OptimizerSample) -> torch.dtype:
    """Return the coarsest dtype in which the optimizer computes.

    This is the dtype of the parameters. For float64 parameters, it is float32 if step counts, learning rates
    or factors are float32 tensors.
    """
    coarse = sample.capturable or sample.tensor_lr or subject.name in _OWN_FACTORS
    return torch.float32 if coarse and sample.dtype == torch.float64 else sample.dtype


def tolerance_and_magnitude(
    target: Target,
    subject: Subject,
    sample: OptimizerSample,
    value: torch.Tensor,
    reference: OptimizerReference,
    name: str,
) -> tuple[Tolerance, torch.Tensor]:
    """Return the tolerance of one result, and a float64 tensor of additional magnitudes.

    The additional magnitudes are the argument ``sensitivity`` of ``compare_values``, which adds them to the
    magnitudes of the expected values.
    """
    bound = tolerance_of(
        subject, target, _computation_dtype(subject, sample), value.dtype, max(1, value.numel())
    )
    high_precision = reference.high_precision[name]
    sensitivity = reference.sensitivity.get(name, torch.zeros(high_precision.shape, dtype=torch.float64))
    if (
        name.startswith("gradient") and high_precision.numel()
    ):  # a gradient is a sum of terms that may cancel, so its error is relative to the largest element
        sensitivity = sensitivity + float(high_precision.abs().max())
    if name.startswith("parameter") and high_precision.numel():
        start = sample.parameters[int(name.split()[1])].to(high_precision.dtype)
        distance = float((high_precision - start).abs().max())
        sensitivity = sensitivity + distance * (1 + rounding_amplification(sample))
    return bound, sensitivity


def _compare_number(
    recorder: Recorder,
    subject: Subject,
    target: Target,
    sample: OptimizerSample,
    value: Any,
    high_precision: Any,
    label: str,
) -> bool:
    """Compare a result that is a single number, such as a step count. The number may be on the CPU or on the
    device.
    """
    if not isinstance(value, (torch.Tensor, int, float)):
        return fact(
            recorder, False, Kind.METADATA, f"{label} is a {type(value).__name__}.", sample=sample.index
        )
    dtype = _computation_dtype(subject, sample)
    result_dtype = (
        dtype
        if isinstance(high_precision, torch.Tensor) and high_precision.is_floating_point()
        else torch.float64
    )
    bound = tolerance_of(subject, target, dtype, result_dtype, 1)
    sensitivity = torch.as_tensor(
        abs(float(torch.as_tensor(high_precision).abs())) * (1 + rounding_amplification(sample))
    )
    return compare_values(
        recorder,
        value,
        high_precision,
        tolerance=bound,
        label=label,
        sample=sample.index,
        sensitivity=sensitivity,
    )


def take_all_steps(problem: OptimizationProblem, build: Callable[..., torch.optim.Optimizer]) -> Observation:
    """Take one step with each of the problem's gradients, and return the parameters and states."""
    optimizer = build(problem.parameters)
    for step in range(STEP_COUNT):
        problem.set_gradients(step)
        optimizer.step()
    return observe_parameters_and_state(problem, optimizer)


STEP = OptimizerProcedure("steps", take_all_steps)

Applies = Callable[[Target, Subject], Sequence[str]]
