"""The shared parts of the optimizer properties: dtypes, implementations, runs and comparisons."""

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
    OptimizerReference,
    Procedure,
    expected,
    for_loop,
    observed,
)
from conformance.oracle.precision import UP
from conformance.samples import sample_limit
from conformance.samples.operators import dtype_of
from conformance.samples.optimizers import STEPS, OptimizerSample, Problem, optimizer_samples
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Optimizers that reduce over a parameter or over all of them; the others work element by element.
REDUCING = frozenset({"Muon", "Adafactor", "LBFGS"})

#: Optimizers that keep factors of their own in tensors of the default dtype, whatever that of the parameters.
_OWN_FACTORS = frozenset({"ASGD", "NAdam"})


def dtypes_of(target: Target, subject: Subject) -> list[str]:
    """Return the dtypes of parameters that are checked, complex ones if the optimizer takes them."""
    names = ["float32", "bfloat16", "float64"]
    if subject.info.supports_complex and not subject.info.step_requires_closure:
        names.append("complex64")
    return [name for name in names if target.declares(name)]


def first_dtype(target: Target, subject: Subject) -> list[str]:
    """Return the first of :func:`dtypes_of` alone, for properties that do not depend on the dtype."""
    return dtypes_of(target, subject)[:1]


def dense(target: Target, subject: Subject) -> list[str]:
    """Return :func:`dtypes_of` of an optimizer that takes dense gradients and needs no closure,
    else nothing.
    """
    if subject.info.only_supports_sparse_grads or subject.info.step_requires_closure:
        return []
    return dtypes_of(target, subject)


def implementations(target: Target, subject: Subject, sample: OptimizerSample) -> dict[str, dict[str, Any]]:
    """Return the implementations that the target declares, with the options that ask for each."""
    info = subject.info
    plain = {key: value for key, value in for_loop(sample).items() if key != "capturable"}
    options: dict[str, dict[str, Any]] = {"for-loop": plain, "default": {}}
    # A learning rate in a tensor and foreach go together only if the optimizer is capturable.
    if "foreach" in info.supported_impls and target.capable("foreach_optimizers"):
        if not sample.tensor_lr or sample.capturable:
            options["foreach"] = {"foreach": True}
        else:
            options.pop("default")
    if "fused" in info.supported_impls and target.capable("fused_optimizers") and not sample.dtype.is_complex:
        options["fused"] = {"fused": True}
    return options


def on_target(target: Target, call: Callable[[], Any]) -> CallOutcome:
    """Return the outcome of work on the target. All work of an optimizer property there goes through here."""
    return attempt_on(target, call)


def succeeded(
    target: Target, recorder: Recorder, outcome: CallOutcome, label: str, sample: int | None = None
) -> bool:
    """Return whether the work on the target succeeded; its error is recorded."""
    if outcome.error is not None:
        report_error(target, recorder, outcome.error, label=label, sample=sample)
    return outcome.error is None


def chosen(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    own_limit: int | None = None,
    *,
    such_that: Callable[[OptimizerSample], bool] = lambda sample: True,
) -> list[OptimizerSample]:
    """Return the samples that a property takes, counted: the first ones that fit."""
    capturable = target.capable("capturable_optimizers")
    samples = optimizer_samples(subject, dtype_of(recorder.id.dtype), capturable=capturable)
    fitting = [sample for sample in samples if such_that(sample)]
    limit = sample_limit.limit(own_limit)
    fitting = fitting if limit is None else fitting[:limit]
    recorder.samples(len(fitting), len(samples))
    return fitting


def cases(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    procedure: Procedure,
    own_limit: int | None = None,
    *,
    such_that: Callable[[OptimizerSample], bool] = lambda sample: True,
) -> Iterator[tuple[OptimizerSample, OptimizerReference]]:
    """Yield the chosen samples with the oracle's values; those without an oracle are noted and left out."""
    for sample in chosen(target, subject, recorder, own_limit, such_that=such_that):
        want = expected(subject, sample, procedure)
        if want.error is None:
            yield sample, want
        else:
            recorder.note(f"{sample.describe()} has no oracle: the CPU raised {one_line(want.error)}")
            recorder.samples(-1, 0)


def run_on(
    target: Target, sample: OptimizerSample, procedure: Procedure, options: dict[str, Any]
) -> CallOutcome:
    """Return the observations of a procedure on the target with an implementation's options."""

    def call() -> Observation:
        problem = sample.problem(target.torch_device)
        return procedure.run(
            problem, lambda parameters, **more: sample.build(parameters, **{**options, **more})
        )

    return on_target(target, call)


