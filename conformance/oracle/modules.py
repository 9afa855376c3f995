"""The oracle of modules: the same procedure on the CPU, in float64 for reduced precision.

For one sample and procedure three things are computed, once per process: what it shows in its own dtype
(``plain``), with parameters, buffers and inputs in float64 (``precise``), and how far ``precise`` moves when
all of them move by one part in 2**20 (``spread``, the condition term of the tolerances).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from conformance.framework import trees
from conformance.oracle.observed_modules import Cotangents, Observation, Procedure, cotangents_of
from conformance.oracle.precision import PROBES, UP, step_of, surroundings
from conformance.samples.cache import SubjectCache
from conformance.samples.modules import Arguments, ModuleSample
from conformance.samples.operators import dtype_name
from conformance.subjects.torch_databases import Subject

#: A spread beyond so many times the largest value in sight is a jump, not a slope.
_JUMP = 2.0**12


@dataclasses.dataclass
class ModuleReference:
    """The CPU's values for one sample; if it refused the float64 call only ``error`` is set.

    ``plain`` is None if the CPU refuses the dtype itself. ``spread`` holds float64 tensors with the shapes of
    the values in ``precise``, by name. ``elements`` is the number of elements of the largest tensor.
    """

    outputs: Observation | None = None
    high_precision: Observation = dataclasses.field(default_factory=dict)
    sensitivity: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    cotangents: Cotangents = None
    elements: int = 1
    error: Exception | None = None


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _kept(shown: Observation) -> Observation:
    return {
        name: value.detach().clone(memory_format=torch.preserve_format)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in shown.items()
    }


def with_high_precision_parameters(module: torch.nn.Module) -> torch.nn.Module:
    """Return the same module object with floating parameters and buffers in float64, complex ones in
    complex128.
    """
    module._apply(lambda tensor: tensor.to(UP.get(tensor.dtype, tensor.dtype)))  # type: ignore[no-untyped-call]
    return module


def _nudge(
    module: torch.nn.Module, arguments: Arguments, cotangents: Cotangents, seed: int, step: float, most: int
) -> None:
    """Move every element by ``-step``, or up to ``most`` times ``step``, of its size."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in [
            *trees.tensors(arguments),
            *module.parameters(),
            *module.buffers(),
            *(cotangents or ()),
        ]:
            if _floating(tensor) and tensor.numel():
                up = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8)
                tensor.mul_(1 + (up * (most + 1) - 1).to(torch.float64) * step)


def _precise(
    sample: ModuleSample,
    procedure: Procedure,
    cotangents: Cotangents,
    seed: int | None,
    step: float,
    most: int = 1,
) -> Observation:
    module, arguments = with_high_precision_parameters(sample.module()), sample.arguments(dtypes=UP)
    if cotangents is not None:
        cotangents = [value.to(UP.get(value.dtype, value.dtype), copy=True) for value in cotangents]
    if seed is not None:
        _nudge(module, arguments, cotangents, seed, step, most)
    return _kept(procedure.run(module, arguments, cotangents))


def reference_for_module(sample: ModuleSample, procedure: Procedure) -> ModuleReference:
    """Return the CPU's values for a sample, not cached; never raises for an error of the module."""
    result = ModuleReference()
    with surroundings(torch.get_default_dtype()):
        try:
            cotangents = result.cotangents = cotangents_of(sample) if procedure.backward else None
            result.outputs = _kept(procedure.run(sample.module(), sample.arguments(), cotangents))
        except Exception as error:
            if procedure.backward:
                return ModuleReference(error=error)
    with surroundings(torch.float64):
        step = step_of(sample.dtype)
        try:
            result.high_precision = _precise(sample, procedure, cotangents, None, step)
        except Exception as error:
            return ModuleReference(error=error)
        result.sensitivity = _spread(sample, procedure, result.high_precision, cotangents, step)
    module = sample.module()
    sizes = [tensor.numel() for tensor in [*trees.tensors(sample.call), *module.parameters()]]
    result.elements = max([1, *sizes])
    return result


def _spread(
    sample: ModuleSample, procedure: Procedure, precise: Observation, cotangents: Cotangents, step: float
) -> dict[str, torch.Tensor]:
    largest = max(
        [1e-300, *(_magnitude(tensor) for tensor in [*trees.tensors(sample.call), *precise.values()])]
    )
    spread: dict[str, torch.Tensor] = {}
    for probe in range(PROBES):
        try:
            moved = _precise(sample, procedure, cotangents, sample.seed + probe, step)
        except Exception:  # the module's domain may end here; towards zero it does not
            try:
                moved = _precise(sample, procedure, cotangents, sample.seed + probe, step, most=0)
            except Exception:
                continue
        for name, value in precise.items():
            if not _floating(value) or not value.numel() or moved[name].shape != value.shape:
                continue
            distance = torch.nan_to_num((moved[name] - value).abs().to(torch.float64) / step, 0.0, 0.0, 0.0)
            distance = torch.where(distance > _JUMP * largest, torch.zeros_like(distance), distance)
            spread[name] = torch.maximum(distance, spread[name]) if name in spread else distance
    for name, value in spread.items():
        spread[name] = torch.maximum(value, value.mean())
        if name.startswith("gradient"):  # a gradient is a sum over paths, so it is compared in the norm
            spread[name] = spread[name] + _magnitude(precise[name])
    return spread


def _magnitude(value: Any) -> float:
    if not _floating(value) or not value.numel():
        return 0.0
    size = value.detach().abs()
    size = size[torch.isfinite(size)]
    return float(size.max()) if size.numel() else 0.0


_cache: SubjectCache[tuple[str, int, str], ModuleReference] = SubjectCache()


def expected(subject: Subject, sample: ModuleSample, procedure: Procedure) -> ModuleReference:
    """Return the CPU's values for a shared sample; computed once per process."""
    key = (dtype_name(sample.dtype), sample.index, procedure.name)
    return _cache.value(subject.name, key, lambda: reference_for_module(sample, procedure))


def forget() -> None:
    """Drop all cached values (for tests)."""
    _cache.clear()
