"""Modules that draw random numbers in train mode: reproducible, and distributed as documented."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from conformance.device import process_state
from conformance.framework.compare import compare_exact, compare_metadata, compare_values, fact, on_host
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.framework.trees import tensors
from conformance.model.verdicts import Kind
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import ModuleSample, module_samples
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: A frequency may be off by so many standard deviations; once in 10**9 draws a fair generator is further off.
_SIGMAS = 6.0
#: Dimensions that share one draw.
_CHANNELS = {"nn.Dropout1d": 2, "nn.Dropout2d": 2, "nn.Dropout3d": 2, "nn.FeatureAlphaDropout": 2}
#: The value of elements that alpha dropout drops: the lower bound of SELU, from its paper (arXiv 1706.02515).
_SELU_FLOOR = -1.0507009873554805 * 1.6732632423543772


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if not getattr(subject.info, "random", False):
        return []
    return common.dtypes_of(target, subject)


@register(
    "random",
    subject_kind="module",
    statement="A seed reproduces the values of random modules, another changes them; frequencies are right.",
    documentation="notes/randomness.html",
    level="core",
    applies=applies,
    capabilities=("random",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    samples = module_samples(subject, common.dtype_under_test(recorder))
    chosen = samples.chosen(2, random=True)
    recorder.samples(len(chosen), samples.available)
    for sample in chosen:
        draws = []
        for seed in (recorder.seed, recorder.seed, recorder.seed + 1):
            outcome = common.on_target(target, lambda seed=seed, sample=sample: _draw(target, sample, seed))  # type: ignore[misc]
            if not common.succeeded(target, recorder, outcome, sample.describe(), sample.index):
                break
            draws.append(outcome.value)
        if len(draws) < 3:
            continue
        what = f"{sample.describe()} with the same seed"
        compare_exact(recorder, draws[1][0], draws[0][0], label=what, sample=sample.index)
        repeated = torch.equal(on_host(draws[2][0]), on_host(draws[0][0]))
        text = f"{sample.describe()} gives the same values with another seed."
        fact(recorder, not repeated, Kind.VALUE, text, sample=sample.index)
        value, gradient = draws[0]
        source = tensors(sample.call)[0]
        label = sample.describe()
        device = target.torch_device
        if compare_metadata(recorder, value, source, label=label, sample=sample.index, device=device):
            _distribution(target, recorder, subject, sample, on_host(value), gradient)


def _draw(target: Target, sample: ModuleSample, seed: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the result of one call and, if the target can compute it, the gradient of its sum."""
    process_state.seed(seed, target)
    module, (args, kwargs) = common.on_device(target, sample)
    with torch.set_grad_enabled(target.capable("autograd")):
        value = module(*args, **kwargs)
        if value.requires_grad:
            value.sum().backward()
    return value, tensors((args, kwargs))[0].grad


def _distribution(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: ModuleSample,
    value: torch.Tensor,
    gradient: torch.Tensor | None,
) -> None:
    source = on_host(tensors(sample.call)[0])
    module = sample.module()
    bound = rule("nn.functional.dropout", sample.dtype).tolerance(sample.dtype)
    slope, offset, dropped = _affine(subject.name, module, source, value)
    what, index = sample.describe(), sample.index
    kept = source.double() * slope + offset
    compare_values(
        recorder,
        value,
        kept,
        tolerance=bound,
        label=what,
        sample=index,
        spread=(source.double() * slope).abs(),
    )
    if gradient is not None:
        label = f"the gradient of {what}"
        compare_values(recorder, gradient, slope, tolerance=bound, label=label, sample=index)
    if dropped is None:
        _slopes(recorder, module, slope[source < 0], what, index)
        return
    draws = dropped.double()
    if subject.name in _CHANNELS:
        flat = draws.flatten(_CHANNELS[subject.name])
        text = f"{what} drops parts of a channel."
        fact(recorder, bool((flat == flat[..., :1]).all()), Kind.VALUE, text, sample=index)
        draws = flat[..., 0]
    chance = float(module.p)  # type: ignore[arg-type]
    allowed = _SIGMAS * math.sqrt(chance * (1 - chance) / draws.numel())
    text = f"{what} drops {float(draws.mean()):.3f}, promised are {chance} plus or minus {allowed:.3f}."
    fact(recorder, abs(float(draws.mean()) - chance) <= allowed, Kind.VALUE, text, sample=index)


def _affine(name: str, module: Any, source: torch.Tensor, value: torch.Tensor) -> tuple[Any, Any, Any]:
    """Return (slope, offset, dropped): the line that the drawn values follow, and which elements were
    dropped.
    """
    wide, drawn = source.double(), value.double()
    zero, unit = torch.zeros_like(wide), torch.ones_like(wide)
    if name == "nn.RReLU":
        slope = torch.where(wide < 0, (drawn / wide).clamp(module.lower, module.upper), unit)
        return slope, zero, None
    chance = float(module.p)
    if "Alpha" not in name:
        dropped = drawn == 0
        return torch.where(dropped, zero, unit / (1 - chance)), zero, dropped
    slope_kept = ((1 - chance) * (1 + chance * _SELU_FLOOR**2)) ** -0.5
    shift = -slope_kept * chance * _SELU_FLOOR
    low = slope_kept * _SELU_FLOOR + shift
    dropped = (drawn - low).abs() < (drawn - (slope_kept * wide + shift)).abs()
    return (
        torch.where(dropped, zero, unit * slope_kept),
        torch.where(dropped, unit * low, unit * shift),
        dropped,
    )


def _slopes(recorder: Recorder, module: Any, slopes: torch.Tensor, label: str, index: int) -> None:
    """Check that random slopes are uniform between two bounds, by their mean and their extremes."""
    low, high = float(module.lower), float(module.upper)
    allowed = _SIGMAS * (high - low) / math.sqrt(12 * slopes.numel())
    distance = abs(float(slopes.mean()) - (low + high) / 2)
    text = f"the mean slope of {label} is {distance:.4f} off the middle; {allowed:.4f} is allowed."
    fact(recorder, distance <= allowed, Kind.VALUE, text, sample=index)
    reach = float(slopes.max() - slopes.min())
    text = f"the slopes of {label} reach over {reach:.4f} of {high - low:.4f}."
    fact(recorder, reach > 0.9 * (high - low), Kind.VALUE, text, sample=index)
