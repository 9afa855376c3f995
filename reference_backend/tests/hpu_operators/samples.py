"""Arguments for each operator of ``torch.ops.hpu``, by operator name. The tensors are on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
BF16 = torch.bfloat16

Arguments = list[Any]


def normal(*size: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers on the device."""
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return drawn.to(dtype).to("hpu")


def random_integers(*size: int, below: int, seed: int = 1, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Return random integers from 0 to `below` - 1 on the device."""
    return torch.randint(below, size, generator=torch.Generator().manual_seed(seed)).to(dtype).to("hpu")


def number(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a 0-dim tensor on the device."""
    return torch.tensor(value, dtype=dtype, device="hpu")


def seed_tensor(value: int = 17) -> torch.Tensor:
    """Return a seed tensor on the device."""
    return torch.tensor([value], dtype=torch.int32, device="hpu")


def fp8(*size: int, dtype: torch.dtype = E4M3, seed: int = 1) -> torch.Tensor:
    """Return normally distributed fp8 numbers on the device."""
    return normal(*size, seed=seed).to(dtype)


def _attention_arguments(*more: Any, dtype: torch.dtype = torch.float32) -> Arguments:
    q, k, v = (normal(2, 3, rows, 8, seed=seed, dtype=dtype) for seed, rows in enumerate((5, 7, 7), 1))
    return [q, k, v, *more]


def _unscaled_attention_arguments(
    p: float, *, backward: bool | None = None, causal: bool = False, mask: bool = True
) -> Arguments:
    mask_tensor = normal(2, 1, 5, 7, seed=9) if mask else None
    middle = [] if backward is None else [backward]
    return _attention_arguments(mask_tensor, p, 0.3, causal, *middle, "None", None, "left")


def _fp8_attention_arguments(
    p: float, *, backward: bool | None = None, scalar: bool = False, amaxes: int = 1
) -> Arguments:
    factor: Callable[[float], Any] = float if scalar else number
    q, k, v = (fp8(2, 3, rows, 8, seed=seed) for seed, rows in enumerate((5, 7, 7), 1))
    scales = [factor(value) for value in (0.5, 2.0, 1.5, 8.0, 4.0, 0.125)]
    middle = [] if backward is None else [backward]
    return [q, k, v, None, p, 0.3, True, *middle, "None", *scales, *[True] * amaxes, None, "left"]


def _attention_backward_arguments() -> Arguments:
    _, matrix, _ = torch.ops.hpu.sdpa_fwd(*_unscaled_attention_arguments(0.0))
    return [
        normal(2, 3, 5, 8, seed=4),
        *_attention_arguments(matrix, None, False, 0.0, 0.3, normal(2, 3, 5, 8)),
    ]


def _recomputed_backward_arguments() -> Arguments:
    arguments = _unscaled_attention_arguments(0.0, backward=True)
    out, most, reciprocal, drawn = torch.ops.hpu.sdpa_recomp_fwd(*arguments)
    rest = [arguments[3], most, reciprocal, drawn, False, 0.0, 0.3, "None", out]
    return [normal(2, 3, 5, 8, seed=4), *_attention_arguments(*rest)]


def _fp8_backward_arguments() -> Arguments:
    arguments = _fp8_attention_arguments(0.0)
    out, matrix, _, _ = torch.ops.hpu.fp8_sdpa_fwd(*arguments)
    scales = [number(v) for v in (0.5, 2.0, 1.5, 1.0, 1.0, 0.5, 1.0, 2.0)]
    grad = normal(2, 3, 5, 8, dtype=BF16, seed=4)
    return [grad, *arguments[:3], matrix, None, True, 0.0, 0.3, *scales, True, out]


def _expert_arguments(*, fused: bool = False, measured: bool = False) -> Arguments:
    table = torch.tensor([[0, 1], [2, 0], [1, 2], [2, 1], [0, 2]], device="hpu")
    first_weights, two = ([normal(6, 4, seed=10 * w + e) for e in range(3)] for w in (1, 2))
    three = [normal(4, 6, seed=30 + e) for e in range(3)]
    both = [torch.cat(pair) for pair in zip(first_weights, two, strict=True)]
    weights = [both, three] if fused else [first_weights, two, three]
    return [
        normal(5, 4), table, normal(5, 2, seed=2).softmax(-1), *weights, True, "silu", 0, 2,
        *([True] if measured else []),
    ]  # fmt: skip


def _ctc_arguments() -> Arguments:
    probabilities = normal(7, 2, 5).log_softmax(-1)
    targets = torch.tensor([[1, 2, 2], [3, 4, 1]], device="hpu")
    # All sequences have the full length, because ctc_loss does not write the results beyond the end of a
    # shorter sequence.
    lengths = [torch.tensor(row, device="hpu") for row in ([7, 7], [3, 3])]
    return [probabilities, targets, *lengths, 0, 1, True]


def _ctc_backward_arguments() -> Arguments:
    arguments = _ctc_arguments()
    loss, alpha = torch.ops.hpu.ctc_loss_custom(*arguments)
    return [number(1.0), *arguments[:4], loss, alpha, *arguments[4:]]


def _tensors(count: int = 2, *, positive: bool = False, base: int = 0) -> list[torch.Tensor]:
    tensors = [normal(3, 4, seed=base + index) for index in range(count)]
    return [tensor.abs() for tensor in tensors] if positive else tensors


def _adamw_arguments(*more: Any) -> Arguments:
    return [
        _tensors(), _tensors(base=10), _tensors(base=20), _tensors(positive=True, base=30), number(-0.1), 0.9,
        0.99, 1e-6, *more,
    ]  # fmt: skip


def _lamb_arguments() -> Arguments:
    numbers = [[number(0.0), number(0.0)] for _ in range(2)]
    return [
        _tensors(), _tensors(base=10), _tensors(base=20), _tensors(positive=True, base=30), *numbers,
        _tensors(base=40), number(1.5), 1, 0.9, 0.99, 1e-6, number(0.1), number(0.01), 0.01,
    ]  # fmt: skip


def _momentum_arguments() -> Arguments:
    return [
        _tensors(), _tensors(base=10), _tensors(base=20), number(1.0), number(0.1), number(0.9), 0.01, 0.1,
        False,
    ]  # fmt: skip


def _sparse_arguments(*more: Any) -> Arguments:
    index = torch.tensor([1, 4, 1, 0], device="hpu")
    moments = normal(6, 3, seed=3).abs()
    return [normal(4, 3), normal(6, 3, seed=2), moments, index, number(0.1), number(3, torch.int32), *more]


def _boxes_and_scores() -> Arguments:
    corner = normal(9, 2).abs() * 10
    return [torch.cat((corner, corner + 8), 1), normal(9, seed=2).abs()]


def _jagged_arguments(*more: Any) -> Arguments:
    permute = torch.tensor([2, 0, 1], device="hpu")
    lengths = torch.tensor([2, 3, 1], device="hpu")
    return [permute, lengths, torch.arange(6, device="hpu"), *more]


def _embedding_bag_arguments() -> Arguments:
    index = torch.tensor([0, 2, 1, 1, 3], device="hpu")
    offsets = torch.tensor([0, 2, 2, 5], device="hpu")
    return [normal(4, 3), index, offsets, torch.tensor([5], dtype=torch.int32, device="hpu"), 0]


def _regions_and_images() -> Arguments:
    rois = torch.tensor([[1.0, 1, 5, 6], [0, 2, 7, 7]], device="hpu")
    return [rois, torch.tensor([0, 1], dtype=torch.int32, device="hpu")]


def _make_image_regions() -> torch.Tensor:
    return torch.tensor([[0, 1.0, 1, 5, 6], [1, 0, 2, 7, 7], [1, 2, 2, 2.5, 3]], device="hpu")


#: By operator name: a function that returns sample arguments of the operator.
SAMPLES: dict[str, Callable[[], Arguments]] = {
    "cast_to_fp8_hybrid": lambda: [normal(3, 4), number(2.0), number(3.0), False, True],
    "fake_quant_fp4": lambda: [normal(2, 64), False, -1, "mxfp4"],
    "cast_from_fp8": lambda: [fp8(3, 4), number(0.5), torch.float32],
    "cast_from_fp8.scalar": lambda: [fp8(3, 4), 0.5, BF16],
    "cast_from_fp8.scalar_list": lambda: [fp8(3, 4), [0.5, 1, 2, 3], torch.float32, [1, 4]],
    "cast_to_fp8": lambda: [normal(3, 4), number(2.0), False, fp8(3, 4), number(0.0)],
    "cast_to_fp8_v2": lambda: [normal(3, 4), number(2.0), False, True, E4M3],
    "cast_to_fp8_v2.scalar": lambda: [normal(3, 4, dtype=BF16), 2.0, False, False, E5M2],
    "cast_to_fp8_v2.scalar_list": lambda: [normal(3, 4), [1.0, 2, 3], False, True, E4M3, [3, 1]],
    "convert_from_int4": lambda: [
        random_integers(4, 2, below=2**31 - 1, dtype=torch.int32),
        normal(2, 16),
        None,
        torch.float32,
    ],
    "convert_from_uint4": lambda: [
        random_integers(4, 2, below=2**31 - 1, dtype=torch.int32),
        normal(4, 16),
        random_integers(4, 2, below=2**31 - 1, seed=2, dtype=torch.int32),
        BF16,
    ],
    "dequantize_nf4": lambda: [
        random_integers(16, below=256, dtype=torch.uint8),
        normal(4).abs(),
        8,
        [4, 8],
        BF16,
    ],
    "conv2d_fp8": lambda: [
        fp8(2, 3, 6, 6),
        fp8(4, 3, 3, 3),
        normal(4),
        [1, 1],
        [1, 1],
        [1, 1],
        1,
        torch.float32,
        number(0.5),
        normal(4).abs(),
    ],
    "conv2d_fp8.scalar": lambda: [
        fp8(2, 3, 6, 6),
        fp8(4, 3, 3, 3),
        None,
        [2, 2],
        [0, 0],
        [1, 1],
        1,
        BF16,
        0.5,
        2.0,
    ],
    "sum_fp8": lambda: [fp8(3, 4), [1], True, torch.float32],
    "fp8_gemm": lambda: [
        fp8(3, 5),
        False,
        fp8(4, 5),
        True,
        normal(3, 4),
        torch.float32,
        number(0.5),
        number(2.0),
        normal(4),
        True,
        normal(3, 4),
    ],
    "fp8_gemm_v2": lambda: [
        fp8(2, 3, 5),
        False,
        fp8(2, 5, 4),
        False,
        None,
        torch.float32,
        number(0.5),
        normal(4),
        normal(4),
        False,
        [1, 4],
    ],
    "fp8_gemm_v2.scalar": lambda: [
        fp8(5, 3),
        True,
        fp8(5, 4),
        False,
        normal(3, 4),
        BF16,
        0.5,
        2.0,
        None,
        True,
    ],
    "fp8_gemm_v2.scalar_list": lambda: [
        fp8(3, 5),
        False,
        fp8(5, 2),
        False,
        None,
        torch.float32,
        [0.5],
        [2.0, 3.0],
        None,
        False,
    ],
    "masked_batch_gemm": lambda: [
        normal(2, 3, 4),
        normal(2, 5, 4),
        normal(2, 3, 1),
        normal(2, 5, 1),
        False,
        True,
    ],
    "plain_index": lambda: [
        normal(4, 5, 2),
        [random_integers(3, below=4), random_integers(3, below=5, seed=2)],
    ],
    "exp_fast_math": lambda: [normal(3, 4)],
    "sqrt_fast_math": lambda: [normal(3, 4).abs() + 0.1],
    "rsqrt_fast_math": lambda: [normal(3, 4).abs() + 0.1],
    "cast": lambda: [normal(3, 4), 15],
    "habana_cast_sr_mode": lambda: [normal(3, 4), 15, True, 5],
    "index_put_normal_and_neg_indices": lambda: [
        normal(4, 3),
        [torch.tensor([-1, 2], device="hpu")],
        normal(2, 3),
        True,
    ],
    "softmax_fp8": lambda: [
        normal(2, 3, 4, dtype=BF16),
        -1,
        number(0.5),
        number(16.0),
        number(0.25),
        normal(2, 3, 4),
    ],
    "softmax_fp8.Scalar_scales": lambda: [normal(2, 3, 4, dtype=BF16), 2, 0.5, 16.0, number(0.25), None],
    "softmax_fp8.Scalar": lambda: [normal(2, 3, 4, dtype=BF16), 2, 0.5, 16.0, 0.25, None],
    "custom_softmax": lambda: [normal(3, 8, dtype=BF16), 1],
    "ragged_softmax": lambda: [normal(2, 3, 6), 2, False, torch.tensor([4, 0], device="hpu")],
    "scaled_masked_softmax": lambda: [normal(2, 3, 4), normal(2, 1, 4, seed=2), 0.5],
    "scaled_masked_triangular_softmax": lambda: [
        normal(4, 5, 5),
        torch.tensor([[0, 5], [2, 4]], device="hpu"),
        0.5,
        2,
        True,
        0,
        torch.float32,
    ],
    "scaled_triangular_softmax": lambda: [normal(2, 4, 4), 0.5],
    "scaled_triangular_softmax_retain": lambda: [normal(2, 4, 4), 0.5],
    "rms_norm": lambda: [normal(3, 8), normal(8, seed=2), 1e-5],
    "rms_norm_fast": lambda: [normal(3, 8, dtype=BF16), normal(8, seed=2, dtype=BF16), 1e-5],
    "rms_norm_backward": lambda: [
        normal(3, 8, seed=3),
        normal(3, 8),
        normal(8, seed=2),
        normal(3, 1, seed=4).abs(),
        True,
        0,
    ],
    "rms_norm_fast_backward": lambda: [
        normal(3, 8, seed=3),
        normal(3, 8),
        normal(8, seed=2),
        normal(3, 1, seed=4).abs(),
        False,
        1,
    ],
    "rotary_pos_embedding": lambda: [
        normal(2, 3, 5, 8),
        normal(9, 8, seed=2),
        normal(9, 8, seed=3),
        random_integers(2, 5, below=9),
        0,
        0,
    ],
    "rotary_pos_embedding_backward": lambda: [
        normal(2, 3, 5, 8),
        normal(1, 1, 9, 8, seed=2),
        normal(1, 1, 9, 8, seed=3),
        None,
        2,
        1,
    ],
    "sdpa_fwd": lambda: _unscaled_attention_arguments(0.0),
    "sdpa_fwd_dropout": lambda: _unscaled_attention_arguments(0.25),
    "sdpa_fwd_non_dropout": lambda: _unscaled_attention_arguments(0.0, causal=True, mask=False),
    "sdpa_fwd_dropout_seed": lambda: [seed_tensor(), *_unscaled_attention_arguments(0.25)],
    "sdpa_bwd": _attention_backward_arguments,
    "sdpa_recomp_fwd": lambda: _unscaled_attention_arguments(0.0, backward=True),
    "sdpa_recomp_fwd_dropout": lambda: _unscaled_attention_arguments(0.25, backward=True),
    "sdpa_recomp_fwd_non_dropout": lambda: _unscaled_attention_arguments(0.0, backward=False),
    "sdpa_recomp_fwd_dropout_seed": lambda: [
        seed_tensor(),
        *_unscaled_attention_arguments(0.25, backward=True),
    ],
    "sdpa_recomp_bwd": _recomputed_backward_arguments,
    "fp8_sdpa_fwd": lambda: _fp8_attention_arguments(0.0),
    "fp8_sdpa_fwd_dropout": lambda: _fp8_attention_arguments(0.25),
    "fp8_sdpa_fwd_non_dropout": lambda: _fp8_attention_arguments(0.0),
    "fp8_sdpa_fwd_dropout_seed": lambda: [seed_tensor(), *_fp8_attention_arguments(0.25)],
    "fp8_sdpa_bwd": _fp8_backward_arguments,
    **{
        f"fp8_sdpa_recomp_fwd{kind}{overload}": (
            lambda p=p, scalar=bool(overload), first=first: [
                *([seed_tensor()] if first else []),
                *_fp8_attention_arguments(p, backward=True, scalar=scalar, amaxes=2),
            ]
        )
        for kind, p, first in (
            ("", 0.0, False),
            ("_dropout", 0.25, False),
            ("_non_dropout", 0.0, False),
            ("_dropout_seed", 0.25, True),
        )
        for overload in ("", ".scalar")
    },
    "mixture_of_experts": lambda: _expert_arguments(),
    "mixture_of_experts.fused_weights": lambda: _expert_arguments(fused=True),
    "mixture_of_experts.fp8_measurement": lambda: _expert_arguments(measured=True),
    "mixture_of_experts.fp8_measurement_fused_weights": lambda: _expert_arguments(fused=True, measured=True),
    "in_place_interleave": lambda: [normal(8, 3)],
    "in_place_interleave_": lambda: [normal(8, 3, dtype=BF16)],
    "kv_reorder": lambda: [
        normal(8, 2, 6, 3),
        torch.tensor([1, 2], device="hpu"),
        torch.tensor([4, 6], device="hpu"),
        torch.tensor([0b11100100, 0b00011011], dtype=torch.uint8, device="hpu"),
    ],
    "kv_reorder_": lambda: [
        normal(4, 2, 6, 3),
        torch.tensor([1], device="hpu"),
        torch.tensor([4], device="hpu"),
        torch.tensor([0b11100100], dtype=torch.uint8, device="hpu"),
    ],
    "ctc_loss_custom": _ctc_arguments,
    "ctc_loss_custom_backward": _ctc_backward_arguments,
    "optimizer_adamw": lambda: _adamw_arguments(number(0.99), True),
    "habanaOptimizerAdamW": lambda: _adamw_arguments(number(0.99), True),
    "optimizer_sgd": lambda: [_tensors(), _tensors(base=10), number(0.1), 0.01, 0.0, 0.0, False],
    "habanaOptimizerSgd": lambda: [_tensors(), _tensors(base=10), number(0.1), 0.01, 0.0, 0.0, False],
    "optimizer_sgd_momentum": _momentum_arguments,
    "habanaOptimizerSgdMomentum": _momentum_arguments,
    "habanaOptimizerFusedAdagrad": lambda: [
        _tensors(),
        _tensors(base=10),
        _tensors(positive=True, base=20),
        number(2.0),
        number(0.1),
        0.01,
        0.1,
        1e-8,
    ],
    "optimizer_ema": lambda: [_tensors(), _tensors(base=10), number(0.9)],
    "habanaOptimizerFusedEMA": lambda: [_tensors(), _tensors(base=10), number(0.9)],
    "habanaOptimizerSparseSgd": lambda: _sparse_arguments(0.9, False),
    "habanaOptimizerSparseAdagrad": lambda: _sparse_arguments(),
    "optimizer_lamb_fused_norm": lambda: [_tensors(), 0.5],
    "optimizer_lamb_phase1": _lamb_arguments,
    "optimizer_lamb_phase2": lambda: [
        _tensors(),
        [number(2.0), number(0.0)],
        [number(3.0), number(1.0)],
        _tensors(base=10),
        number(-0.1),
        0.1,
        False,
    ],
    "optimizer_lars": lambda: [_tensors(), _tensors(base=10), [1, 0], 0.001, 0.01, 1e-8, number(0.1)],
    "habanaOptimizerLars": lambda: [
        _tensors(),
        _tensors(base=10),
        number(0.1),
        [1, 0],
        0.001,
        0.01,
        1e-8,
    ],
    "optimizer_resource_apply_momentum": lambda: [_tensors(4), _tensors(base=10), 0.9],
    "fused_clip_norm": lambda: [_tensors(), number(0.5), 2.0],
    "fused_norm_": lambda: [_tensors(), number(0.5), 2.0],
    "fused_norm_lazy": lambda: [_tensors(), number(500.0), 2.0],
    "accumulate_grads_": lambda: [_tensors(), _tensors(base=10)],
    "custom_foreach_add_": lambda: [_tensors(), _tensors(base=10)],
    "embedding_bag_sum": _embedding_bag_arguments,
    "embedding_bag_sum_bwd_out": lambda: [normal(3, 3, seed=5), *_embedding_bag_arguments()],
    "habana_bounds_check_indices": lambda: [
        torch.tensor([0, 9, -1, 2], device="hpu"),
        torch.tensor([0, 1, 2, 3, 4], device="hpu"),
        torch.tensor([0], device="hpu"),
        torch.tensor([3, 2], device="hpu"),
        1,
        None,
    ],
    "habana_expand_into_jagged_permute": lambda: [
        torch.tensor([2, 0, 1], device="hpu"),
        torch.tensor([0, 2, 5, 6], device="hpu"),
        torch.tensor([0, 1, 3, 6], device="hpu"),
        6,
    ],
    "habana_permute_1D_sparse_data": lambda: _jagged_arguments(normal(6)),
    "habana_permute_1D_sparse_data_without_weights": lambda: _jagged_arguments(),
    "habana_permute_2D_sparse_data": lambda: [
        torch.tensor([1, 0], device="hpu"),
        torch.tensor([[1, 2], [0, 3]], device="hpu"),
        torch.arange(6, device="hpu"),
        normal(6),
    ],
    "habana_permute_2D_sparse_data_without_weights": lambda: [
        torch.tensor([1, 0], device="hpu"),
        torch.tensor([[1, 2], [0, 3]], device="hpu"),
        torch.arange(6, device="hpu"),
    ],
    "habana_split_permute_cat": lambda: [normal(2, 6), torch.tensor([2, 0, 1], device="hpu"), 2, 3, 2],
    "habana_nms": lambda: [*_boxes_and_scores(), 0.2, 0.3],
    "batched_nms_eager": lambda: [*_boxes_and_scores(), random_integers(9, below=2), 0.2, 2],
    "batched_nms": lambda: [*_boxes_and_scores(), random_integers(9, below=2), 0.2, normal(1), normal(1), 2],
    "roi_align_by_size": lambda: [normal(2, 3, 8, 8), _make_image_regions(), 1.0, 2, 3, True],
    "roi_align_by_size_backward": lambda: [normal(3, 3, 2, 3), _make_image_regions(), 1.0, 2, 3, 8, 8, True],
    "roi_align_fwd": lambda: [normal(2, 3, 8, 8), *_regions_and_images(), 2, 3, 0, 2, 1.0, True],
    "roi_align_bwd": lambda: [normal(2, 3, 2, 3), *_regions_and_images(), normal(2, 3, 8, 8), 2, 1.0, True],
    "custom_bernoulli.Size": lambda: [[50], 0.3],
    "habana_rand_st": lambda: [seed_tensor(), normal(3, 4)],
    "habana_randint_st": lambda: [seed_tensor(), 2, 9, normal(3, 4)],
    "habana_randn_st": lambda: [seed_tensor(), normal(3, 4)],
    "habana_random_seed": lambda: [normal(1)],
    "habana_randperm_ht": lambda: [seed_tensor(), normal(1), normal(20)],
    "habana_seed_generator": lambda: [seed_tensor(), number(3, torch.int32), 5],
    "randperm_out": lambda: [20, seed_tensor(), random_integers(20, below=2)],
    "randperm_out_ds_ht": lambda: [normal(1), seed_tensor(), random_integers(20, below=2)],
    "habana_rand": lambda: [seed_tensor(), [3, 4]],
    "habana_randn": lambda: [seed_tensor(), [3, 4]],
    "habana_randint": lambda: [seed_tensor(), 2, 9, [3, 4]],
    "habana_bernoulli": lambda: [seed_tensor(), normal(40).sigmoid()],
    "habana_bernoulli.p": lambda: [seed_tensor(), normal(40), 0.3],
    "habana_bernoulli.Tensor": lambda: [seed_tensor(), normal(40), normal(40).sigmoid()],
    "habana_bernoulli.Size": lambda: [seed_tensor(), [40], 0.3],
    "habana_poisson": lambda: [seed_tensor(), normal(40).exp() * 3],
    "habana_multinomial": lambda: [seed_tensor(), normal(3, 6).softmax(-1), 4, False],
    "habana_uniform": lambda: [seed_tensor(), normal(3, 4), -1.0, 2.0],
    "habana_randperm": lambda: [seed_tensor(), 20],
    "habana_native_dropout": lambda: [seed_tensor(), normal(40), 0.3, True],
}

#: Operators whose results depend on the device's random generator.
DRAWN = {
    "sdpa_fwd_dropout", "sdpa_recomp_fwd_dropout", "fp8_sdpa_fwd_dropout", "fp8_sdpa_recomp_fwd_dropout",
    "fp8_sdpa_recomp_fwd_dropout.scalar", "custom_bernoulli.Size", "habana_random_seed",
}  # fmt: skip
#: Operators whose result size depends on values, that work on the host, or that set ``.grad``. A graph cannot
#: contain all work of such an operator.
BY_VALUE = {
    "accumulate_grads_",
    "habana_permute_1D_sparse_data",
    "habana_permute_1D_sparse_data_without_weights", "habana_permute_2D_sparse_data",
    "habana_permute_2D_sparse_data_without_weights",
}  # fmt: skip


def sample_arguments(name: str) -> Arguments:
    """Return the arguments of an operator. ``NAME_checkpoint`` has the arguments of ``NAME``."""
    return SAMPLES[name.replace("_checkpoint", "")]()
