"""Experts, caches, CTC and jagged lists, by other formulas in float64."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import torch
from torch.nn import functional

from . import samples
from .reference import close
from .samples import normal

hpu = torch.ops.hpu


@pytest.mark.parametrize("permuted", [True, False])
def test_mixture_of_experts(permuted: bool) -> None:
    x, table, weights, one, two, three, *_ = samples._experts()
    turn = (lambda m: m) if permuted else (lambda m: m.t().contiguous())
    found = hpu.mixture_of_experts(
        x, table, weights, *([turn(m) for m in given] for given in (one, two, three)), permuted, "gelu", 0, 2
    )
    both = [turn(torch.cat(pair)) for pair in zip(one, two, strict=True)]
    fused, amax = hpu.mixture_of_experts.fp8_measurement_fused_weights(
        x, table, weights, both, [turn(m) for m in three], permuted, "gelu", 0, 2, True
    )
    due = torch.zeros(5, 4, dtype=torch.float64)
    inner = numpy.zeros(3)
    for token in range(5):
        for choice in range(2):
            e = int(table[token, choice])
            value = x[token].cpu().double()
            middle = functional.gelu(one[e].cpu().double() @ value) * (two[e].cpu().double() @ value)
            due[token] += float(weights[token, choice]) * (three[e].cpu().double() @ middle)
    for e in range(3):
        value = x.cpu().double()
        middle = functional.gelu(value @ one[e].cpu().double().t()) * (value @ two[e].cpu().double().t())
        inner[e] = float(middle.abs().max())
    close(found, due)
    close(fused, due)
    close(amax, inner)
    local = hpu.mixture_of_experts(
        x, table, weights, [turn(one[1])], [turn(two[1])], [turn(three[1])], permuted, "gelu", 1, 1
    )
    others = table.cpu().ne(1).all(1)
    assert bool((local.cpu()[others] == 0).all()) and not bool((local.cpu()[~others] == 0).all())
    with pytest.raises(RuntimeError, match="experts 0 to 2 are 3 experts, but weights of 1"):
        hpu.mixture_of_experts(x, table, weights, one[:1], two[:1], three[:1], True, "silu", 0, 2)


def test_rows_of_caches() -> None:
    x = normal(8, 3)
    close(hpu.in_place_interleave(x), x.cpu()[[0, 0, 0, 0, 1, 1, 1, 1]])
    assert hpu.in_place_interleave_(x) is not None and bool((x[0] == x[3]).all())
    cache = normal(8, 2, 6, 3)
    before, due = cache.cpu().clone(), cache.cpu().clone()
    starts, ends, codes = (1, 2), (4, 6), (0b11100100, 0b00011011)
    hpu.kv_reorder_(
        cache, torch.tensor(starts, device="hpu"), torch.tensor(ends, device="hpu"),
        torch.tensor(codes, dtype=torch.uint8, device="hpu"),
    )  # fmt: skip
    for batch in range(2):
        beams = [(codes[batch] // base) % 4 for base in (64, 16, 4, 1)]
        for beam, source in enumerate(beams):
            some = slice(starts[batch], ends[batch])
            due[4 * batch + beam, :, some] = before[4 * batch + source, :, some]
    close(cache, due)


@pytest.mark.parametrize(("number_", "reduction"), [(0, "none"), (1, "mean"), (2, "sum")])
@pytest.mark.parametrize("flat", [False, True])
def test_ctc(number_: int, reduction: str, flat: bool) -> None:
    raw = normal(7, 2, 5)
    targets, lengths = torch.tensor([[1, 2, 2], [3, 4, 1]]), torch.tensor([3, 2])
    if flat:
        targets = torch.tensor([1, 2, 2, 3, 4])
    times = torch.tensor([7, 6])
    a = raw.cpu().double().requires_grad_()
    due = functional.ctc_loss(a.log_softmax(-1), targets, times, lengths, 0, reduction)
    given = [t.to("hpu") for t in (targets, times, lengths)]
    logs = raw.log_softmax(-1)
    loss, alpha = hpu.ctc_loss_custom(logs, *given, 0, number_, False)
    close(loss, due.detach())
    grad = torch.ones_like(due)
    wanted = torch.autograd.grad(
        functional.ctc_loss(
            (b := logs.cpu().double().requires_grad_()), targets, times, lengths, 0, reduction
        ),
        b,
        grad,
    )[0]
    found = hpu.ctc_loss_custom_backward(grad.float().to("hpu"), logs, *given, loss, alpha, 0, number_, False)
    close(found, wanted)


def test_jagged_lists() -> None:
    permute, lengths = [2, 0, 2], [2, 3, 1]
    starts = [0, 2, 5]
    order = [place for t in permute for place in range(starts[t], starts[t] + lengths[t])]
    given = [torch.tensor(one, device="hpu") for one in (permute, lengths)]
    values, weights = torch.arange(10, 16, device="hpu"), normal(6)
    moved, found, heavy = hpu.habana_permute_1D_sparse_data(*given, values, weights)
    assert moved.tolist() == [1, 2, 1] and found.tolist() == [10 + place for place in order]
    close(heavy, weights.cpu()[order])
    two = torch.tensor([[1, 1], [0, 3], [1, 0]], device="hpu")
    moved, found = hpu.habana_permute_2D_sparse_data_without_weights(given[0], two, values)
    assert moved.tolist() == [[1, 0], [1, 1], [1, 0]] and found.tolist() == [10 + place for place in order]
    table = normal(4, 3)
    index, offsets = torch.tensor([0, 2, 1, 1, 3]), torch.tensor([0, 2, 2, 5])
    count = torch.tensor([4], dtype=torch.int32, device="hpu")
    bags = hpu.embedding_bag_sum(table, index.to("hpu"), offsets.to("hpu"), count, 0)
    rows = table.cpu().double()
    close(bags, torch.stack((rows[0] + rows[2], torch.zeros(3, dtype=torch.float64), rows[1] * 2)))
    wrong = torch.tensor([0, 9, -1, 2], device="hpu")
    warning = torch.tensor([1], device="hpu")
    bounds = torch.tensor([0, 1, 2, 3, 4], device="hpu")
    hpu.habana_bounds_check_indices(wrong, bounds, warning, torch.tensor([3, 2], device="hpu"), 1, None)
    assert wrong.tolist() == [0, 0, -1, 0] and warning.item() == 3
    features = hpu.habana_split_permute_cat(normal(2, 6), torch.tensor([2, 0], device="hpu"), 2, 3, 2)
    close(features, normal(2, 6).cpu()[:, [4, 5, 0, 1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize(
    ("starts", "ends", "codes"),
    [((0,), (6,), (0b00011011,)), ((1, 2, 0), (4, 6, 0), (0b11100100, 0b00011011, 0b00000000)),
     ((2,), (5,), (0b01010101, 0b11110000))],
    ids=["whole", "rows", "shared"],
)  # fmt: skip
def test_beams_of_a_new_cache(
    starts: tuple[int, ...], ends: tuple[int, ...], codes: tuple[int, ...], dtype: torch.dtype
) -> None:
    cache = normal(4 * len(codes), 2, 6, 3, dtype=dtype)
    before = cache.cpu().float()
    found = hpu.kv_reorder(
        cache, torch.tensor(starts, device="hpu"), torch.tensor(ends, device="hpu"),
        torch.tensor(codes, dtype=torch.uint8, device="hpu"),
    )  # fmt: skip
    due = before.clone()
    for batch, code in enumerate(codes):
        start, end = (bounds[batch % len(bounds)] for bounds in (starts, ends))
        for beam in range(4):
            source = code // 4 ** (3 - beam) % 4
            for position in range(start, end):
                due[4 * batch + beam, :, position] = before[4 * batch + source, :, position]
    assert found.dtype == dtype
    close(found, due, 0, 0)
    close(cache, before, 0, 0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize(
    ("permute", "lengths"),
    [([2, 0, 1], [2, 3, 1]), ([0], [4]), ([1, 3, 1, 0], [0, 2, 5, 3]), ([3, 0, 2], [0, 2, 0, 0]), ([], [2])],
    ids=["turned", "one", "repeated", "empty_lists", "nothing"],
)
def test_places_that_elements_come_from(permute: list[int], lengths: list[int], dtype: torch.dtype) -> None:
    starts = numpy.concatenate(([0], numpy.cumsum(lengths)))
    taken = [lengths[place] for place in permute]
    ends = numpy.concatenate(([0], numpy.cumsum(taken)))
    due = [int(starts[place]) + step for place in permute for step in range(lengths[place])]
    given = [torch.tensor(one).to(dtype).to("hpu") for one in (permute, starts, ends)]
    found = hpu.habana_expand_into_jagged_permute(*given, len(due))
    assert found.dtype == dtype and found.tolist() == due


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize(
    ("permute", "lengths"),
    [
        ([2, 0, 1], [2, 3, 1]),
        ([1, 1], [0, 3, 2]),
        ([0, 2], [0, 2, 0]),
        ([1, 0], [[1, 2], [0, 3]]),
        ([2, 2, 0, 1], [[1, 0, 2], [0, 0, 0], [3, 1, 1]]),
    ],
    ids=["one", "one_repeated", "one_empty", "two", "two_repeated"],
)
def test_lists_move_with_their_weights(
    permute: list[int], lengths: list[object], dtype: torch.dtype, weighted: bool
) -> None:
    sizes = numpy.array(lengths)
    count = int(sizes.sum())
    values, weights = torch.arange(10, 10 + count), (normal(count) * 9).to(dtype)
    parts = numpy.split(numpy.arange(count), numpy.cumsum(sizes.reshape(len(lengths), -1).sum(1))[:-1])
    order = [int(place) for one in permute for place in parts[one]]
    kind = "1D" if sizes.ndim == 1 else "2D"
    moved, found, heavy = getattr(hpu, f"habana_permute_{kind}_sparse_data")(
        torch.tensor(permute, device="hpu"), torch.tensor(lengths, device="hpu"), values.to("hpu"),
        *([weights] if weighted else []),
    )  # fmt: skip
    assert moved.tolist() == sizes[permute].tolist() and found.tolist() == values[order].tolist()
    if weighted:
        assert heavy.dtype == dtype
        close(heavy, weights.cpu()[order], 0, 0)
    else:
        assert heavy.numel() == 0
