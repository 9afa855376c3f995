"""Property ``random``: modules that draw random numbers in train mode are reproducible and have the
documented distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from conformance.device import process_state
from conformance.framework.compare import (
    compare_exact,
    compare_metadata,
    compare_values,
    fact,
    to_host_tensor,
)
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.framework.trees import tensors
from conformance.model.verdicts import Kind
from conformance.properties.modules import _module_checks as common
from conformance.samples.modules import ModuleSample, module_samples
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The allowed deviation of a frequency, in standard deviations. A correct generator exceeds this deviation
#: with a probability of about 1e-9.
_SIGMAS = 6.0
#: The number of leading dimensions whose elements are dropped independently. The elements along the remaining
#: dimensions are dropped together.
_CHANNELS = {"nn.Dropout1d": 2, "nn.Dropout2d": 2, "nn.Dropout3d": 2, "nn.FeatureAlphaDropout": 2}
#: The value of elements that alpha dropout drops: the lower bound of SELU, from the paper that defines SELU
#: (arXiv 1706.02515).
_SELU_FLOOR = -1.0507009873554805 * 1.6732632423543772


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if not getattr(subject.info, "random", False):
        return []
    return common.supported_dtypes(target, subject)


@register(
    "random",
    subject_kind="module",
    statement="Random modules give equal values after equal seeds, and different values after "
    "different seeds. Frequencies are as documented.",
    documentation="notes/randomness.html",
    level="core",
    applies=dtypes_to_check,
    capabilities=("random",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run the module with equal and different seeds, and check the distribution of its values and
    gradients.
    """
    samples = module_samples(subject, common.dtype_under_test(recorder))
    random_samples = samples.chosen(2, random=True)
    recorder.samples(len(random_samples), samples.available)
    for sample in random_samples:
        drawn_values = []
        for seed in (recorder.seed, recorder.seed, recorder.seed + 1):
            outcome = common.attempt_on_target(
                target,
                lambda seed=seed, sample=sample: _draw_once(target, sample, seed),  # type: ignore[misc]
            )
            if not common.require_success(target, recorder, outcome, sample.describe(), sample.index):
                break
            drawn_values.append(outcome.value)
        if len(drawn_values) < 3:
            continue
        description = f"{sample.describe()} with the same seed"
        compare_exact(
            recorder, drawn_values[1][0], drawn_values[0][0], label=description, sample=sample.index
        )
        repeated = torch.equal(to_host_tensor(drawn_values[2][0]), to_host_tensor(drawn_values[0][0]))
        text = f"{sample.describe()} gives the same values with a different seed."
        fact(recorder, not repeated, Kind.VALUE, text, sample=sample.index)
        value, gradient = drawn_values[0]
        source = tensors(sample.call)[0]
        label = sample.describe()
        device = target.torch_device
        if compare_metadata(recorder, value, source, label=label, sample=sample.index, device=device):
            _check_distribution(target, recorder, subject, sample, to_host_tensor(value), gradient)


def _draw_once(target: Target, sample: ModuleSample, seed: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Seed the generators and call the module once. Return the result and the gradient of the result's sum.

    The gradient is None if the target does not declare autograd.
    """
    process_state.seed(seed, target)
    module, (args, kwargs) = common.copy_to_device(target, sample)
    with torch.set_grad_enabled(target.capable("autograd")):
        value = module(*args, **kwargs)
        if value.requires_grad:
            value.sum().backward()
    return value, tensors((args, kwargs))[0].grad


def _check_distribution(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: ModuleSample,
    value: torch.Tensor,
    gradient: torch.Tensor | None,
) -> None:
    """Check the values and the gradient of one call, and the frequency of dropped elements or the
    distribution of random slopes.
    """
    source = to_host_tensor(tensors(sample.call)[0])
    module = sample.module()
    bound = rule("nn.functional.dropout", sample.dtype).tolerance(sample.dtype)
    slope, offset, dropped = _observed_affine_map(subject.name, module, source, value)
    description, index = sample.describe(), sample.index
    expected = source.double() * slope + offset
    compare_values(
        recorder,
        value,
        expected,
        tolerance=bound,
        label=description,
        sample=index,
        sensitivity=(source.double() * slope).abs(),
    )
    if gradient is not None:
        label = f"the gradient of {description}"
        compare_values(recorder, gradient, slope, tolerance=bound, label=label, sample=index)
    if dropped is None:
        _check_slopes(recorder, module, slope[source < 0], description, index)
        return
    is_dropped = dropped.double()
    if subject.name in _CHANNELS:
        flat = is_dropped.flatten(_CHANNELS[subject.name])
        text = f"{description} drops parts of a channel."
        fact(recorder, bool((flat == flat[..., :1]).all()), Kind.VALUE, text, sample=index)
        is_dropped = flat[..., 0]
    chance = float(module.p)  # type: ignore[arg-type]
    allowed = _SIGMAS * math.sqrt(chance * (1 - chance) / is_dropped.numel())
    text = (
        f"{description} drops {float(is_dropped.mean()):.3f} of the elements, expected {chance} plus or "
        f"minus {allowed:.3f}."
    )
    fact(recorder, abs(float(is_dropped.mean()) - chance) <= allowed, Kind.VALUE, text, sample=index)


def _observed_affine_map(
    name: str, module: Any, source: torch.Tensor, value: torch.Tensor
) -> tuple[Any, Any, Any]:
    """Return ``(slope, offset, dropped)``: the map that a random module has applied to ``source``.

    ``value`` must equal ``slope * source + offset``. ``dropped`` is the mask of the elements that dropout
    dropped, or None for ``nn.RReLU``.
    """
    source_values, drawn = source.double(), value.double()
    zero, unit = torch.zeros_like(source_values), torch.ones_like(source_values)
    if name == "nn.RReLU":
        slope = torch.where(
            source_values < 0, (drawn / source_values).clamp(module.lower, module.upper), unit
        )
        return slope, zero, None
    chance = float(module.p)
    if "Alpha" not in name:
        dropped = drawn == 0
        return torch.where(dropped, zero, unit / (1 - chance)), zero, dropped
    retained_slope = ((1 - chance) * (1 + chance * _SELU_FLOOR**2)) ** -0.5
    shift = -retained_slope * chance * _SELU_FLOOR
    dropped_value = retained_slope * _SELU_FLOOR + shift
    dropped = (drawn - dropped_value).abs() < (drawn - (retained_slope * source_values + shift)).abs()
    return (
        torch.where(dropped, zero, unit * retained_slope),
        torch.where(dropped, unit * dropped_value, unit * shift),
        dropped,
    )


def _check_slopes(recorder: Recorder, module: Any, slopes: torch.Tensor, label: str, index: int) -> None:
    """Check by mean and range that the random slopes of ``nn.RReLU`` are uniformly distributed."""
    low, high = float(module.lower), float(module.upper)
    allowed = _SIGMAS * (high - low) / math.sqrt(12 * slopes.numel())
    distance = abs(float(slopes.mean()) - (low + high) / 2)
    text = f"the mean slope of {label} is {distance:.4f} off its expected value (allowed {allowed:.4f})."
    fact(recorder, distance <= allowed, Kind.VALUE, text, sample=index)
    reach = float(slopes.max() - slopes.min())
    text = f"the slopes of {label} span {reach:.4f}, expected over 90 % of {high - low:.4f}."
    fact(recorder, reach > 0.9 * (high - low), Kind.VALUE, text, sample=index)
