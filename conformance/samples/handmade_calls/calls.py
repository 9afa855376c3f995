"""Handmade overload calls, for overloads that no sample of torch's database calls with useful arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from conformance.model import seeds
from conformance.samples.operators import Sample, dtype_of


class TensorMaker:
    """Makes tensors of one dtype, with a seed computed from (overload, dtype)."""

    def __init__(self, name: str, dtype: str) -> None:
        self.dtype = dtype_of(dtype)
        self._generator = torch.Generator().manual_seed(seeds.seed_for(f"{name}@{dtype}"))

    def values(self, *shape: int, low: float = -4, high: float = 4) -> torch.Tensor:
        """Return random values between ``low`` and ``high``."""
        if self.dtype.is_complex:
            parts = [self.uniform(*shape, low=low, high=high) for _ in range(2)]
            return torch.complex(*parts).to(self.dtype)
        if self.dtype.is_floating_point:
            return self.uniform(*shape, low=low, high=high).to(self.dtype)
        if self.dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self._generator).bool()
        first = 0 if self.dtype == torch.uint8 and low < 0 else int(low)
        return torch.randint(first, int(high) + 1, shape, generator=self._generator).to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        """Return random values from 0.5 (integers: 1) to 4."""
        return self.values(*shape, low=0.5 if self.dtype.is_floating_point else 1, high=4)

    def distinct(self, *shape: int) -> torch.Tensor:
        """Return distinct values in random order. Values repeat if the dtype has too few distinct values."""
        count = torch.Size(shape).numel()
        order = torch.randperm(count, generator=self._generator).reshape(shape)
        return (order - count // 2).to(self.dtype) if self.dtype != torch.uint8 else order.to(self.dtype)

    def half_integers(self, *shape: int, low: int, high: int) -> torch.Tensor:
        """Return random values halfway between two integers, which no rounding moves across an integer."""
        whole = torch.randint(low, high, shape, generator=self._generator)
        return (whole + 0.5).to(self.dtype)

    def mask(self, *shape: int) -> torch.Tensor:
        """Return a random boolean mask."""
        return torch.randint(0, 2, shape, generator=self._generator).bool()

    def matrix(self, *shape: int) -> torch.Tensor:
        """Return well-conditioned square matrices. The largest element of each column is not on the diagonal,
        so that a factorisation must exchange rows.
        """
        wide = self.values(*shape, low=-1, high=1)
        return (wide + 5 * torch.eye(shape[-1]).roll(1, 0)).to(self.dtype)

    def uniform(self, *shape: int, low: float, high: float) -> torch.Tensor:
        """Return random float32 values between ``low`` and ``high``, whatever the dtype."""
        return torch.rand(shape, generator=self._generator) * (high - low) + low


#: Returns one list of arguments for each call. A dict at the end of a list holds the keyword arguments.
Build = Callable[[TensorMaker], list[list[Any]]]


@dataclasses.dataclass(frozen=True)
class HandmadeCalls:
    """Handmade calls of an overload.

    ``operator`` is the operator whose tolerance and dtypes apply. ``cpu_positions`` holds the positions,
    after the first argument, of tensors that must be on the host. ``draws`` is false if the overload can draw
    random numbers but does not draw any in these calls.
    """

    operator: str
    build: Build
    cpu_positions: frozenset[int] = frozenset()
    draws: bool = True


def handmade_samples(name: str, dtype: str, table: Mapping[str, HandmadeCalls] | None = None) -> list[Sample]:
    """Return the handmade calls of an overload in one dtype, the dtype of the first tensor argument.

    The list is empty if ``table`` has no such call.

    ``table`` is :data:`HANDMADE_CALLS` by default.
    """
    handmade = (HANDMADE_CALLS if table is None else table).get(name)
    if handmade is None:
        return []
    try:
        calls = handmade.build(TensorMaker(name, dtype))
    except (RuntimeError, TypeError):
        return []
    samples = []
    for index, call in enumerate(calls):
        kwargs = call[-1] if isinstance(call[-1], dict) else {}
        positional = call[:-1] if isinstance(call[-1], dict) else call
        sample = Sample(
            index, positional[0], tuple(positional[1:]), kwargs, cpu_positions=handmade.cpu_positions
        )
        tensors = sample.tensors()
        if tensors and tensors[0].dtype == dtype_of(dtype):
            samples.append(sample)
    return samples


def _pool_calls(dimensions: int, *, backward: bool = False) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        x = make.distinct(2, 3, *(6, 8, 7)[:dimensions])
        sizes = ([3, 4, 2][:dimensions], [1] * dimensions)
        if not backward:
            return [[x, size] for size in sizes]
        op = getattr(torch.ops.aten, f"adaptive_max_pool{dimensions}d").default
        calls = []
        for size in sizes:
            pooled, indices = op(x, size)
            calls.append([make.values(*pooled.shape), x, indices])
        return calls

    return argument_lists


def _max_pool3d_calls(*, backward: bool) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        x = make.distinct(1, 2, 4, 6, 5)
        calls = []
        for options in (
            [[2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False],
            [[3, 2, 2], [1, 2, 1], [1, 1, 0], [1, 1, 2], True],
        ):
            if backward:
                pooled, indices = torch.ops.aten.max_pool3d_with_indices.default(x, *options)
                calls.append([make.values(*pooled.shape), x, *options, indices])
            else:
                calls.append([x, *options])
        return calls

    return argument_lists


def _fused_calls(name: str, *, tensor_lr: bool = False) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        def group(low: float = -1) -> list[torch.Tensor]:
            return [make.values(3, 4, low=low, high=1), make.values(5, low=low, high=1)]

        lr = torch.tensor(0.25) if tensor_lr else 0.25
        steps = [torch.tensor(3.0), torch.tensor(3.0)]
        calls = []
        for all_options in (False, True):
            decay = 0.125 if all_options else 0.0
            options: dict[str, Any] = {"grad_scale": None, "found_inf": None}
            if all_options:
                options = {"grad_scale": torch.tensor([2.0]), "found_inf": torch.tensor([0.0])}
            if name == "sgd":
                options |= {
                    "weight_decay": decay,
                    "momentum": 0.5,
                    "lr": lr,
                    "dampening": 0.25 if all_options else 0.0,
                    "nesterov": False,
                    "maximize": all_options,
                    "is_first_step": False,
                }
                calls.append([group(), group(), group(), options])
            elif name == "adagrad":
                options |= {
                    "lr": lr,
                    "lr_decay": decay,
                    "weight_decay": decay,
                    "eps": 1e-8,
                    "maximize": all_options,
                }
                calls.append([group(), group(), group(0), [s.clone() for s in steps], options])
            else:
                options |= {
                    "lr": lr,
                    "beta1": 0.75,
                    "beta2": 0.5,
                    "weight_decay": decay,
                    "eps": 1e-8,
                    "amsgrad": all_options,
                    "maximize": all_options,
                }
                largest = group(0) if all_options else []
                state = [group(), group(0), largest, [s.clone() for s in steps]]
                calls.append([group(), group(), *state, options])
        return calls

    return argument_lists


def _recurrent_calls(gates: int, *, cells: bool = False, random: bool = False) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        def layer(size: int) -> list[torch.Tensor]:
            shapes = ((gates * 4, size), (gates * 4, 4), (gates * 4,), (gates * 4,))
            return [make.values(*shape, low=-1, high=1) for shape in shapes]

        def states(layers: int) -> Any:
            tensors = [make.values(layers, 3, 4, low=-1, high=1) for _ in range(1 + cells)]
            return tensors if cells else tensors[0]

        data, sizes = make.values(6, 3, low=-1, high=1), torch.tensor([3, 2, 1])
        params = layer(3)
        two_layers = [data, sizes, states(2), [*params, *layer(4)], True, 2]
        if random:
            return [[*two_layers, 0.5, True, False]]
        # Both calls are deterministic: one without dropout (evaluation), one with dropout probability 1.
        return [[data, sizes, states(1), params, True, 1, 0.0, False, False], [*two_layers, 1.0, True, False]]

    return argument_lists


def _embedding_bag_calls(make: TensorMaker) -> list[list[Any]]:
    weight = make.values(5, 9)
    indices, offsets = torch.tensor([0, 2, 4, 1, 2]), torch.tensor([0, 2, 3])
    calls = []
    # In this order: sum, mean, maximum, gradients scaled by frequency, weighted samples with a padding row.
    for mode, by_frequency, weights, padding in (
        (0, False, None, -1),
        (1, False, None, -1),
        (2, False, None, -1),
        (0, True, None, -1),
        (0, False, make.values(5), 1),
    ):
        options = (by_frequency, mode, False, weights, False, padding)
        _, bags, sizes, largest = torch.ops.aten._embedding_bag.default(weight, indices, offsets, *options)
        grad = make.values(3, 9)
        calls.append([grad, indices, bags, sizes, largest, 5, by_frequency, mode, weights, padding])
    return calls


def _histogram_calls(make: TensorMaker) -> list[list[Any]]:
    return [
        [make.values(40), 5, {"weight": make.positive(40)}],
        [make.values(5, 8), 300, {"range": [-3.0, 3.0], "weight": make.positive(5, 8), "density": True}],
    ]


def _histogramdd_calls(with_edges: bool) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        points, weight = make.values(40, 2), make.positive(40)
        bins = [torch.linspace(-4, 4, steps).to(make.dtype) for steps in (10, 32)]
        if with_edges:
            return [[points, bins], [points, bins, {"weight": weight}], [points, bins, {"density": True}]]
        options = {"range": [-3.0, 3.0, -4.0, 4.0], "weight": weight}
        return [[points, [9, 31]], [points, [9, 31], options], [points, [8, 4], {"density": True}]]

    return argument_lists


def _sobol_calls(name: str) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        if make.dtype != torch.int64:
            return []
        state = torch.zeros(3, 30, dtype=torch.int64)
        if name == "initialize":
            return [[state, 3]]
        torch.ops.aten._sobol_engine_initialize_state_.default(state, 3)
        if name == "scramble":
            matrices = make.values(3, 30, 30, low=0, high=1).tril()
            return [[state, matrices, 3]]
        quasi = make.values(3, low=0, high=2**20)
        if name == "ff":
            return [[quasi, 5, state, 3, 2]]
        return [[quasi, 4, state, 3, 2, torch.float32], [quasi, 1, state, 3, 0, torch.float32]]

    return argument_lists


def _weight_norm_calls(*, backward: bool) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        calls = []
        for dim, shape in ((0, (4, 1)), (1, (1, 5))):
            v, g = make.values(4, 5), make.positive(*shape)
            if backward:
                _, norms = torch.ops.aten._weight_norm_interface.default(v, g, dim)
                calls.append([make.values(4, 5), v, g, norms, dim])
            else:
                calls.append([v, g, dim])
        return calls

    return argument_lists


def _cholesky_solve_calls(make: TensorMaker) -> list[list[Any]]:
    calls = []
    for upper in (False, True):
        factor = make.matrix(4, 4).roll(-1, -2)
        factor = factor.triu() if upper else factor.tril()
        calls.append([make.values(4, 2), factor, upper])
    return calls


def _bicubic_calls(*, backward: bool) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        # Kernels use explicit scale factors only if ``align_corners`` is false.
        options = ([False], [True], [False, 0.6, 0.9])
        if not backward:
            return [[make.values(1, 2, 8, 6), [4, 5], *scale_options] for scale_options in options]
        return [[make.values(1, 2, 4, 5), [4, 5], [1, 2, 8, 6], *scale_options] for scale_options in options]

    return argument_lists


def _running_extreme_calls(make: TensorMaker) -> list[list[Any]]:
    calls = []
    for dim, shape in ((1, (4, 6)), (0, (5, 3)), (1, (2, 3, 2, 2))):
        x = make.distinct(*shape)
        calls.append([x, torch.zeros_like(x), torch.zeros(shape, dtype=torch.int64), dim])
    return calls


def _masked_softmax_calls(*, backward: bool) -> Build:
    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        x, mask = make.values(3, 5), torch.zeros(3, 5, dtype=torch.bool)
        mask[0, 2] = mask[1, 4] = mask[2, 0] = True
        if not backward:
            return [[x, mask, 1, 2], [x, mask, 0, 2]]
        calls = []
        for dim in (1, 0):
            output = torch.ops.aten._masked_softmax.default(x, mask, dim, 2)
            calls.append([make.values(3, 5), output, mask, dim])
        return calls

    return argument_lists


def _out_argument(make: TensorMaker, *shape: int) -> dict[str, Any]:
    return {"out": torch.ones(shape, dtype=make.dtype)}


_UNIQUE = "unique"
_INTEGERS = "bitwise_left_shift"


#: Handmade calls by overload name.
HANDMADE_CALLS: Mapping[str, HandmadeCalls] = {
    "topk": HandmadeCalls("topk", lambda m: [[m.distinct(5, 7), 3], [m.distinct(5, 7), 2, 0, False, True]]),
    "histc": HandmadeCalls(
        "histc",
        lambda m: [
            [m.half_integers(5, 7, low=-4, high=4), 8, -4, 4],
            [m.half_integers(3, 4, 5, low=-3, high=5), 6, -2, 4],
            [m.half_integers(40, low=0, high=100), 300, 0, 300],
        ],
    ),
    "histogram.bin_ct": HandmadeCalls("histogram", _histogram_calls),
    "_histogramdd_from_bin_cts": HandmadeCalls("histogramdd", _histogramdd_calls(with_edges=False)),
    "_histogramdd_from_bin_tensors": HandmadeCalls("histogramdd", _histogramdd_calls(with_edges=True)),
    "nonzero_static": HandmadeCalls(
        "nonzero",
        lambda m: [
            [m.values(4, 6) * m.mask(4, 6), {"size": 9}],
            [m.values(3, 2, 5) * m.mask(3, 2, 5), {"size": 40, "fill_value": -3}],
        ],
    ),
    "kthvalue": HandmadeCalls("kthvalue", lambda m: [[m.distinct(5, 7), 2], [m.distinct(5, 7), 3, 0, True]]),
    "median": HandmadeCalls("median", lambda m: [[m.distinct(5, 7)]]),
    "nanmedian": HandmadeCalls("nanmedian", lambda m: [[m.distinct(5, 7)]]),
    "median.dim": HandmadeCalls("median", lambda m: [[m.distinct(5, 7), 1], [m.distinct(5, 7), 0, True]]),
    "mode": HandmadeCalls(
        "mode", lambda m: [[m.values(3, 1).repeat(1, 5), 1], [m.values(1, 4).repeat(3, 1), 0, True]]
    ),
    "sort.stable": HandmadeCalls(
        "sort",
        lambda m: [
            [m.distinct(5, 7), {"stable": True, "dim": 0, "descending": True}],
            [m.distinct(5, 7), {"stable": True}],
        ],
    ),
    "adaptive_max_pool2d": HandmadeCalls("nn.functional.adaptive_max_pool2d", _pool_calls(2)),
    "adaptive_max_pool3d": HandmadeCalls("nn.functional.adaptive_max_pool3d", _pool_calls(3)),
    "adaptive_max_pool2d_backward": HandmadeCalls(
        "nn.functional.adaptive_max_pool2d", _pool_calls(2, backward=True)
    ),
    "adaptive_max_pool3d_backward": HandmadeCalls(
        "nn.functional.adaptive_max_pool3d", _pool_calls(3, backward=True)
    ),
    "adaptive_avg_pool2d": HandmadeCalls(
        "nn.functional.adaptive_avg_pool2d",
        lambda m: [[m.values(2, 3, 6, 8), size] for size in ([3, 5], [1, 1])],
    ),
    "adaptive_avg_pool3d": HandmadeCalls(
        "nn.functional.adaptive_avg_pool3d",
        lambda m: [[m.values(2, 3, 6, 4, 5), size] for size in ([3, 3, 2], [1, 1, 1])],
    ),
    "adaptive_avg_pool3d_backward.grad_input": HandmadeCalls(
        "nn.functional.adaptive_avg_pool3d",
        lambda m: [
            [m.values(2, 3, 2, 2, 3), x, {"grad_input": torch.ones_like(x)}]
            for x in [m.values(2, 3, 4, 4, 5)]
        ],
    ),
    "max_pool3d_with_indices": HandmadeCalls("nn.functional.max_pool3d", _max_pool3d_calls(backward=False)),
    "max_pool3d_with_indices_backward": HandmadeCalls(
        "nn.functional.max_pool3d", _max_pool3d_calls(backward=True)
    ),
    "_unique2": HandmadeCalls(_UNIQUE, lambda m: [[m.values(4, 5), True, True, True], [m.values(4, 5)]]),
    "_unique": HandmadeCalls(_UNIQUE, lambda m: [[m.values(4, 5), True, True]]),
    "unique_dim": HandmadeCalls(_UNIQUE, lambda m: [[m.values(6, 1).repeat(1, 2), 0, True, True, True]]),
    "unique_consecutive": HandmadeCalls(
        "unique_consecutive",
        lambda m: [[m.values(4, 5).repeat_interleave(2, 1), True, True], [m.values(6, 1), True, True, 0]],
    ),
    "unique_dim_consecutive": HandmadeCalls(
        "unique_consecutive", lambda m: [[m.values(6, 2).repeat_interleave(2, 0), 0, True, True]]
    ),
    "__lshift__.Tensor": HandmadeCalls(
        _INTEGERS, lambda m: [[m.values(3, 5), m.values(3, 5, low=0, high=3)]]
    ),
    "__lshift__.Scalar": HandmadeCalls(_INTEGERS, lambda m: [[m.values(3, 5), 2]]),
    "__rshift__.Tensor": HandmadeCalls(
        _INTEGERS, lambda m: [[m.values(3, 5, high=40), m.values(3, 5, low=0, high=3)]]
    ),
    "__rshift__.Scalar": HandmadeCalls(_INTEGERS, lambda m: [[m.values(3, 5, high=40), 2]]),
    "isin.Tensor_Scalar": HandmadeCalls(
        "isin", lambda m: [[m.values(4, 6), 2], [m.values(4, 6), 1, {"invert": True}]]
    ),
    "isin.Scalar_Tensor": HandmadeCalls(
        "isin",
        # In the first call, the number 2 is only at the end of the tensor. A kernel that reads wrong memory
        # does not find it.
        lambda m: [[2, m.distinct(5).sort()[0]], [2, m.values(6)], [1, m.values(6), {"invert": True}]],
    ),
    "clamp_max": HandmadeCalls("clamp", lambda m: [[m.values(3, 5), 1]]),
    "remainder.Scalar_Tensor": HandmadeCalls("remainder", lambda m: [[7, m.positive(3, 5)]]),
    "bucketize.Scalar": HandmadeCalls(
        "bucketize",
        lambda m: [
            [2, m.distinct(8).sort().values],
            [1, m.distinct(8).sort().values, {"out_int32": True, "right": True}],
        ],
    ),
    "fill.Tensor": HandmadeCalls("fill", lambda m: [[m.values(3, 5), m.values(1).reshape(())]]),
    "conj_physical": HandmadeCalls("conj_physical", lambda m: [[m.values(3, 5)]]),
    "equal": HandmadeCalls(
        "equal", lambda m: [[x, x.clone()] for x in [m.values(3, 5)]] + [[m.values(3, 5), m.values(3, 5)]]
    ),
    "linalg_lu": HandmadeCalls("linalg.lu", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "linalg_lu_factor_ex": HandmadeCalls(
        "linalg.lu_factor_ex", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]
    ),
    "_cholesky_solve_helper": HandmadeCalls("cholesky_solve", _cholesky_solve_calls),
    "linalg__powsum": HandmadeCalls(
        "linalg.vector_norm", lambda m: [[m.values(3, 5), 2, [1]], [m.values(3, 5), 3, [0], True]]
    ),
    "norm.ScalarOpt_dim_dtype": HandmadeCalls(
        "linalg.vector_norm",
        lambda m: [
            [
                m.values(*shape),
                2,
                [1],
                False,
                {"dtype": torch.complex64 if m.dtype.is_complex else torch.float32},
            ]
            for shape in ((3, 5), (2, 1029))
        ],
    ),
    "_weight_norm_interface": HandmadeCalls("linalg.vector_norm", _weight_norm_calls(backward=False)),
    "_weight_norm_interface_backward": HandmadeCalls("linalg.vector_norm", _weight_norm_calls(backward=True)),
    "_standard_gamma_grad": HandmadeCalls("igammac", lambda m: [[m.positive(3, 5), m.positive(3, 5)]]),
    "_dirichlet_grad": HandmadeCalls(
        "igammac", lambda m: [[m.values(4, 3, low=0.1, high=0.9), m.positive(4, 3), m.positive(4, 3) + 4]]
    ),
    "fake_quantize_per_tensor_affine_cachemask": HandmadeCalls(
        "mul", lambda m: [[m.values(3, 5, low=-9, high=9), 0.25, 3, 0, 31]]
    ),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": HandmadeCalls(
        "mul",
        lambda m: [
            [x, torch.tensor([0.25]), torch.tensor([3], dtype=torch.int32), torch.tensor([1]), 0, 31]
            for x in [m.values(3, 5, low=-9, high=9)]
        ],
    ),
    "fake_quantize_per_channel_affine_cachemask": HandmadeCalls(
        "mul",
        lambda m: [
            [x, torch.tensor([0.25, 0.5, 1.0]), torch.tensor([3, 0, 9], dtype=torch.int32), 0, 0, 31]
            for x in [m.values(3, 5, low=-9, high=9)]
        ],
    ),
    "_amp_update_scale_": HandmadeCalls(
        "mul",
        lambda m: [
            [m.positive(1), torch.tensor([steps], dtype=torch.int32), torch.tensor([found]), 2.0, 0.5, 3]
            for steps, found in ((2, 0.0), (0, 0.0), (1, 1.0))
        ],
    ),
    "_amp_foreach_non_finite_check_and_unscale_": HandmadeCalls(
        "mul",
        lambda m: [
            [[m.values(3, 4), m.values(5)], torch.tensor([0.0]), torch.tensor([0.5])],
            [[torch.full((3,), float("inf"), dtype=m.dtype)], torch.tensor([0.0]), torch.tensor([0.5])],
        ],
    ),
    "_fused_adagrad_": HandmadeCalls("add", _fused_calls("adagrad")),
    "_fused_adagrad_.tensor_lr": HandmadeCalls("add", _fused_calls("adagrad", tensor_lr=True)),
    "_fused_adam_": HandmadeCalls("add", _fused_calls("adam")),
    "_fused_adam_.tensor_lr": HandmadeCalls("add", _fused_calls("adam", tensor_lr=True)),
    "_fused_adamw_": HandmadeCalls("add", _fused_calls("adamw")),
    "_fused_adamw_.tensor_lr": HandmadeCalls("add", _fused_calls("adamw", tensor_lr=True)),
    "_fused_sgd_": HandmadeCalls("add", _fused_calls("sgd")),
    "_fused_sgd_.tensor_lr": HandmadeCalls("add", _fused_calls("sgd", tensor_lr=True)),
    "unfold_backward": HandmadeCalls(
        "add", lambda m: [[m.values(3, 2, 3), [7, 2], 0, 3, 2], [m.values(4, 3, 2), [4, 4], 1, 2, 1]]
    ),
    "_convolution": HandmadeCalls(
        "nn.functional.conv2d",
        lambda m: [
            [
                m.values(2, 4, 6, 5),
                m.values(6, 2, 3, 3),
                m.values(6),
                [2, 1],
                [1, 0],
                [1, 1],
                False,
                [0, 0],
                2,
                False,
                False,
                False,
                False,
            ]
        ],
    ),
    "group_norm": HandmadeCalls(
        "nn.functional.group_norm",
        lambda m: [[m.values(2, 6, 4), 3, m.values(6), m.values(6)], [m.values(2, 6, 4), 2, None, None, 0.5]],
    ),
    "_functional_assert_async.msg": HandmadeCalls("clone", lambda m: [[m.positive(1), "no", m.values(3)]]),
    "_masked_softmax": HandmadeCalls("softmax", _masked_softmax_calls(backward=False)),
    "_masked_softmax_backward": HandmadeCalls("softmax", _masked_softmax_calls(backward=True)),
    "_upsample_bicubic2d_aa": HandmadeCalls(
        "nn.functional.interpolate.bicubic", _bicubic_calls(backward=False)
    ),
    "_upsample_bicubic2d_aa_backward": HandmadeCalls(
        "nn.functional.interpolate.bicubic", _bicubic_calls(backward=True)
    ),
    "_embedding_bag_dense_backward": HandmadeCalls("nn.functional.embedding_bag", _embedding_bag_calls),
    "_sobol_engine_initialize_state_": HandmadeCalls("add", _sobol_calls("initialize")),
    "_sobol_engine_scramble_": HandmadeCalls("add", _sobol_calls("scramble")),
    "_sobol_engine_ff_": HandmadeCalls("add", _sobol_calls("ff")),
    "_sobol_engine_draw": HandmadeCalls("add", _sobol_calls("draw")),
    "rnn_tanh.data": HandmadeCalls("addmm", _recurrent_calls(1), frozenset({0}), draws=False),
    "rnn_relu.data": HandmadeCalls("addmm", _recurrent_calls(1), frozenset({0}), draws=False),
    "gru.data": HandmadeCalls("addmm", _recurrent_calls(3), frozenset({0}), draws=False),
    "lstm.data": HandmadeCalls("addmm", _recurrent_calls(4, cells=True), frozenset({0}), draws=False),
    "native_channel_shuffle": HandmadeCalls(
        "nn.functional.channel_shuffle", lambda m: [[m.values(1, 6, 2, 2), 3]]
    ),
    "_cummax_helper": HandmadeCalls("cummax", _running_extreme_calls),
    "_cummin_helper": HandmadeCalls("cummin", _running_extreme_calls),
    "_stack": HandmadeCalls(
        "stack", lambda m: [[[m.values(3, 2), m.values(3, 2)], 0], [[m.values(3, 2)] * 2, -1]]
    ),
    "glu_jvp": HandmadeCalls(
        "nn.functional.glu",
        lambda m: [[torch.ops.aten.glu.default(x, 1), x, m.values(3, 4), 1] for x in [m.values(3, 4)]],
    ),
    "glu_backward_jvp": HandmadeCalls(
        "nn.functional.glu",
        lambda m: [[m.values(3, 4), m.values(3, 2), m.values(3, 4), m.values(3, 2), m.values(3, 4), 1]],
    ),
    "eye.m_out": HandmadeCalls("eye", lambda m: [[4, 3, _out_argument(m, 4, 3)]]),
    "eye.out": HandmadeCalls("eye", lambda m: [[4, _out_argument(m, 4, 4)]]),
    "linspace.out": HandmadeCalls(
        "linspace", lambda m: [[0, 8, 9, _out_argument(m, 9)], [-3, 5, 33, _out_argument(m, 33)]]
    ),
    "logspace.out": HandmadeCalls(
        "logspace", lambda m: [[0, 3, 4, _out_argument(m, 4)], [0, 6, 19, 2.0, _out_argument(m, 19)]]
    ),
    "arange.start_out": HandmadeCalls(
        "arange", lambda m: [[2, 9, _out_argument(m, 7)], [5, 60, 3, _out_argument(m, 19)]]
    ),
    "range.out": HandmadeCalls(
        "arange", lambda m: [[3, 60, 3, _out_argument(m, 20)], [2, 8, _out_argument(m, 7)]]
    ),
    "_linalg_eigh": HandmadeCalls(
        "linalg.eigh", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3), "L", False]]
    ),
    "_linalg_svd": HandmadeCalls(
        "linalg.svd", lambda m: [[m.matrix(4, 4)], [m.values(2, 3, 5), True], [m.values(3, 5), False, False]]
    ),
    "linalg_qr": HandmadeCalls("linalg.qr", lambda m: [[m.values(4, 3)], [m.values(2, 3, 4), "complete"]]),
    "geqrf": HandmadeCalls("geqrf", lambda m: [[m.values(4, 3)], [m.values(2, 3, 3)]]),
    "linalg_eig": HandmadeCalls("linalg.eig", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "_linalg_eigvals": HandmadeCalls("linalg.eigvals", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "linalg_eigvals": HandmadeCalls("linalg.eigvals", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "linalg_ldl_factor_ex": HandmadeCalls(
        "linalg.ldl_factor_ex", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]
    ),
    "normal.float_Tensor": HandmadeCalls("normal", lambda m: [[1.0, m.positive(4, 9)]]),
    "poisson": HandmadeCalls("normal", lambda m: [[m.positive(4, 9) * 64]]),
    "binomial": HandmadeCalls(
        "normal",
        lambda m: [[torch.full((4, 9), 400.0, dtype=m.dtype), torch.full((4, 9), 0.5, dtype=m.dtype)]],
    ),
    "_standard_gamma": HandmadeCalls("normal", lambda m: [[m.positive(4, 9)]]),
    "_sample_dirichlet": HandmadeCalls("normal", lambda m: [[m.positive(4, 9)]]),
    "bernoulli.Tensor": HandmadeCalls("fill", lambda m: [[m.values(4, 40), torch.full((4, 40), 0.5)]]),
    "random": HandmadeCalls("fill", lambda m: [[m.values(4, 9)]]),
    "random.to": HandmadeCalls("fill", lambda m: [[m.values(4, 40), 100]]),
    "random.from": HandmadeCalls("fill", lambda m: [[m.values(4, 40), 3, 100]]),
}


def _one_choice_per_row(make: TensorMaker, rows: int, columns: int) -> torch.Tensor:
    """Return weights with a single nonzero element in each row."""
    chosen = torch.arange(rows) * 5 % columns
    return torch.nn.functional.one_hot(chosen, columns).to(make.dtype)


#: Handmade calls that draw random numbers, for overloads whose other calls are deterministic.
RANDOM_CALLS: Mapping[str, HandmadeCalls] = {
    "rnn_tanh.data": HandmadeCalls("addmm", _recurrent_calls(1, random=True), frozenset({0})),
    "rnn_relu.data": HandmadeCalls("addmm", _recurrent_calls(1, random=True), frozenset({0})),
    "gru.data": HandmadeCalls("addmm", _recurrent_calls(3, random=True), frozenset({0})),
    "lstm.data": HandmadeCalls("addmm", _recurrent_calls(4, cells=True, random=True), frozenset({0})),
}

#: Handmade calls of random overloads with arguments that allow a single result.
DETERMINISTIC_CALLS: Mapping[str, HandmadeCalls] = {
    "normal.Tensor_Tensor": HandmadeCalls(
        "normal", lambda m: [[m.values(4, 9), torch.zeros(4, 9, dtype=m.dtype)]]
    ),
    "normal.Tensor_float": HandmadeCalls("normal", lambda m: [[m.values(4, 9), 0.0]]),
    "normal.float_Tensor": HandmadeCalls("normal", lambda m: [[1.5, torch.zeros(4, 9, dtype=m.dtype)]]),
    "bernoulli": HandmadeCalls("bernoulli", lambda m: [[m.mask(4, 9).to(m.dtype)]]),
    "bernoulli.Tensor": HandmadeCalls("fill", lambda m: [[m.values(4, 9), m.mask(4, 9).float()]]),
    "poisson": HandmadeCalls("normal", lambda m: [[torch.zeros(4, 9, dtype=m.dtype)]]),
    "binomial": HandmadeCalls("normal", lambda m: [[m.distinct(4, 9).abs(), m.mask(4, 9).to(m.dtype)]]),
    "multinomial": HandmadeCalls("multinomial", lambda m: [[_one_choice_per_row(m, 4, 9), 1]]),
    "uniform": HandmadeCalls("uniform", lambda m: [[m.values(4, 9), 2.0, 2.0]]),
    "geometric": HandmadeCalls("geometric", lambda m: [[m.values(4, 9), 1.0]]),
    "random.to": HandmadeCalls("fill", lambda m: [[m.values(4, 9), 1]]),
    "random.from": HandmadeCalls("fill", lambda m: [[m.values(4, 9), 3, 4]]),
    "rrelu_with_noise": HandmadeCalls(
        "nn.functional.rrelu",
        lambda m: [
            [m.values(4, 9), torch.zeros(4, 9, dtype=m.dtype), 0.25, 0.25, True],
            [m.values(4, 9), torch.zeros(4, 9, dtype=m.dtype), 0.125, 0.375, False],
        ],
    ),
    "native_dropout": HandmadeCalls("nn.functional.dropout", lambda m: [[m.values(4, 9), 0.0, True]]),
}
