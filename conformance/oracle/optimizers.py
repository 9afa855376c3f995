"""Compute the reference of an optimizer: run the same procedure with the for-loop implementation on the CPU,
in the sample's dtype and in float64.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.oracle.precision import HIGH_PRECISION_DTYPES, PROBE_COUNT, probe_step
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import Copier
from conformance.samples.operators import dtype_name
from conformance.samples.optimizers import OptimizationProblem, Optimizer, OptimizerSample
from conformance.subjects.torch_databases import Subject

#: Observed values by name, such as ``parameter 0``, ``exp_avg of parameter 0`` and ``loss 1``.
Observation = dict[str, Any]
#: Builds the optimizer under test from a list of parameters or of parameter groups.
Build = Callable[..., Optimizer]


@dataclasses.dataclass(frozen=True)
class OptimizerProcedure:
    """A named function that optimizes a problem, on the target and on the CPU.

    ``run(problem, build)`` may change the problem.
    """

    name: str
    run: Callable[[OptimizationProblem, Build], Observation]


@dataclasses.dataclass
class OptimizerReference:
    """The CPU's values for one sample of an optimizer.

    ``outputs`` has the sample's dtype, and is None if the CPU refuses this dtype. ``high_precision`` is
    computed in float64. ``sensitivity`` holds float64 tensors by name, with the shapes of the values in
    ``high_precision``. ``error`` is set only if the float64 run raised an exception.
    """

    outputs: Observation | None = None
    high_precision: Observation = dataclasses.field(default_factory=dict)
    sensitivity: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    error: Exception | None = None


def for_loop_options(sample: OptimizerSample) -> dict[str, Any]:
    """Return the options that select the for-loop implementation."""
    options: dict[str, Any] = {}
    if sample.capturable:
        options["capturable"] = False
    if "foreach" in inspect.signature(sample.optimizer_cls).parameters:
        options["foreach"] = False
    return options


def observe_parameters_and_state(
    problem: OptimizationProblem, optimizer: Optimizer, parameters: list[torch.Tensor] | None = None
) -> Observation:
    """Return the current parameters and optimizer states, on their devices."""
    observation: Observation = {}
    for index, parameter in enumerate(parameters or problem.parameters):
        observation[f"parameter {index}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, (torch.Tensor, int, float)):
                observation[f"{key} of parameter {index}"] = value
    return observation


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch_testing_internals.silence_warnings():
            yield
    finally:
        torch.set_default_dtype(before)


def _detached_copies(observation: Observation) -> Observation:
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for name, value in observation.items()
    }


def _high_precision_options(sample: OptimizerSample) -> dict[str, Any]:
    """Return the sample's options with tensors in float64 and with the for-loop implementation selected."""

    def in_high_precision(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(in_high_precision(item) for item in value)
        return (
            value.detach().to(HIGH_PRECISION_DTYPES.get(value.dtype, value.dtype))
            if isinstance(value, torch.Tensor)
            else value
        )

    return {key: in_high_precision(value) for key, value in sample.options.items()} | for_loop_options(sample)


def _high_precision_observation(
    sample: OptimizerSample, procedure: OptimizerProcedure, seed: int | None, step: float
) -> Observation:
    problem = sample.problem(Copier(torch.device("cpu"), HIGH_PRECISION_DTYPES))
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for tensor in [
                *problem.parameters,
                *(gradient for gradients in problem.gradients for gradient in gradients),
            ]:
                signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8) * 2 - 1
                tensor.mul_(1 + signs.to(torch.float64) * step)
    options = _high_precision_options(sample)
    return _detached_copies(
        procedure.run(problem, lambda parameters, **more: sample.build(parameters, **{**options, **more}))
    )


def reference_for_optimizer(sample: OptimizerSample, procedure: OptimizerProcedure) -> OptimizerReference:
    """Return the CPU's values for a sample without caching them.

    An exception of the optimizer is stored in ``error`` and not raised.
    """
    result = OptimizerReference()
    same_dtype_options = for_loop_options(sample)
    with _default_dtype(torch.get_default_dtype()):
        try:
            problem = sample.problem()
            observation = procedure.run(
                problem, lambda parameters, **more: sample.build(parameters, **{**same_dtype_options, **more})
            )
            result.outputs = _detached_copies(observation)
        except Exception as error:
            result.outputs, result.error = None, error
    with _default_dtype(torch.float64):
        step = probe_step(sample.dtype)
        try:
            result.high_precision = _high_precision_observation(sample, procedure, None, step)
            result.error = None
            for probe in range(PROBE_COUNT):
                _raise_sensitivity_to_distance(
                    result, _high_precision_observation(sample, procedure, sample.seed + probe, step), step
                )
        except Exception as error:
            return OptimizerReference(error=error)
    for name, value in result.sensitivity.items():
        if value.numel():
            result.sensitivity[name] = torch.maximum(value, value.mean())
    return result


def _raise_sensitivity_to_distance(
    result: OptimizerReference, moved_values: Observation, step: float
) -> None:
    """Raise the sensitivity of each value to at least the distance between the value and ``moved_values``."""
    for name, value in result.high_precision.items():
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            continue
        distance = torch.nan_to_num(
            (moved_values[name] - value).abs().to(torch.float64) / step, 0.0, 0.0, 0.0
        )
        earlier = result.sensitivity.get(name)
        result.sensitivity[name] = distance if earlier is None else torch.maximum(earlier, distance)


_cache: SubjectCache[tuple[str, int, str], OptimizerReference] = SubjectCache()


def cached_optimizer_reference(
    subject: Subject, sample: OptimizerSample, procedure: OptimizerProcedure
) -> OptimizerReference:
    """Return the CPU's values for a shared sample, computed once per process."""
    key = (dtype_name(sample.dtype), sample.index, procedure.name)
    return _cache.value(subject.name, key, lambda: reference_for_optimizer(sample, procedure))


def clear_cache() -> None:
    """Delete all cached values (for tests)."""
    _cache.clear()
