"""The oracle of optimizers: the same procedure with the for-loop on the CPU, if possible in float64."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.oracle.precision import PROBES, UP, step_of
from conformance.samples.cache import SubjectCache
from conformance.samples.operators import dtype_name
from conformance.samples.optimizers import Optimizer, OptimizerSample, Problem
from conformance.subjects.torch_databases import Subject

#: ``parameter 0``, ``exp_avg of parameter 0``, ``loss 1`` with its value.
Observation = dict[str, Any]
#: Builds the optimizer under observation over a list of parameters or of groups.
Build = Callable[..., Optimizer]


@dataclasses.dataclass(frozen=True)
class Procedure:
    """A use of a problem, the same on the target and on the CPU; ``run`` owns the problem."""

    name: str
    run: Callable[[Problem, Build], Observation]


@dataclasses.dataclass
class OptimizerReference:
    """The CPU's values: ``plain`` in the sample's dtype (None if it refuses that), ``precise`` in float64.

    ``spread`` holds float64 tensors with the shapes of the values in ``precise``, by name.
    """

    outputs: Observation | None = None
    high_precision: Observation = dataclasses.field(default_factory=dict)
    sensitivity: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    error: Exception | None = None


def for_loop(sample: OptimizerSample) -> dict[str, Any]:
    """Return the options that ask for the plainest implementation."""
    options: dict[str, Any] = {}
    if sample.capturable:
        options["capturable"] = False
    if "foreach" in inspect.signature(sample.optimizer_cls).parameters:
        options["foreach"] = False
    return options


def observed(
    problem: Problem, optimizer: Optimizer, parameters: list[torch.Tensor] | None = None
) -> Observation:
    """Return parameters and states as they are now, on their devices."""
    observation: Observation = {}
    for index, parameter in enumerate(parameters or problem.parameters):
        observation[f"parameter {index}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, (torch.Tensor, int, float)):
                observation[f"{key} of parameter {index}"] = value
    return observation


@contextlib.contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch_testing_internals.quiet():
            yield
    finally:
        torch.set_default_dtype(before)


def _kept(observation: Observation) -> Observation:
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for name, value in observation.items()
    }


def _options_up(sample: OptimizerSample) -> dict[str, Any]:
    """Return the options, their tensors in float64 with the same values."""

    def up(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(up(item) for item in value)
        return (
            value.detach().to(UP.get(value.dtype, value.dtype)) if isinstance(value, torch.Tensor) else value
        )

    return {key: up(value) for key, value in sample.options.items()} | for_loop(sample)


def _precise(sample: OptimizerSample, procedure: Procedure, seed: int | None, step: float) -> Observation:
    problem = sample.problem(dtypes=UP)
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for tensor in [
                *problem.parameters,
                *(gradient for gradients in problem.gradients for gradient in gradients),
            ]:
                signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8) * 2 - 1
                tensor.mul_(1 + signs.to(torch.float64) * step)
    options = _options_up(sample)
    return _kept(
        procedure.run(problem, lambda parameters, **more: sample.build(parameters, **{**options, **more}))
    )


def compute(sample: OptimizerSample, procedure: Procedure) -> OptimizerReference:
    """Return the CPU's values for a sample, not cached; never raises for an error of the optimizer."""
    result = OptimizerReference()
    plain = for_loop(sample)
    with _default(torch.get_default_dtype()):
        try:
            problem = sample.problem()
            run = procedure.run(
                problem, lambda parameters, **more: sample.build(parameters, **{**plain, **more})
            )
            result.outputs = _kept(run)
        except Exception as error:
            result.outputs, result.error = None, error
    with _default(torch.float64):
        step = step_of(sample.dtype)
        try:
            result.high_precision = _precise(sample, procedure, None, step)
            result.error = None
            for probe in range(PROBES):
                _widen(result, _precise(sample, procedure, sample.seed + probe, step), step)
        except Exception as error:
            return OptimizerReference(error=error)
    for name, value in result.sensitivity.items():
        if value.numel():
            result.sensitivity[name] = torch.maximum(value, value.mean())
    return result


def _widen(result: OptimizerReference, moved: Observation, step: float) -> None:
    for name, value in result.high_precision.items():
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            continue
        distance = torch.nan_to_num((moved[name] - value).abs().to(torch.float64) / step, 0.0, 0.0, 0.0)
        before = result.sensitivity.get(name)
        result.sensitivity[name] = distance if before is None else torch.maximum(before, distance)


_cache: SubjectCache[tuple[str, int, str], OptimizerReference] = SubjectCache()


def expected(subject: Subject, sample: OptimizerSample, procedure: Procedure) -> OptimizerReference:
    """Return the CPU's values for a shared sample; computed once per process."""
    key = (dtype_name(sample.dtype), sample.index, procedure.name)
    return _cache.value(subject.name, key, lambda: compute(sample, procedure))


def forget() -> None:
    """Drop all cached values (for tests)."""
    _cache.clear()
