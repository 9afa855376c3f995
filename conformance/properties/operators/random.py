"""Random operators: reproducible, different, of the promised distribution, independent of the host's
generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_private
from conformance.checking import trees
from conformance.checking.compare import fact, on_host
from conformance.checking.invocation import attempt_on
from conformance.checking.property import register
from conformance.checking.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators._common import (
    copy_in,
    device_of,
    dtype_under_test,
    failed_call,
    first_dtypes,
    run,
)
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.databases import Subject
from conformance.target.target import Target

LIMIT = 3
COUNT = 4096
#: Bound on sqrt(n) times the Kolmogorov-Smirnov distance: a right sampler exceeds it once in 10**8 draws of
#: a seed.
KS_BOUND = 3.1

Sampler = Callable[[torch.device, torch.dtype], torch.Tensor]
Distribution = Callable[[torch.Tensor], torch.Tensor]


def _normal(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = 0.5 * torch.special.erfc(-x / math.sqrt(2))
    return found


#: The operators themselves: torch's database wraps each so that it seeds the generator before every call.
RAW: dict[str, Callable[..., Any]] = {
    "bernoulli": torch.bernoulli,
    "cauchy": torch.Tensor.cauchy_,
    "exponential": torch.Tensor.exponential_,
    "geometric": torch.Tensor.geometric_,
    "log_normal": torch.Tensor.log_normal_,
    "multinomial": torch.multinomial,
    "normal": torch.normal,
    "normal.in_place": torch.Tensor.normal_,
    "normal.number_mean": torch.normal,
    "rand_like": torch.rand_like,
    "randint": torch.randint,
    "randint_like": torch.randint_like,
    "randn": torch.randn,
    "randn_like": torch.randn_like,
    "uniform": torch.Tensor.uniform_,
    "nn.functional.alpha_dropout": torch.nn.functional.alpha_dropout,
    "nn.functional.dropout": torch.nn.functional.dropout,
    "nn.functional.dropout2d": torch.nn.functional.dropout2d,
    "nn.functional.dropout3d": torch.nn.functional.dropout3d,
    "nn.functional.feature_alpha_dropout.with_train": torch.nn.functional.feature_alpha_dropout,
    "nn.functional.fractional_max_pool2d": torch.nn.functional.fractional_max_pool2d,
    "nn.functional.fractional_max_pool3d": torch.nn.functional.fractional_max_pool3d,
}

#: How to draw many values with the operator, and the distribution function of what it must give.
_CONTINUOUS: dict[str, tuple[Callable[[Any, torch.Tensor], Any], Distribution]] = {
    "uniform": (lambda op, x: op(x, -1.0, 3.0), lambda x: ((x + 1) / 4).clamp(0, 1)),
    "rand_like": (lambda op, x: op(x), lambda x: x.clamp(0, 1)),
    "randn_like": (lambda op, x: op(x), _normal),
    "randn": (lambda op, x: op(*x.shape, dtype=x.dtype, device=x.device), _normal),
    "normal": (
        lambda op, x: op(torch.full_like(x, 1.0), torch.full_like(x, 2.0)),
        lambda x: _normal((x - 1) / 2),
    ),
    "normal.in_place": (lambda op, x: op(x, 1.0, 2.0), lambda x: _normal((x - 1) / 2)),
    "normal.number_mean": (lambda op, x: op(1.0, torch.full_like(x, 2.0)), lambda x: _normal((x - 1) / 2)),
    "exponential": (lambda op, x: op(x, 0.5), lambda x: 1 - torch.exp(-0.5 * x.clamp_min(0))),
    "cauchy": (lambda op, x: op(x, 0.5, 2.0), lambda x: torch.atan((x - 0.5) / 2) / math.pi + 0.5),
    "log_normal": (lambda op, x: op(x, 0.0, 0.25), lambda x: _normal(torch.log(x.clamp_min(1e-300)) / 0.25)),
}

#: The same for discrete results, with the expected mean, the variance of an element, and the bounds.
_DISCRETE: dict[str, tuple[Callable[[Any, torch.Tensor], Any], float, float, float, float]] = {
    "bernoulli": (lambda op, x: op(torch.full_like(x, 0.3)), 0.3, 0.21, 0.0, 1.0),
    "geometric": (lambda op, x: op(x, 0.5), 2.0, 2.0, 1.0, 64.0),
    "randint": (lambda op, x: op(10, x.shape, dtype=x.dtype, device=x.device), 4.5, 8.25, 0.0, 9.0),
    "randint_like": (lambda op, x: op(x, 10), 4.5, 8.25, 0.0, 9.0),
    "multinomial": (
        lambda op, x: op(torch.full((4,), 1.0, dtype=x.dtype, device=x.device), COUNT, replacement=True),
        1.5,
        1.25,
        0.0,
        3.0,
    ),
    "nn.functional.dropout": (
        lambda op, x: op(torch.full_like(x, 1.0), p=0.25, training=True),
        1.0,
        1 / 3,
        0.0,
        1.34,
    ),
}


def operator_of(subject: Subject) -> Callable[..., Any]:
    """The operator without the seeding around it; a test may hand in another as ``unseeded`` of the entry."""
    found: Callable[..., Any] = getattr(subject.info, "unseeded", None) or RAW[subject.name]
    return found


def applies(target: Target, subject: Subject) -> Sequence[str]:
    if subject.name not in RAW:
        return []
    return first_dtypes(target, subject, ("float32", "int64", "bfloat16"), 2)


@register(
    "random",
    subject_kind="operator",
    statement=(
        "After the same seed the same values come, after another seed others, of the promised "
        "distribution; the "
        "host's generator neither moves nor matters."
    ),
    level="core",
    applies=applies,
    capabilities=("random",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    before = torch.default_generator.get_state()
    try:
        _reproducible(target, subject, recorder)
        _distribution(target, subject, recorder)
    finally:
        torch.manual_seed(0)  # of the device; the host's state is put back
        torch.default_generator.set_state(before)


def _draw(target: Target, recorder: Recorder, op: Any, sample: Sample, seed: int, spent: int = 0) -> Any:
    """The values after ``torch.manual_seed(seed)`` and ``spent`` draws from the host's generator, or None."""
    copy = copy_in(target, recorder, sample)
    if copy is None:
        return None
    torch.manual_seed(seed)
    if spent:
        torch.rand(spent)
    outcome = run(target, op, copy)
    if not outcome.ok:
        failed_call(target, recorder, sample, outcome)
        return None
    return [on_host(t) for t in trees.tensors(outcome.value)]


