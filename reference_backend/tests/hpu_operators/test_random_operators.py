"""Test the random operators that take a seed: their distributions, and equal numbers for equal seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import scipy.stats
import torch

from . import samples
from .reference import assert_close_to_reference
from .samples import normal, number

hpu = torch.ops.hpu

#: Probability that a normal number exceeds five standard deviations, on one side.
FIVE_SIGMA = float(scipy.stats.norm.sf(5))


def test_numbers_of_all_operators_fit_their_distributions() -> None:
    seed = samples.seed_tensor()
    drawn = hpu.habana_rand(seed, [400, 500]).cpu().double().flatten()
    counts = torch.histc(drawn, 256, 0, 1)
    expected = drawn.numel() / 256
    assert abs(float(((counts - expected) ** 2 / expected).sum()) - 255) < 6 * math.sqrt(510)
    second_draw = hpu.habana_rand(samples.seed_tensor(18), [400, 500]).cpu().double().flatten()
    for a, b in ((drawn, second_draw), (drawn[:-1], drawn[1:]), (drawn[:-500], drawn[500:])):
        assert abs(float(numpy.corrcoef(a, b)[0, 1])) < 5 / math.sqrt(a.numel())
    assert_close_to_reference(hpu.habana_rand(seed, [400, 500]).flatten(), drawn, 0, 0)
    gauss = hpu.habana_randn(seed, [200_000]).cpu().double()
    assert abs(float(gauss.mean())) < 0.012 and abs(float(gauss.var()) - 1) < 0.02
    assert abs(float((gauss**4).mean()) - 3) < 0.15
    for mean in (0.0, 0.5, 4.0, 900.0):
        some = hpu.habana_poisson(seed, torch.full((20_000,), mean, device="hpu")).cpu().double()
        assert bool((some == some.round()).all()) and bool((some >= 0).all())
        assert (
            abs(float(some.mean()) - mean) <= 6 * math.sqrt(mean / 20_000)
            and abs(float(some.var()) - mean) <= 0.06 * mean
        )
    weights = torch.tensor([0.1, 0.0, 0.6, 0.3], device="hpu")
    with_ = (
        hpu.habana_multinomial(seed, weights.expand(20_000, 4), 1, True).cpu().flatten().bincount(minlength=4)
    )
    assert_close_to_reference(with_ / 20_000, weights.cpu(), 0, 0.02)
    without = hpu.habana_multinomial(seed, weights.expand(20_000, 4), 3, False).cpu()
    assert bool((without.sort(1).values == torch.tensor([0, 2, 3])).all())
    assert_close_to_reference(without[:, 0].bincount(minlength=4) / 20_000, weights.cpu(), 0, 0.02)
    order = hpu.habana_randperm(seed, 1000).cpu()
    assert order.sort().values.tolist() == list(range(1000)) and order.tolist() != list(range(1000))
    integers = hpu.habana_randint(seed, -3, 4, [7000]).cpu()
    assert integers.min() == -3 and integers.max() == 3
    assert_close_to_reference((integers + 3).bincount(minlength=7) / 7000, torch.full((7,), 1 / 7), 0, 0.03)
    result, dropout_mask, back = hpu.habana_native_dropout_checkpoint(seed, normal(9000), 0.25, True)
    assert_close_to_reference(result, normal(9000).cpu() * dropout_mask.cpu() / 0.75)
    assert abs(float(dropout_mask.cpu().double().mean()) - 0.75) < 0.03 and back.tolist() == seed.tolist()
    seeds = hpu.habana_seed_generator(seed, number(3, torch.int32), 50).tolist()
    assert (
        len(set(seeds)) == 50
        and seeds != hpu.habana_seed_generator(seed, number(4, torch.int32), 50).tolist()
    )


def assert_share_of_ones(ones: torch.Tensor, p: float) -> None:
    """Assert that the values are independent zeros and ones, with a share p of ones."""
    drawn = ones.cpu().double().flatten()
    count = drawn.numel()
    assert bool(((drawn == 0) | (drawn == 1)).all())
    assert abs(float(drawn.mean()) - p) <= 5 * math.sqrt(p * (1 - p) / count)
    if 0 < p < 1:
        for step in (1, 2, 64):
            pairs = float(numpy.corrcoef(drawn[:-step], drawn[step:])[0, 1])
            assert abs(pairs) < 5 / math.sqrt(count - step)


def assert_even_counts(counts: Any) -> None:
    """Assert that the counts fit draws of equally probable values."""
    statistic = scipy.stats.chisquare(numpy.asarray(counts)).statistic
    assert statistic < scipy.stats.chi2.isf(FIVE_SIGMA, len(counts) - 1)


SIZE = (150, 200)

#: Calls of `habana_bernoulli`, by overload. Arguments: the seed, the probability, and a suffix of the
#: operator's name.
BERNOULLI: dict[str, Callable[[torch.Tensor, float, str], Any]] = {
    "default": lambda seed, p, more: getattr(hpu, f"habana_bernoulli{more}")(
        seed, torch.full(SIZE, p, device="hpu")
    ),
    "p": lambda seed, p, more: getattr(hpu, f"habana_bernoulli{more}").p(
        seed, torch.empty(SIZE, device="hpu").fill_(math.nan), p
    ),
    "Tensor": lambda seed, p, more: getattr(hpu, f"habana_bernoulli{more}").Tensor(
        seed, torch.empty(SIZE, device="hpu").fill_(math.nan), torch.full(SIZE, p, device="hpu")
    ),
    "Size": lambda seed, p, more: getattr(hpu, f"habana_bernoulli{more}").Size(seed, SIZE, p),
}


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("form", list(BERNOULLI))
def test_ones_have_their_probability(form: str, p: float) -> None:
    ones = BERNOULLI[form](samples.seed_tensor(3), p, "")
    assert ones.shape == SIZE and ones.dtype == torch.float32 and ones.device.type == "hpu"
    assert_share_of_ones(ones, p)
    assert torch.equal(BERNOULLI[form](samples.seed_tensor(3), p, "").cpu(), ones.cpu())
    assert 0 < p < 1 or not bool((ones != p).any())
    if 0 < p < 1:
        assert not torch.equal(BERNOULLI[form](samples.seed_tensor(4), p, "").cpu(), ones.cpu())
    repeated, seed = BERNOULLI[form](samples.seed_tensor(3), p, "_checkpoint")
    assert torch.equal(repeated.cpu(), ones.cpu()) and seed.tolist() == [3]


@pytest.mark.parametrize("form", ["default", "Tensor"])
def test_each_element_has_its_own_probability(form: str) -> None:
    rows = torch.tensor([0.0, 0.1, 0.5, 0.75, 1.0], device="hpu")
    chances = rows.reshape(-1, 1).expand(5, 20_000).contiguous()
    if form == "default":
        ones = hpu.habana_bernoulli(samples.seed_tensor(), chances)
    else:
        ones = hpu.habana_bernoulli.Tensor(samples.seed_tensor(), torch.zeros_like(chances), chances)
    for row, p in zip(ones, rows.tolist(), strict=True):
        assert_share_of_ones(row, p)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64], ids=str)
def test_ones_in_a_dtype(dtype: torch.dtype) -> None:
    like = torch.zeros(SIZE, dtype=dtype, device="hpu")
    for ones in (
        hpu.habana_bernoulli.p(samples.seed_tensor(), like, 0.3),
        hpu.habana_bernoulli.Tensor(samples.seed_tensor(), like, torch.full(SIZE, 0.3, device="hpu")),
        hpu.habana_bernoulli.Size(samples.seed_tensor(), SIZE, 0.3, dtype=dtype),
        hpu.custom_bernoulli.Size(SIZE, 0.3, dtype=dtype),
    ):
        assert ones.dtype == dtype and ones.shape == SIZE
        assert_share_of_ones(ones, 0.3)


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.9, 1.0])
def test_ones_from_the_device_generator(p: float) -> None:
    torch.hpu.manual_seed(11)
    ones, second = (hpu.custom_bernoulli.Size(SIZE, p) for _ in range(2))
    assert ones.device.type == "hpu" and ones.dtype == torch.float32 and ones.shape == SIZE
    assert_share_of_ones(ones, p)
    assert_share_of_ones(second, p)
    assert torch.equal(ones.cpu(), second.cpu()) == (p in (0, 1))
    torch.hpu.manual_seed(11)
    assert torch.equal(hpu.custom_bernoulli.Size(SIZE, p, device="hpu").cpu(), ones.cpu())


#: Operators that draw numbers in the shape of a tensor, and the cumulative distribution function of each.
SHAPED: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., Any]]] = {
    "rand": (hpu.habana_rand_st, scipy.stats.uniform.cdf),
    "randn": (hpu.habana_randn_st, scipy.stats.norm.cdf),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", list(SHAPED))
def test_numbers_in_the_shape_of_a_tensor(name: str, dtype: torch.dtype) -> None:
    call, function = SHAPED[name]
    like = torch.full(SIZE, math.nan, device="hpu")
    numbers = call(samples.seed_tensor(), like, dtype=dtype)
    assert numbers.shape == SIZE and numbers.dtype == dtype and numbers.device.type == "hpu"
    drawn = numbers.cpu().double().flatten().numpy()
    # Rounding to bfloat16 changes a number by less than 2^-8 of its value, and thereby the distribution
    # function by less than 2^-8.
    rounding = 0.0 if dtype == torch.float32 else 2**-8
    distance = scipy.stats.kstest(drawn, function).statistic
    assert distance < rounding + scipy.stats.kstwo.isf(FIVE_SIGMA, drawn.size)
    assert abs(numpy.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / math.sqrt(drawn.size - 1)
    if name == "rand":
        assert drawn.min() >= 0 and drawn.max() < 1
    assert torch.equal(call(samples.seed_tensor(), like, dtype=dtype).cpu(), numbers.cpu())
    assert not torch.equal(call(samples.seed_tensor(18), like, dtype=dtype).cpu(), numbers.cpu())


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-3, 4), (1000, 1010), (5, 6)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
def test_integers_in_the_shape_of_a_tensor(dtype: torch.dtype, low: int, high: int) -> None:
    like = torch.zeros(SIZE, device="hpu")
    integers = hpu.habana_randint_st(samples.seed_tensor(), low, high, like, dtype=dtype)
    assert integers.shape == SIZE and integers.dtype == dtype
    drawn = integers.cpu().double().flatten()
    assert bool((drawn == drawn.round()).all()) and bool((drawn >= low).all() and (drawn < high).all())
    if high - low > 1:
        assert_even_counts((drawn - low).long().bincount(minlength=high - low))
        assert abs(numpy.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / math.sqrt(drawn.numel() - 1)
        second = hpu.habana_randint_st(samples.seed_tensor(18), low, high, like, dtype=dtype)
        assert not torch.equal(second.cpu(), integers.cpu())
    repeated = hpu.habana_randint_st(samples.seed_tensor(), low, high, like, dtype=dtype)
    assert torch.equal(repeated.cpu(), integers.cpu())


@pytest.mark.parametrize(("low", "high"), [(-(2**62), 2**62), (-(2**63), 2**63 - 1)])
def test_integers_of_a_wide_range(low: int, high: int) -> None:
    drawn = hpu.habana_randint_st(samples.seed_tensor(), low, high, torch.zeros(1000, device="hpu")).tolist()
    assert all(low <= number < high for number in drawn) and len(set(drawn)) == 1000
    middle = sum(drawn) / 1000 - (low + high) / 2
    assert abs(middle) < 5 * (high - low) / math.sqrt(12 * 1000)


def _call_with_out(call: Callable[..., torch.Tensor], seed: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    output = call(seed, out)
    assert output is out
    return output


#: Operators that permute as many numbers as a tensor has elements.
PERMUTATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "randperm_ht": lambda seed, like: hpu.habana_randperm_ht(seed, like[:1], like, dtype=like.dtype),
    "randperm_out": lambda seed, like: _call_with_out(
        lambda seed, out: hpu.randperm_out(out.numel(), seed, out), seed, like
    ),
    "randperm_out_ds_ht": lambda seed, like: _call_with_out(
        lambda seed, out: hpu.randperm_out_ds_ht(out[:1], seed, out), seed, like
    ),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
@pytest.mark.parametrize("name", list(PERMUTATIONS))
def test_permutations_have_each_number_once(name: str, count: int, dtype: torch.dtype) -> None:
    def draw_permutation(value: int) -> list[int]:
        like = torch.full((count,), 9, dtype=dtype, device="hpu")
        permutation = PERMUTATIONS[name](samples.seed_tensor(value), like)
        assert (
            permutation.dtype == dtype and permutation.shape == (count,) and permutation.device.type == "hpu"
        )
        return permutation.tolist()

    order = draw_permutation(17)
    assert sorted(order) == list(range(count)) and draw_permutation(17) == order
    if count == 1000:
        assert order != sorted(order) and draw_permutation(18) != order
        # For random permutations, this correlation is nearly normal and has the standard deviation
        # 1 / sqrt(count - 1). The limit is five standard deviations.
        indices = numpy.arange(count)
        assert abs(numpy.corrcoef(indices, order)[0, 1]) < 5 / math.sqrt(count - 1)


@pytest.mark.parametrize("name", list(PERMUTATIONS))
def test_permutations_are_equally_frequent(name: str) -> None:
    counts = dict.fromkeys(itertools.permutations(range(3)), 0)
    for value in range(600):
        like = torch.zeros(3, dtype=torch.int64, device="hpu")
        counts[tuple(PERMUTATIONS[name](samples.seed_tensor(value), like).tolist())] += 1
    assert_even_counts(list(counts.values()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("train", [True, None])
def test_dropout_keeps_the_expected_share(train: bool | None, p: float, dtype: torch.dtype) -> None:
    x = normal(*SIZE, dtype=dtype)
    result, dropout_mask = hpu.habana_native_dropout(samples.seed_tensor(), x, p, train)
    assert dropout_mask.dtype == torch.bool and dropout_mask.shape == x.shape and result.dtype == dtype
    assert_share_of_ones(dropout_mask, 1 - p)
    factor = 1 / (1 - p) if p < 1 else 0.0
    assert_close_to_reference(
        result, x.cpu().double() * dropout_mask.cpu() * factor, 1e-6 if dtype == torch.float32 else 2**-7, 0
    )
    repeated, same = hpu.habana_native_dropout(samples.seed_tensor(), x, p, train)
    assert torch.equal(repeated.cpu(), result.cpu()) and torch.equal(same.cpu(), dropout_mask.cpu())
    second_mask = hpu.habana_native_dropout(samples.seed_tensor(18), x, p, train)[1]
    assert torch.equal(second_mask.cpu(), dropout_mask.cpu()) == (p in (0, 1))


def test_dropout_in_evaluation_keeps_all_elements() -> None:
    x = normal(50)
    result, dropout_mask = hpu.habana_native_dropout(samples.seed_tensor(), x, 0.9, False)
    assert bool(dropout_mask.all()) and torch.equal(result.cpu(), x.cpu())
    result.zero_()
    assert bool(x.any())  # the result does not share memory with `x`