def bound_of(
    subject: Subject, target: Target, dtype: torch.dtype, result: torch.dtype, elements: int
) -> Tolerance:
    """Return the bound of one element after :data:`STEPS` steps, each of which may add one operator's."""
    applied = rule("optimizer" if subject.name in REDUCING else "addcmul", dtype)
    # Muon orthogonalises in bfloat16 whatever the dtype of the parameters.
    computed = torch.bfloat16 if subject.name == "Muon" else dtype
    bound = applied.tolerance(result, computed, elements=elements, precision=target.precision)
    return bound.widened(STEPS * (1 if dtype in UP else 2))


def amplification(sample: OptimizerSample) -> float:
    """Return the factor by which ``1 - beta ** step`` magnifies rounding in capturable optimizers, else 0.

    They compute it in float32.
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
    want: OptimizerReference,
    *,
    label: str,
) -> bool:
    """Compare parameters and states with the oracle: names, metadata, values."""
    plain = want.outputs if want.outputs is not None else want.high_precision
    text = f"{sample.describe()} ({label}) shows {', '.join(actual)}, expected {', '.join(plain)}."
    if not fact(recorder, set(actual) == set(plain), Kind.STATE, text, sample=sample.index):
        return False
    good = True
    for name, base in plain.items():
        part_label = f"{name} of {sample.describe()} ({label})"
        value, precise = actual[name], want.high_precision[name]
        if name.startswith(("step of", "n_iter")) or not isinstance(base, torch.Tensor) or base.dim() == 0:
            good &= _compare_number(recorder, subject, target, sample, value, precise, part_label)
            continue
        place = target.torch_device
        if not compare_metadata(recorder, value, base, label=part_label, sample=sample.index, device=place):
            good = False
            continue
        bound, spread = allowance(target, subject, sample, value, want, name)
        good &= compare_values(
            recorder, value, precise, tolerance=bound, label=part_label, sample=sample.index, spread=spread
        )
    return good


def _computed(subject: Subject, sample: OptimizerSample) -> torch.dtype:
    """Return the coarsest dtype that takes part: steps and rates in tensors are in the default dtype."""
    coarse = sample.capturable or sample.tensor_lr or subject.name in _OWN_FACTORS
    return torch.float32 if coarse and sample.dtype == torch.float64 else sample.dtype


def allowance(
    target: Target,
    subject: Subject,
    sample: OptimizerSample,
    value: torch.Tensor,
    want: OptimizerReference,
    name: str,
) -> tuple[Tolerance, torch.Tensor]:
    """Return the bound of one result, and the magnitude in addition to the expected value's (float64)."""
    bound = bound_of(subject, target, _computed(subject, sample), value.dtype, max(1, value.numel()))
    precise = want.high_precision[name]
    spread = want.sensitivity.get(name, torch.zeros(precise.shape, dtype=torch.float64))
    if name.startswith("gradient") and precise.numel():  # sums over paths, hence compared in the norm
        spread = spread + float(precise.abs().max())
    if name.startswith("parameter") and precise.numel():
        start = sample.parameters[int(name.split()[1])].to(precise.dtype)
        moved = float((precise - start).abs().max())
        spread = spread + moved * (1 + amplification(sample))
    return bound, spread


def _compare_number(
    recorder: Recorder,
    subject: Subject,
    target: Target,
    sample: OptimizerSample,
    value: Any,
    precise: Any,
    label: str,
) -> bool:
    """Compare step counts and other single numbers, which may be on the CPU or the device."""
    if not isinstance(value, (torch.Tensor, int, float)):
        return fact(
            recorder, False, Kind.METADATA, f"{label} is a {type(value).__name__}.", sample=sample.index
        )
    dtype = _computed(subject, sample)
    wide = dtype if isinstance(precise, torch.Tensor) and precise.is_floating_point() else torch.float64
    bound = bound_of(subject, target, dtype, wide, 1)
    spread = torch.as_tensor(abs(float(torch.as_tensor(precise).abs())) * (1 + amplification(sample)))
    return compare_values(
        recorder, value, precise, tolerance=bound, label=label, sample=sample.index, spread=spread
    )


def stepped(problem: Problem, build: Callable[..., torch.optim.Optimizer]) -> Observation:
    """Take all steps with the gradients of the sample; return parameters and states."""
    optimizer = build(problem.parameters)
    for step in range(STEPS):
        problem.give(step)
        optimizer.step()
    return observed(problem, optimizer)


STEP = Procedure("steps", stepped)

Applies = Callable[[Target, Subject], Sequence[str]]
