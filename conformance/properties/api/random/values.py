"""Behaviours of random operators: ranges, moments and shapes of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import FLOATS, INTEGERS, behaviour
from conformance.behaviours.lab import Lab, lab_work

SAMPLE_COUNT = 2_000

#: The allowed error of a mean, in standard errors. A correct device exceeds this error with a probability
#: below 1e-10.
SIGMAS = 7.0
#: The allowed error of an empirical distribution function of n numbers, in units of 1/sqrt(n)
#: (Kolmogorov-Smirnov). A correct device exceeds this error with a probability below 1e-10.
KOLMOGOROV = 3.5


def check_mean(lab: Lab, name: str, sample: torch.Tensor, mean: float, deviation: float) -> None:
    """Check that the mean of a sample is ``mean``, within the error that sample size and rounding allow.

    The observation name does not contain the number ``mean``, because a device may have computed this number
    with rounding.
    """
    average = float(sample.cpu().double().mean())
    unit = torch.finfo(sample.dtype).eps if sample.is_floating_point() else 0.0
    allowed = SIGMAS * deviation / math.sqrt(sample.numel()) + unit * (abs(mean) + deviation)
    lab.holds(f"the mean of {name} is the mean of its distribution", abs(average - mean) <= allowed)


def check_cumulative_distribution(
    lab: Lab, name: str, sample: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Check that a sample follows the distribution function ``function``, within the error that sample size
    and the resolution of the dtype allow.
    """
    host = sample.cpu()
    with lab_work():
        values = host.double().view(-1).sort().values
        count = values.numel()
        steps = torch.arange(1, count + 1, dtype=torch.float64) / count
        unit = torch.finfo(sample.dtype).eps if sample.is_floating_point() else 0.0
        expected, above, below = (
            function(values),
            function(values * (1 + unit)),
            function(values * (1 - unit)),
        )
        blur = float((above - below).abs().max())
        distance = float(torch.maximum((steps - expected).abs(), (steps - 1 / count - expected).abs()).max())
    lab.holds(
        f"{name} follows its distribution function", distance <= KOLMOGOROV / math.sqrt(count) + 2 * blur
    )


def normal_cumulative_distribution(mean: float, deviation: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the cumulative distribution function of a normal distribution."""
    return lambda x: 0.5 * (1 + torch.erf((x - mean) / (deviation * math.sqrt(2))))


@behaviour(
    "random", dtypes=FLOATS, level="training", must_detect=("dtype",), page="generated/torch.rand.html"
)
def uniform_numbers(lab: Lab) -> None:
    """``rand`` and ``rand_like`` draw evenly from [0, 1) and never draw 1. ``uniform_`` draws evenly from
    [0, 1] or the given range.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    samples = {
        "rand": torch.rand(SAMPLE_COUNT, **where),
        "rand_like": torch.rand_like(torch.zeros(SAMPLE_COUNT, **where)),
        "uniform_": torch.zeros(SAMPLE_COUNT, **where).uniform_(),
        "into out": torch.rand(SAMPLE_COUNT, out=torch.empty(0, **where)),
    }
    for name, sample in samples.items():
        lab.same(name, [sample.shape, sample.dtype])
        # The page of uniform_ does not exclude the upper end.
        inside = (sample >= 0) & ((sample <= 1) if name == "uniform_" else (sample < 1))
        lab.holds(f"{name} is in the expected range", bool(inside.all()))
        check_mean(lab, name, sample, 0.5, math.sqrt(1 / 12))
        check_cumulative_distribution(lab, name, sample, lambda x: x.clamp(0, 1))
    for low, high in ((-2.0, 5.0), (3.0, 3.5), (-8.0, -7.0)):
        sample = torch.zeros(SAMPLE_COUNT, **where).uniform_(low, high)
        lab.holds(f"uniform_ is in [{low}, {high}]", bool(((sample >= low) & (sample <= high)).all()))
        check_mean(
            lab, f"uniform_({low}, {high})", sample, (low + high) / 2, (high - low) * math.sqrt(1 / 12)
        )
    with lab.parity("The density on the page is not defined for equal bounds"):
        lab.expect("uniform_ with equal bounds", torch.zeros(3, **where).uniform_(2.0, 2.0), [2.0, 2.0, 2.0])
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "uniform_ with the bounds in the wrong order", lambda: torch.zeros(3, **where).uniform_(1.0, 0.0)
        )
    lab.same(
        "shapes",
        [torch.rand(2, 3, **where).shape, torch.rand((4,), **where).shape, torch.rand((), **where).shape],
    )


