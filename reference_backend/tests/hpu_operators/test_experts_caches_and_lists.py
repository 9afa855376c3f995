"""Compare mixture of experts, KV caches, CTC loss and jagged lists with independent formulas in float64."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import torch
from torch.nn import functional

from . import samples
from .reference import assert_close_to_reference
from .samples import normal

hpu = torch.ops.hpu


@pytest.mark.parametrize("permuted", [True, False])
def test_mixture_of_experts(permuted: bool) -> None:
    x, table, weights, first_weights, two, three, *_ = samples._expert_arguments()
    turn = (lambda m: m) if permuted else (lambda m: m.t().contiguous())
    output = hpu.mixture_of_experts(
        x,
        table,
        weights,
        *([turn(m) for m in matrices] for matrices in (first_weights, two, three)),
        permuted,
        "gelu",
        0,
        2,
    )
    both = [turn(torch.cat(pair)) for pair in zip(first_weights, two, strict=True)]
    fused, amax = hpu.mixture_of_experts.fp8_measurement_fused_weights(
        x, table, weights, both, [turn(m) for m in three], permuted, "gelu", 0, 2, True
    )
    expected = torch.zeros(5, 4, dtype=torch.float64)
    inner = numpy.zeros(3)
    for token in range(5):
        for choice in range(2):
            e = int(table[token, choice])
            value = x[token].cpu().double()
            middle = functional.gelu(first_weights[e].cpu().double() @ value) * (
                two[e].cpu().double() @ value
            )
            expected[token] += float(weights[token, choice]) * (three[e].cpu().double() @ middle)
    for e in range(3):
        value = x.cpu().double()
        middle = functional.gelu(value @ first_weights[e].cpu().double().t()) * (
            value @ two[e].cpu().double().t()
        )
        inner[e] = float(middle.max())
    assert_close_to_reference(output, expected)
    assert_close_to_reference(fused, expected)
    assert_close_to_reference(amax, inner)
    local = hpu.mixture_of_experts(
        x, table, weights, [turn(first_weights[1])], [turn(two[1])], [turn(three[1])], permuted, "gelu", 1, 1
    )
    absent_tokens = table.cpu().ne(1).all(1)
    assert bool((local.cpu()[absent_tokens] == 0).all()) and not bool(
        (local.cpu()[~absent_tokens] == 0).all()
    )
    with pytest.raises(RuntimeError, match="experts 0 to 2 are 3 experts, but weights of 1"):
        hpu.mixture_of_experts(x, table, weights, first_weights[:1], two[:1], three[:1], True, "silu", 0, 2)


def test_cache_rows_are_interleaved_and_reordered() -> None:
    x = normal(8, 3)
    assert_close_to_reference(hpu.in_place_interleave(x), x.cpu()[[0, 0, 0, 0, 1, 1, 1, 1]])
    assert hpu.in_place_interleave_(x) is not None and bool((x[0] == x[3]).all())
    cache = normal(8, 2, 6, 3)
    before, expected = cache.cpu().clone(), cache.cpu().clone()
    starts, ends, codes = (1, 2), (4, 6), (0b11100100, 0b00011011)
    hpu.kv_reorder_(
        cache, torch.tensor(starts, device="hpu"), torch.tensor(ends, device="hpu"),
        torch.tensor(codes, dtype=torch.uint8, device="hpu"),
    )  # fmt: skip
    for batch in range(2):
        beams = [(codes[batch] // base) % 4 for base in (64, 16, 4, 1)]
        for beam, source in enumerate(beams):
            some = slice(starts[batch], ends[batch])
            expected[4 * batch + beam, :, some] = before[4 * batch + source, :, some]
    assert_close_to_reference(cache, expected)


@pytest.mark.parametrize(("number_", "reduction"), [(0, "none"), (1, "mean"), (2, "sum")])
@pytest.mark.parametrize("flat", [False, True])
def test_ctc(number_: int, reduction: str, flat: bool) -> None:
    raw = normal(7, 2, 5)
    targets, lengths = torch.tensor([[1, 2, 2], [3, 4, 1]]), torch.tensor([3, 2])
    if flat:
        targets = torch.tensor([1, 2, 2, 3, 4])
    times = torch.tensor([7, 6])
    a = raw.cpu().double().requires_grad_()
    expected_loss = functional.ctc_loss(a.log_softmax(-1), targets, times, lengths, 0, reduction)
    integer_inputs = [t.to("hpu") for t in (targets, times, lengths)]
    logs = raw.log_softmax(-1)
    loss, alpha = hpu.ctc_loss_custom(logs, *integer_inputs, 0, number_, False)
    assert_close_to_reference(loss, expected_loss.detach())
    grad = torch.ones_like(expected_loss)
    wanted = torch.autograd.grad(
        functional.ctc_loss(
            (b := logs.cpu().double().requires_grad_()), targets, times, lengths, 0, reduction
        ),
        b,
        grad,
    )[0]
    gradient = hpu.ctc_loss_custom_backward(
        grad.float().to("hpu"), logs, *integer_inputs, loss, alpha, 0, number_, False
    )
    assert_close_to_reference(gradient, wanted)


def test_jagged_lists() -> None:
    permute, lengths = [2, 0, 2], [2, 3, 1]
    starts = [0, 2, 5]
    order = [index for t in permute for index in range(starts[t], starts[t] + lengths[t])]
    device_inputs = [torch.tensor(numbers, device="hpu") for numbers in (permute, lengths)]
    values, weights = torch.arange(10, 16, device="hpu"), normal(6)
    moved, permuted, heavy = hpu.habana_permute_1D_sparse_data(*device_inputs, values, weights)
    assert moved.tolist() == [1, 2, 1] and permuted.tolist() == [10 + index for index in order]
    assert_close_to_reference(heavy, weights.cpu()[order])
    two = torch.tensor([[1, 1], [0, 3], [1, 0]], device="hpu")
    moved, permuted = hpu.habana_permute_2D_sparse_data_without_weights(device_inputs[0], two, values)
    assert moved.tolist() == [[1, 0], [1, 1], [1, 0]] and permuted.tolist() == [10 + index for index in order]
    table = normal(4, 3)
    index, offsets = torch.tensor([0, 2, 1, 1, 3]), torch.tensor([0, 2, 2, 5])
    count = torch.tensor([4], dtype=torch.int32, device="hpu")
    bags = hpu.embedding_bag_sum(table, index.to("hpu"), offsets.to("hpu"), count, 0)
    rows = table.cpu().double()
    assert_close_to_reference(
        bags, torch.stack((rows[0] + rows[2], torch.zeros(3, dtype=torch.float64), rows[1] * 2))
    )
    wrong = torch.tensor([0, 9, -1, 2], device="hpu")
    warning = torch.tensor([1], device="hpu")
    bounds = torch.tensor([0, 1, 2, 3, 4], device="hpu")
    hpu.habana_bounds_check_indices(wrong, bounds, warning, torch.tensor([3, 2], device="hpu"), 1, None)
    assert wrong.tolist() == [0, 0, -1, 0] and warning.item() == 3
    features = hpu.habana_split_permute_cat(normal(2, 6), torch.tensor([2, 0], device="hpu"), 2, 3, 2)
    assert_close_to_reference(features, normal(2, 6).cpu()[:, [4, 5, 0, 1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize(
    ("starts", "ends", "codes"),
    [((0,), (6,), (0b00011011,)), ((1, 2, 0), (4, 6, 0), (0b11100100, 0b00011011, 0b00000000)),
     ((2,), (5,), (0b01010101, 0b11110000))],
    ids=["whole", "rows", "shared"],
)  # fmt: skip
def test_kv_reorder_returns_a_new_cache(
    starts: tuple[int, ...], ends: tuple[int, ...], codes: tuple[int, ...], dtype: torch.dtype
) -> None:
    cache = normal(4 * len(codes), 2, 6, 3, dtype=dtype)
    before = cache.cpu().float()
    reordered = hpu.kv_reorder(
        cache, torch.tensor(starts, device="hpu"), torch.tensor(ends, device="hpu"),
        torch.tensor(codes, dtype=torch.uint8, device="hpu"),
    )  # fmt: skip
    expected = before.clone()
    for batch, code in enumerate(codes):
        start, end = (bounds[batch % len(bounds)] for bounds in (starts, ends))
        for beam in range(4):
            source = code // 4 ** (3 - beam) % 4
            for position in range(start, end):
                expected[4 * batch + beam, :, position] = before[4 * batch + source, :, position]
    assert reordered.dtype == dtype
    assert_close_to_reference(reordered, expected, 0, 0)
    assert_close_to_reference(cache, before, 0, 0)
    by_beam = cache.unflatten(0, (len(codes), 4))
    hpu.kv_reorder_(
        by_beam, torch.tensor(starts, device="hpu"), torch.tensor(ends, device="hpu"),
        torch.tensor(codes, dtype=torch.uint8, device="hpu"),
    )  # fmt: skip
    assert_close_to_reference(by_beam.flatten(0, 1), expected, 0, 0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize(
    ("permute", "lengths"),
    [([2, 0, 1], [2, 3, 1]), ([0], [4]), ([1, 3, 1, 0], [0, 2, 5, 3]), ([3, 0, 2], [0, 2, 0, 0]), ([], [2])],
    ids=["turned", "one", "repeated", "empty_lists", "nothing"],
)
def test_jagged_permute_returns_source_indices(
    permute: list[int], lengths: list[int], dtype: torch.dtype
) -> None:
    starts = numpy.concatenate(([0], numpy.cumsum(lengths)))
    permuted_lengths = [lengths[index] for index in permute]
    ends = numpy.concatenate(([0], numpy.cumsum(permuted_lengths)))
    expected = [int(starts[index]) + step for index in permute for step in range(lengths[index])]
    device_inputs = [torch.tensor(numbers).to(dtype).to("hpu") for numbers in (permute, starts, ends)]
    indices = hpu.habana_expand_into_jagged_permute(*device_inputs, len(expected))
    assert indices.dtype == dtype and indices.tolist() == expected


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
    order = [int(index) for list_index in permute for index in parts[list_index]]
    kind = "1D" if sizes.ndim == 1 else "2D"
    moved, permuted, heavy = getattr(hpu, f"habana_permute_{kind}_sparse_data")(
        torch.tensor(permute, device="hpu"), torch.tensor(lengths, device="hpu"), values.to("hpu"),
        *([weights] if weighted else []),
    )  # fmt: skip
    assert moved.tolist() == sizes[permute].tolist() and permuted.tolist() == values[order].tolist()
    if weighted:
        assert heavy.dtype == dtype
        assert_close_to_reference(heavy, weights.cpu()[order], 0, 0)
    else:
        assert heavy.numel() == 0
