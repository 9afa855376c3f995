"""Compute the reference of a module: run the same procedure on the CPU, and again in float64.

For each sample and procedure, three values are computed once per process:

* ``outputs``: the observation in the sample's own dtype.
* ``high_precision``: the observation with parameters, buffers and inputs in float64.
* ``sensitivity``: how far ``high_precision`` moves when parameters, buffers and inputs move by a small
  relative step. The allowed error grows with the sensitivity (:mod:`conformance.framework.tolerances`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from conformance.framework import trees
from conformance.oracle.observed_modules import Cotangents, ModuleProcedure, Observation, cotangents_of
from conformance.oracle.precision import (
    HIGH_PRECISION_DTYPES,
    PROBE_COUNT,
    probe_step,
    reproducible_cpu_state,
)
from conformance.samples.cache import SubjectCache
from conformance.samples.copies import Copier
from conformance.samples.modules import Arguments, ModuleSample
from conformance.samples.operators import dtype_name
from conformance.subjects.torch_databases import Subject

#: A movement larger than this factor times the largest value of the call is a jump of the function, and is
#: ignored.
_JUMP = 2.0**12


@dataclasses.dataclass
class ModuleReference:
    """The CPU's values for one sample of a module.

    ``outputs`` is None if the CPU refuses the dtype of the sample. If the CPU refuses the float64 call, or a
    procedure with a backward pass in the sample's dtype, only ``error`` is set. ``sensitivity`` holds float64
    tensors by name, with the shapes of the values in ``high_precision``. ``elements`` is the number of
    elements of the largest tensor.
    """

    outputs: Observation | None = None
    high_precision: Observation = dataclasses.field(default_factory=dict)
    sensitivity: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    cotangents: Cotangents = None
    elements: int = 1
    error: Exception | None = None


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _detached_copies(observation: Observation) -> Observation:
    return {
        name: value.detach().clone(memory_format=torch.preserve_format)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in observation.items()
    }


def with_high_precision_parameters(module: torch.nn.Module) -> torch.nn.Module:
    """Convert the floating parameters and buffers of a module to float64, or complex128 if they are complex,
    and return the module.
    """
    module._apply(lambda tensor: tensor.to(HIGH_PRECISION_DTYPES.get(tensor.dtype, tensor.dtype)))  # type: ignore[no-untyped-call]
    return module


def _perturb_in_place(
    module: torch.nn.Module,
    arguments: Arguments,
    cotangents: Cotangents,
    seed: int,
    step: float,
    largest_factor: int,
) -> None:
    """Multiply every floating element of the module, arguments and cotangents in place by ``1 - step`` or
    ``1 + largest_factor * step``, chosen at random.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in [
            *trees.tensors(arguments),
            *module.parameters(),
            *module.buffers(),
            *(cotangents or ()),
        ]:
            if _is_floating(tensor) and tensor.numel():
                upwards = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8)
                tensor.mul_(1 + (upwards * (largest_factor + 1) - 1).to(torch.float64) * step)


def _high_precision_observation(
    sample: ModuleSample,
    procedure: ModuleProcedure,
    cotangents: Cotangents,
    seed: int | None,
    step: float,
    largest_factor: int = 1,
) -> Observation:
    module, arguments = (
        with_high_precision_parameters(sample.module()),
        sample.arguments(Copier(torch.device("cpu"), HIGH_PRECISION_DTYPES)),
    )
    if cotangents is not None:
        cotangents = [
            value.to(HIGH_PRECISION_DTYPES.get(value.dtype, value.dtype), copy=True) for value in cotangents
        ]
    if seed is not None:
        _perturb_in_place(module, arguments, cotangents, seed, step, largest_factor)
    return _detached_copies(procedure.run(module, arguments, cotangents))


def reference_for_module(sample: ModuleSample, procedure: ModuleProcedure) -> ModuleReference:
    """Return the CPU's values for a sample without caching them.

    An exception of the module is stored in ``error`` and not raised.
    """
    result = ModuleReference()
    with reproducible_cpu_state(torch.get_default_dtype()):
        try:
            cotangents = result.cotangents = cotangents_of(sample) if procedure.backward else None
            result.outputs = _detached_copies(procedure.run(sample.module(), sample.arguments(), cotangents))
        except Exception as error:
            if procedure.backward:
                return ModuleReference(error=error)
    with reproducible_cpu_state(torch.float64):
        step = probe_step(sample.dtype)
        try:
            result.high_precision = _high_precision_observation(sample, procedure, cotangents, None, step)
        except Exception as error:
            return ModuleReference(error=error)
        result.sensitivity = _sensitivity_by_name(sample, procedure, result.high_precision, cotangents, step)
    module = sample.module()
    sizes = [tensor.numel() for tensor in [*trees.tensors(sample.call), *module.parameters()]]
    result.elements = max([1, *sizes])
    return result


def _sensitivity_by_name(
    sample: ModuleSample,
    procedure: ModuleProcedure,
    high_precision: Observation,
    cotangents: Cotangents,
    step: float,
) -> dict[str, torch.Tensor]:
    largest = max(
        [
            1e-300,
            *(
                _largest_magnitude(tensor)
                for tensor in [*trees.tensors(sample.call), *high_precision.values()]
            ),
        ]
    )
    sensitivity: dict[str, torch.Tensor] = {}
    for probe in range(PROBE_COUNT):
        try:
            moved_values = _high_precision_observation(
                sample, procedure, cotangents, sample.seed + probe, step
            )
        except Exception:  # the moved values may leave the module's domain; values moved towards zero do not
            try:
                moved_values = _high_precision_observation(
                    sample, procedure, cotangents, sample.seed + probe, step, largest_factor=0
                )
            except Exception:
                continue
        for name, value in high_precision.items():
            if not _is_floating(value) or not value.numel() or moved_values[name].shape != value.shape:
                continue
            distance = torch.nan_to_num(
                (moved_values[name] - value).abs().to(torch.float64) / step, 0.0, 0.0, 0.0
            )
            distance = torch.where(distance > _JUMP * largest, torch.zeros_like(distance), distance)
            sensitivity[name] = (
                torch.maximum(distance, sensitivity[name]) if name in sensitivity else distance
            )
    for name, value in sensitivity.items():
        sensitivity[name] = torch.maximum(value, value.mean())
        if name.startswith("gradient"):  # a gradient is a sum: its largest element determines its error
            sensitivity[name] = sensitivity[name] + _largest_magnitude(high_precision[name])
    return sensitivity


def _largest_magnitude(value: Any) -> float:
    if not _is_floating(value) or not value.numel():
        return 0.0
    size = value.detach().abs()
    size = size[torch.isfinite(size)]
    return float(size.max()) if size.numel() else 0.0


_cache: SubjectCache[tuple[str, int, str], ModuleReference] = SubjectCache()


def cached_module_reference(
    subject: Subject, sample: ModuleSample, procedure: ModuleProcedure
) -> ModuleReference:
    """Return the CPU's values for a shared sample, computed once per process."""
    key = (dtype_name(sample.dtype), sample.index, procedure.name)
    return _cache.value(subject.name, key, lambda: reference_for_module(sample, procedure))


def clear_cache() -> None:
    """Delete all cached values (for tests)."""
    _cache.clear()