@behaviour(
    "random", dtypes=FLOATS, level="training", must_detect=("dtype",), page="generated/torch.normal.html"
)
def normal_numbers(lab: Lab) -> None:
    """``randn``, ``normal`` and ``normal_`` draw normal numbers with the given mean and standard deviation,
    which may be tensors.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    samples = {
        "randn": torch.randn(SAMPLE_COUNT, **where),
        "randn_like": torch.randn_like(torch.zeros(SAMPLE_COUNT, **where)),
        "normal_": torch.zeros(SAMPLE_COUNT, **where).normal_(),
        "into out": torch.randn(SAMPLE_COUNT, out=torch.empty(0, **where)),
        "normal": torch.normal(0.0, 1.0, (SAMPLE_COUNT,), **where),
    }
    for name, sample in samples.items():
        lab.same(name, [sample.shape, sample.dtype])
        check_mean(lab, name, sample, 0.0, 1.0)
        check_mean(lab, f"the squares of {name}", sample.cpu().double() ** 2, 1.0, math.sqrt(2))
        check_cumulative_distribution(lab, name, sample, normal_cumulative_distribution(0.0, 1.0))
    for mean, deviation in ((-10.0, 4.0), (3.0, 0.5)):
        check_cumulative_distribution(
            lab,
            f"normal_({mean}, {deviation})",
            torch.zeros(SAMPLE_COUNT, **where).normal_(mean, deviation),
            normal_cumulative_distribution(mean, deviation),
        )
    means = torch.full((SAMPLE_COUNT,), 2.0, **where)
    spreads = torch.full((SAMPLE_COUNT,), 3.0, **where)
    check_cumulative_distribution(
        lab, "normal of means", torch.normal(means, 1.0), normal_cumulative_distribution(2.0, 1.0)
    )
    check_cumulative_distribution(
        lab, "normal of deviations", torch.normal(1.0, spreads), normal_cumulative_distribution(1.0, 3.0)
    )
    check_cumulative_distribution(
        lab, "normal of both", torch.normal(means, spreads), normal_cumulative_distribution(2.0, 3.0)
    )
    with lab.parity("No page describes a deviation of zero"):
        lab.expect("a deviation of zero", torch.zeros(2, **where).normal_(5.0, 0.0), [5.0, 5.0])
    lab.expect(
        "shape of normal with tensors of different shapes",
        torch.normal(torch.zeros(1, 4, **where), torch.ones(4, **where)).shape,
        torch.Size([1, 4]),
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("a negative deviation", lambda: torch.zeros(2, **where).normal_(0.0, -1.0), match="std")
        lab.raises(
            "torch.normal with a negative deviation",
            lambda: torch.normal(0.0, -1.0, (2,), **where),
            match="std",
        )
        lab.raises("negative deviations", lambda: torch.normal(means, -spreads), match="std")
    lab.raises(
        "means and deviations of different sizes",
        lambda: torch.normal(torch.zeros(3, **where), torch.ones(4, **where)),
    )


@behaviour(
    "random",
    dtypes=(*INTEGERS, "float32", "float64"),
    level="training",
    must_detect=("dtype",),
    page="generated/torch.randint.html",
)
def random_integers(lab: Lab) -> None:
    """``randint`` and ``random_`` draw every whole number of their range evenly, and no other number."""
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    samples = {
        "randint": torch.randint(2, 10, (SAMPLE_COUNT,), **where),
        "randint_like": torch.randint_like(torch.zeros(SAMPLE_COUNT, **where), 2, 10),
        "random_": torch.zeros(SAMPLE_COUNT, **where).random_(2, 10),
    }
    for name, sample in samples.items():
        lab.same(name, [sample.shape, sample.dtype])
        lab.expect(f"numbers of {name}", sample.unique(), list(range(2, 10)))
        counts = torch.bincount(sample.long(), minlength=10)[2:].cpu().double() / SAMPLE_COUNT
        lab.holds(
            f"{name} draws evenly",
            bool(((counts - 0.125).abs() < SIGMAS * math.sqrt(0.125 * 0.875 / SAMPLE_COUNT)).all()),
        )
    lab.expect("up to one", torch.randint(1, (5,), **where), [0] * 5)
    lab.expect("one number", torch.zeros(3, **where).random_(7, 8), [7, 7, 7])
    below = torch.zeros(SAMPLE_COUNT, **where).random_(100)
    lab.holds(
        "random_(100) draws numbers from 0 to 99",
        bool(((below >= 0) & (below < 100)).all()) and int(below.max()) == 99,
    )
    if lab.dtype.is_signed:
        signed = torch.randint(-5, 6, (SAMPLE_COUNT,), **where)
        lab.expect("numbers of both signs", signed.unique(), list(range(-5, 6)))
    free = torch.zeros(SAMPLE_COUNT, **where).random_()
    lab.holds(
        "random_ without a range is not negative", bool((free >= 0).all()) and free.unique().numel() > 1
    )
    if not lab.dtype.is_floating_point:
        top = torch.iinfo(lab.dtype).max
        lab.holds(
            "random_ without a range reaches the upper half of the dtype", int(free.long().max()) > top // 2
        )
        edge = torch.randint(top - 1, top, (4,), **where)
        lab.expect("randint at the upper end of the dtype", edge, [top - 1] * 4)
        with lab.parity("No page says that the call is an error"):
            lab.raises(
                "beyond the dtype",
                lambda: torch.zeros(1, **where).random_(0, 2**63 - 1 if top < 2**62 else -1),
            )
    with lab.parity("No page says that the call is an error"):
        lab.raises("an empty range", lambda: torch.randint(3, 3, (2,), **where))
        lab.raises(
            "an empty range of random_", lambda: torch.zeros(1, **where).random_(5, 5), match="(?i)from"
        )
    lab.same("without a dtype", torch.randint(0, 5, (3,), device=lab.device).dtype)
    with lab.parity("No page says that out= of randint may have another dtype than int64"):
        lab.same("into out", torch.randint(0, 5, (3,), out=torch.empty(0, **where)).dtype)


@behaviour(
    "random",
    dtypes=("float64", "float32", "int64", "int32"),
    level="training",
    capabilities=("generator",),
    must_detect=("value",),
    page="generated/torch.randperm.html",
)
def permutations_into_out(lab: Lab) -> None:
    """``randperm`` with a generator writes a permutation into ``out=`` and does not write outside of
    ``out=``. The same seed gives the same permutation, and the next call gives a different permutation.
    """
    generator = torch.Generator(lab.device)

    def draw_permutation() -> torch.Tensor:
        memory = torch.full((120,), -1, dtype=lab.dtype, device=lab.device)
        inside = memory[10:110]
        result = torch.randperm(100, generator=generator, out=inside)
        lab.holds("randperm returns its out=", result is inside)
        lab.expect("a permutation", inside.sort().values, list(range(100)))
        lab.same("beside it", [memory[:10], memory[110:]])
        return inside.clone()

    generator.manual_seed(5)
    first, second, third = draw_permutation(), draw_permutation(), draw_permutation()
    generator.manual_seed(5)
    lab.holds(
        "randperm repeats after the same seed",
        torch.equal(draw_permutation(), first) and torch.equal(draw_permutation(), second),
    )
    lab.holds(
        "the next permutation differs", not torch.equal(first, second) and not torch.equal(second, third)
    )
    for shift in (1, 2, 3, 4, 5, 6, 7, 8):
        equal = int((first[shift:] == second[:-shift]).sum())
        lab.holds(f"the second permutation is not the first permutation shifted by {shift}", equal < 20)


@behaviour("random", level="training", must_detect=("value",), page="generated/torch.randperm.html")
def permutations(lab: Lab) -> None:
    """``randperm`` returns a permutation in any dtype that can represent its numbers. Each element is equally
    likely to be first. A dtype that cannot represent the numbers raises an error.
    """
    device = lab.device
    for size in (0, 1, 2, 7, 100, 5000):
        for dtype in (torch.int64, torch.int32, torch.float32, torch.float64):
            permutation = torch.randperm(size, device=device, dtype=dtype)
            lab.expect(f"{size} of {dtype}, sorted", permutation.sort().values, list(range(size)))
    lab.expect(
        "into out",
        torch.randperm(9, out=torch.empty(0, dtype=torch.int64, device=device)).sort().values,
        list(range(9)),
    )
    strided = torch.zeros(18, dtype=torch.int64, device=device)[::2]
    torch.randperm(9, out=strided)
    lab.expect("into a strided out", strided.sort().values, list(range(9)))
    lab.holds(
        "two permutations differ",
        not torch.equal(torch.randperm(100, device=device), torch.randperm(100, device=device)),
    )
    firsts = torch.stack([torch.randperm(3, device=device)[0] for _ in range(300)])
    lab.holds("every element is sometimes first", torch.bincount(firsts, minlength=3).min().item() > 50)
    with lab.parity("No page says that the call is an error"):
        lab.raises("a negative size", lambda: torch.randperm(-1, device=device))
        lab.raises(
            "randperm of more numbers than float16 represents",
            lambda: torch.randperm(5000, dtype=torch.float16, device=device),
        )
        lab.raises(
            "randperm of more numbers than uint8 represents",
            lambda: torch.randperm(300, dtype=torch.uint8, device=device),
        )


@behaviour(
    "random",
    dtypes=("float32", "float64", "float16"),
    must_detect=("error",),
    page="generated/torch.Tensor.exponential_.html",
)
def special_distributions(lab: Lab) -> None:
    """``exponential_``, ``cauchy_``, ``log_normal_`` and ``geometric_`` follow their distributions and
    ranges. Invalid parameters raise an error.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}

    def new_zeros() -> torch.Tensor:
        return torch.zeros(SAMPLE_COUNT, **where)

    for rate in (0.5, 1.0, 4.0):
        sample = new_zeros().exponential_(rate)
        lab.holds(
            f"exponential_({rate}) is above zero", bool((sample > 0).all()) and bool(sample.isfinite().all())
        )
        check_cumulative_distribution(
            lab, f"exponential_({rate})", sample, lambda x: 1 - torch.exp(-rate * x)
        )
    for median, width in ((0.0, 1.0), (-2.0, 0.5)):
        sample = new_zeros().cauchy_(median, width)
        check_cumulative_distribution(
            lab,
            f"cauchy_({median}, {width})",
            sample,
            lambda x: torch.atan((x - median) / width) / math.pi + 0.5,
        )
    for mean, deviation in ((0.0, 0.5), (0.5, 0.25)):
        sample = new_zeros().log_normal_(mean, deviation)
        lab.holds(f"log_normal_({mean}, {deviation}) is above zero", bool((sample > 0).all()))
        function = normal_cumulative_distribution(mean, deviation)
        check_cumulative_distribution(
            lab, f"log_normal_({mean}, {deviation})", sample, lambda x: function(x.log())
        )
    for chance in (0.2, 0.5, 0.8):
        sample = new_zeros().geometric_(chance)
        lab.holds(
            f"geometric_({chance}) counts from one",
            bool((sample >= 1).all()) and bool((sample == sample.round()).all()),
        )
        check_mean(lab, f"geometric_({chance})", sample, 1 / chance, math.sqrt(1 - chance) / chance)
        check_mean(lab, f"ones of geometric_({chance})", (sample == 1).cpu().double(), chance, 0.5)
    with lab.parity("No page says that the call is an error"):
        lab.raises("a rate of zero", lambda: new_zeros().exponential_(0.0), match="lambda|lambd")
        lab.raises("a negative rate", lambda: new_zeros().exponential_(-1.0), match="lambda|lambd")
        lab.raises("a width of zero", lambda: new_zeros().cauchy_(0.0, 0.0), match="sigma")
        lab.raises("a negative deviation", lambda: new_zeros().log_normal_(0.0, -1.0), match="std")
    for chance in (0.0, 1.0, -0.5, 2.0):
        with lab.parity("No page says that the call is an error"):
            lab.raises(f"a chance of {chance}", lambda: new_zeros().geometric_(chance), match="geometric_|p")
    whole = torch.zeros(3, dtype=torch.int64, device=lab.device)
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "exponential_ of integers", lambda: whole.exponential_(), RuntimeError, NotImplementedError
        )
        lab.raises("cauchy_ of integers", lambda: whole.cauchy_(), RuntimeError, NotImplementedError)