def _equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and bool((a == b).all()) for a, b in zip(one, other, strict=False)
    )


def _reproducible(target: Target, subject: Subject, recorder: Recorder) -> None:
    samples = samples_of(subject, dtype_under_test(recorder))
    chosen = samples.chosen(LIMIT)
    recorder.samples(len(chosen), samples.available)
    op = operator_of(subject)
    for sample in chosen:
        index = sample.index
        first = _draw(target, recorder, op, sample, 11)
        again = _draw(target, recorder, op, sample, 11)
        if first is None or again is None:
            continue
        message = "the same seed gives other values."
        fact(recorder, _equal(first, again), Kind.STATE, message, sample=index)
        if target.is_cpu:
            continue
        state = torch.default_generator.get_state()
        copy = copy_in(target, recorder, sample)
        if copy is not None and run(target, op, copy).ok:
            message = "drawing on the device moved the host's generator."
            still = torch.equal(state, torch.default_generator.get_state())
            fact(recorder, still, Kind.STATE, message, sample=index)
        moved = _draw(target, recorder, op, sample, 11, spent=7)
        if moved is not None:
            message = "draws from the host's generator changed the device's values."
            fact(recorder, _equal(first, moved), Kind.STATE, message, sample=index)


def _distribution(target: Target, subject: Subject, recorder: Recorder) -> None:
    dtype = dtype_under_test(recorder)
    if dtype != torch.float32:
        return
    device = device_of(target)
    sampler = _CONTINUOUS.get(subject.name) or _DISCRETE.get(subject.name)
    if sampler is None:
        return

    def draw(seed: int) -> torch.Tensor | None:
        def call() -> torch.Tensor:
            with torch_private.quiet(), torch.no_grad():
                torch.manual_seed(seed)
                x = torch.zeros(COUNT, dtype=dtype, device=device)
                return on_host(sampler[0](operator_of(subject), x)).to(torch.float64)

        outcome = attempt_on(target, call)
        if outcome.ok:
            found: torch.Tensor = outcome.value
            return found
        failed_call(target, recorder, Sample(-1, None), outcome, f"drawing {COUNT} values")
        return None

    values, others = draw(11), draw(12)
    if values is None or others is None:
        return
    different = values.shape == others.shape and not bool((values == others).all())
    fact(recorder, different, Kind.STATE, "another seed gives the same values.")
    if subject.name in _CONTINUOUS:
        _kolmogorov_smirnov(recorder, values, _CONTINUOUS[subject.name][1])
    else:
        _, mean, variance, low, high = _DISCRETE[subject.name]
        _moments(recorder, values, mean, variance, low, high)


def _kolmogorov_smirnov(recorder: Recorder, values: torch.Tensor, distribution: Distribution) -> None:
    ordered = values.sort().values
    count = ordered.numel()
    above = torch.arange(1, count + 1, dtype=torch.float64) / count
    wanted = distribution(ordered)
    distance = float(torch.maximum((above - wanted).abs(), (above - 1 / count - wanted).abs()).max())
    message = (
        f"the values are not of the promised distribution: their distribution function is off by "
        f"{distance:.4f} "
        f"for {count} values (allowed {KS_BOUND / math.sqrt(count):.4f})."
    )
    fact(recorder, distance <= KS_BOUND / math.sqrt(count), Kind.VALUE, message)


def _moments(
    recorder: Recorder, values: torch.Tensor, mean: float, variance: float, low: float, high: float
) -> None:
    found, allowed = float(values.mean()), 6 * math.sqrt(variance / values.numel())
    message = f"the mean of {values.numel()} values is {found:.4f} where {mean} ± {allowed:.4f} is expected."
    fact(recorder, abs(found - mean) <= allowed, Kind.VALUE, message)
    inside = bool(((values >= low) & (values <= high)).all())
    fact(recorder, inside, Kind.VALUE, f"values lie outside of [{low}, {high}].")
    spread = float(values.var())
    message = (
        f"the variance of {values.numel()} values is {spread:.4f} where about {variance:.4f} is expected."
    )
    fact(recorder, 0.5 * variance <= spread <= 2 * variance, Kind.VALUE, message)