@behaviour(
    "random",
    dtypes=(*FLOATS, "int64", "uint8", "bool"),
    level="training",
    must_detect=("error",),
    page="generated/torch.Tensor.bernoulli_.html",
)
def bernoulli_draws(lab: Lab) -> None:
    """``bernoulli`` returns ones with the given probability, which may be a number or a tensor of any
    floating dtype. With probability 0 it returns only zeros, and with probability 1 only ones.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    for chance in (0.25, 0.5, 0.9):
        sample = torch.zeros(SAMPLE_COUNT, **where).bernoulli_(chance)
        lab.holds(f"bernoulli_({chance}) is zeros and ones", bool(((sample == 0) | (sample == 1)).all()))
        check_mean(lab, f"bernoulli_({chance})", sample.cpu().double(), chance, 0.5)
    for kind in (torch.float32, torch.float64):
        chances = torch.full((SAMPLE_COUNT,), 0.75, dtype=kind, device=lab.device)
        drawn = torch.zeros(SAMPLE_COUNT, **where).bernoulli_(chances)
        check_mean(lab, f"bernoulli_ of {kind}", drawn.cpu().double(), 0.75, 0.5)
    lab.expect("never", torch.ones(5, **where).bernoulli_(0.0), [0] * 5)
    lab.expect("always", torch.zeros(5, **where).bernoulli_(1.0), [1] * 5)
    ends = torch.tensor([0.0, 1.0, 0.0, 1.0], device=lab.device)
    lab.expect("by element", torch.zeros(4, **where).bernoulli_(ends), [0, 1, 0, 1])
    if lab.dtype.is_floating_point:
        lab.expect("out of place", torch.bernoulli(ends.to(lab.dtype)), [0, 1, 0, 1])
        with lab.parity("The page of torch.bernoulli does not mention a probability as a number"):
            lab.same(
                "torch.bernoulli with a probability as a number",
                torch.bernoulli(torch.zeros(3, **where), 1.0),
            )
        out = torch.empty(0, **where)
        lab.same("into out", torch.bernoulli(ends.to(lab.dtype), out=out))
    strided = torch.zeros(6, 4, **where)
    strided[::2].bernoulli_(1.0)
    lab.same("a part", strided)
    for chance in (-0.1, 1.1):
        lab.raises(
            f"a chance of {chance}",
            lambda: torch.zeros(2, **where).bernoulli_(chance),
            match="p",
        )


@behaviour(
    "random",
    dtypes=("float32", "float64", "float16"),
    level="training",
    must_detect=("error",),
    page="generated/torch.multinomial.html",
)
def multinomial_draws(lab: Lab) -> None:
    """``multinomial`` draws each index with a probability in proportion to its weight. It never draws an
    index of weight zero. Without replacement, it draws no index twice.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    weights = torch.tensor([1.0, 0.0, 2.0, 5.0], **where)
    drawn = torch.multinomial(weights, SAMPLE_COUNT, replacement=True)
    lab.same("drawn", [drawn.shape, drawn.dtype])
    shares = torch.bincount(drawn, minlength=4).cpu().double() / SAMPLE_COUNT
    expected = torch.tensor([0.125, 0.0, 0.25, 0.625], dtype=torch.float64)
    lab.holds(
        "indices occur in proportion to the weights",
        bool(((shares - expected).abs() < SIGMAS * 0.5 / math.sqrt(SAMPLE_COUNT)).all()),
    )
    lab.holds("weight zero is never drawn", float(shares[1]) == 0.0)
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 3.0]], **where)
    lab.expect("certain rows", torch.multinomial(rows, 4, replacement=True), [[0] * 4, [2] * 4])
    once = torch.multinomial(torch.tensor([[1.0, 1.0, 0.0, 1.0]] * 50, **where), 3)
    lab.expect("without replacement", once.sort(1).values, [[0, 1, 3]] * 50)
    lab.holds("draws without replacement have different orders", once.unique(dim=0).size(0) > 1)
    firsts = torch.multinomial(torch.tensor([[1.0, 3.0]] * 4000, **where), 1).cpu().double()
    check_mean(lab, "one draw from two weights", firsts, 0.75, 0.5)
    lab.same("one row", torch.multinomial(weights, 2).shape)
    lab.same("into out", torch.multinomial(rows, 1, out=torch.empty(0, dtype=torch.int64, device=lab.device)))
    lab.same("no rows", torch.multinomial(rows[:0], 1, replacement=True).shape)
    lab.same("no rows without replacement", torch.multinomial(rows[:0], 1).shape)
    lab.same("strided", torch.multinomial(torch.tensor([[0.0, 1.0], [1.0, 0.0]], **where).t(), 1))
    lab.raises(
        "more than there are",
        lambda: torch.multinomial(weights, 5),
        match="without replacement|larger sample|prob_dist",
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("none", lambda: torch.multinomial(weights, 0), match="n_sample")
    lab.raises("of a cube", lambda: torch.multinomial(lab.floats(2, 2, 2, low=0), 1), match="1 or 2 dim")
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "of integers", lambda: torch.multinomial(torch.ones(3, dtype=torch.int64, device=lab.device), 1)
        )
    lab.raises(
        "multinomial into an int32 out=",
        lambda: torch.multinomial(weights, 1, out=torch.empty(0, dtype=torch.int32, device=lab.device)),
    )
    torch.manual_seed(6)
    first = torch.multinomial(weights, 50, True)
    second = torch.multinomial(weights, 50, True)
    torch.manual_seed(6)
    lab.holds("the same seed repeats the draw", torch.equal(first, torch.multinomial(weights, 50, True)))
    lab.holds(
        "the next draw after the same seed repeats and differs from the first draw",
        torch.equal(second, torch.multinomial(weights, 50, True)) and not torch.equal(first, second),
    )
