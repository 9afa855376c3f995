"""Calls of overloads, built by hand: operators of torch's database make none, or none that say enough."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from conformance.samples.operators import Sample, dtype_of


class Maker:
    """Makes tensors of one dtype from a seed of (overload, dtype)."""

    def __init__(self, name: str, dtype: str) -> None:
        self.dtype = dtype_of(dtype)
        self._generator = torch.Generator().manual_seed(zlib.crc32(f"{name}@{dtype}".encode()))

    def values(self, *shape: int, low: float = -4, high: float = 4) -> torch.Tensor:
        """Return values between two limits."""
        if self.dtype.is_complex:
            parts = [self._uniform(shape, low, high) for _ in range(2)]
            return torch.complex(*parts).to(self.dtype)
        if self.dtype.is_floating_point:
            return self._uniform(shape, low, high).to(self.dtype)
        if self.dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self._generator).bool()
        first = 0 if self.dtype == torch.uint8 and low < 0 else int(low)
        return torch.randint(first, int(high) + 1, shape, generator=self._generator).to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        """Return values from 1 to 4, or from 0.5."""
        return self.values(*shape, low=0.5 if self.dtype.is_floating_point else 1, high=4)

    def distinct(self, *shape: int) -> torch.Tensor:
        """Return values that differ, as far as the dtype has so many."""
        count = torch.Size(shape).numel()
        order = torch.randperm(count, generator=self._generator).reshape(shape)
        return (order - count // 2).to(self.dtype) if self.dtype != torch.uint8 else order.to(self.dtype)

    def centres(self, *shape: int, low: int, high: int) -> torch.Tensor:
        """Return numbers halfway between two integers, which no rounding moves over one of them."""
        whole = torch.randint(low, high, shape, generator=self._generator)
        return (whole + 0.5).to(self.dtype)

    def mask(self, *shape: int) -> torch.Tensor:
        """Return a mask."""
        return torch.randint(0, 2, shape, generator=self._generator).bool()

    def matrix(self, *shape: int) -> torch.Tensor:
        """Return matrices far from singular, the largest element of each column beside the diagonal."""
        wide = self.values(*shape, low=-1, high=1)
        return (wide + 5 * torch.eye(shape[-1]).roll(1, 0)).to(self.dtype)

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
        return torch.rand(shape, generator=self._generator) * (high - low) + low


#: Makes the arguments of the calls: each a list, with the keywords as a dict behind them.
Build = Callable[[Maker], list[list[Any]]]


@dataclasses.dataclass(frozen=True)
class Built:
    """Calls of an overload; ``like`` is the operator whose tolerance holds, and whose dtypes a target has.

    ``stays`` are positions behind the first argument of tensors that stay on the host; ``draws`` is false if
    an overload that can draw random numbers does not in these calls.
    """

    like: str
    build: Build
    stays: frozenset[int] = frozenset()
    draws: bool = True


def samples(name: str, dtype: str, table: Mapping[str, Built] | None = None) -> list[Sample]:
    """Return the built calls of an overload whose first tensor has a dtype; none if they need another.

    ``table`` is :data:`BUILT`, or another one of this form.
    """
    built = (BUILT if table is None else table).get(name)
    if built is None:
        return []
    try:
        calls = built.build(Maker(name, dtype))
    except (RuntimeError, TypeError):
        return []
    found = []
    for index, call in enumerate(calls):
        kwargs = call[-1] if isinstance(call[-1], dict) else {}
        positional = call[:-1] if isinstance(call[-1], dict) else call
        sample = Sample(index, positional[0], tuple(positional[1:]), kwargs, stays=built.stays)
        tensors = sample.tensors()
        if tensors and tensors[0].dtype == dtype_of(dtype):
            found.append(sample)
    return found


def _pool(dimensions: int, *, into: bool = False) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        x = make.distinct(2, 3, *(6, 8, 7)[:dimensions])
        sizes = ([3, 4, 2][:dimensions], [1] * dimensions)
        if not into:
            return [[x, size] for size in sizes]
        op = getattr(torch.ops.aten, f"adaptive_max_pool{dimensions}d").default
        calls = []
        for size in sizes:
            pooled, indices = op(x, size)
            calls.append([make.values(*pooled.shape), x, indices])
        return calls

    return build


def _max_pool3d(*, into: bool) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        x = make.distinct(1, 2, 4, 6, 5)
        calls = []
        for options in (
            [[2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False],
            [[3, 2, 2], [1, 2, 1], [1, 1, 0], [1, 1, 2], True],
        ):
            if into:
                pooled, indices = torch.ops.aten.max_pool3d_with_indices.default(x, *options)
                calls.append([make.values(*pooled.shape), x, *options, indices])
            else:
                calls.append([x, *options])
        return calls

    return build


def _fused(name: str, *, tensor_lr: bool = False) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        def group(low: float = -1) -> list[torch.Tensor]:
            return [make.values(3, 4, low=low, high=1), make.values(5, low=low, high=1)]

        lr = torch.tensor(0.25) if tensor_lr else 0.25
        steps = [torch.tensor(3.0), torch.tensor(3.0)]
        calls = []
        for second in (False, True):
            decay = 0.125 if second else 0.0
            options: dict[str, Any] = {"grad_scale": None, "found_inf": None}
            if second:
                options = {"grad_scale": torch.tensor([2.0]), "found_inf": torch.tensor([0.0])}
            if name == "sgd":
                options |= {
                    "weight_decay": decay,
                    "momentum": 0.5,
                    "lr": lr,
                    "dampening": 0.25 if second else 0.0,
                    "nesterov": False,
                    "maximize": second,
                    "is_first_step": False,
                }
                calls.append([group(), group(), group(), options])
            elif name == "adagrad":
                options |= {
                    "lr": lr,
                    "lr_decay": decay,
                    "weight_decay": decay,
                    "eps": 1e-8,
                    "maximize": second,
                }
                calls.append([group(), group(), group(0), [s.clone() for s in steps], options])
            else:
                options |= {
                    "lr": lr,
                    "beta1": 0.75,
                    "beta2": 0.5,
                    "weight_decay": decay,
                    "eps": 1e-8,
                    "amsgrad": second,
                    "maximize": second,
                }
                largest = group(0) if second else []
                state = [group(), group(0), largest, [s.clone() for s in steps]]
                calls.append([group(), group(), *state, options])
        return calls

    return build


def _recurrent(gates: int, *, cells: bool = False, drawn: bool = False) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        def layer(size: int) -> list[torch.Tensor]:
            shapes = ((gates * 4, size), (gates * 4, 4), (gates * 4,), (gates * 4,))
            return [make.values(*shape, low=-1, high=1) for shape in shapes]

        def states(layers: int) -> Any:
            made = [make.values(layers, 3, 4, low=-1, high=1) for _ in range(1 + cells)]
            return made if cells else made[0]

        data, sizes = make.values(6, 3, low=-1, high=1), torch.tensor([3, 2, 1])
        params = layer(3)
        two = [data, sizes, states(2), [*params, *layer(4)], True, 2]
        if drawn:
            return [[*two, 0.5, True, False]]
        # Between the layers training drops everything: that is certain, and evaluation drops nothing.
        return [[data, sizes, states(1), params, True, 1, 0.0, False, False], [*two, 1.0, True, False]]

    return build


def _embedding_bag(make: Maker) -> list[list[Any]]:
    weight = make.values(5, 9)
    indices, offsets = torch.tensor([0, 2, 4, 1, 2]), torch.tensor([0, 2, 3])
    calls = []
    # Sums, means and largest; gradients that are scaled by frequency, and those of weighted samples, and
    # without one of the rows.
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


def _histogram(make: Maker) -> list[list[Any]]:
    return [
        [make.values(40), 5, {"weight": make.positive(40)}],
        [make.values(5, 8), 300, {"range": [-3.0, 3.0], "weight": make.positive(5, 8), "density": True}],
    ]


def _histogramdd(edges: bool) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        points, weight = make.values(40, 2), make.positive(40)
        bins = [torch.linspace(-4, 4, steps).to(make.dtype) for steps in (10, 32)]
        if edges:
            return [[points, bins], [points, bins, {"weight": weight}], [points, bins, {"density": True}]]
        options = {"range": [-3.0, 3.0, -4.0, 4.0], "weight": weight}
        return [[points, [9, 31]], [points, [9, 31], options], [points, [8, 4], {"density": True}]]

    return build


def _sobol(name: str) -> Build:
    def build(make: Maker) -> list[list[Any]]:
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

    return build


def _weight_norm(*, into: bool) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        calls = []
        for dim, shape in ((0, (4, 1)), (1, (1, 5))):
            v, g = make.values(4, 5), make.positive(*shape)
            if into:
                _, norms = torch.ops.aten._weight_norm_interface.default(v, g, dim)
                calls.append([make.values(4, 5), v, g, norms, dim])
            else:
                calls.append([v, g, dim])
        return calls

    return build


def _solved(make: Maker) -> list[list[Any]]:
    calls = []
    for upper in (False, True):
        factor = make.matrix(4, 4).roll(-1, -2)
        factor = factor.triu() if upper else factor.tril()
        calls.append([make.values(4, 2), factor, upper])
    return calls


def _bicubic(*, into: bool) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        # With factors of their own, which count only if corners are not aligned.
        options = ([False], [True], [False, 0.6, 0.9])
        if not into:
            return [[make.values(1, 2, 8, 6), [4, 5], *words] for words in options]
        return [[make.values(1, 2, 4, 5), [4, 5], [1, 2, 8, 6], *words] for words in options]

    return build


def _running(make: Maker) -> list[list[Any]]:
    calls = []
    for dim, shape in ((1, (4, 6)), (0, (5, 3)), (1, (2, 3, 2, 2))):
        x = make.distinct(*shape)
        calls.append([x, torch.zeros_like(x), torch.zeros(shape, dtype=torch.int64), dim])
    return calls


def _masked_softmax(*, into: bool) -> Build:
    def build(make: Maker) -> list[list[Any]]:
        x, mask = make.values(3, 5), torch.zeros(3, 5, dtype=torch.bool)
        mask[0, 2] = mask[1, 4] = mask[2, 0] = True
        if not into:
            return [[x, mask, 1, 2], [x, mask, 0, 2]]
        calls = []
        for dim in (1, 0):
            output = torch.ops.aten._masked_softmax.default(x, mask, dim, 2)
            calls.append([make.values(3, 5), output, mask, dim])
        return calls

    return build


def _out(make: Maker, *shape: int) -> dict[str, Any]:
    return {"out": torch.ones(shape, dtype=make.dtype)}


_UNIQUE = "unique"
_INTEGERS = "bitwise_left_shift"


#: The calls, by the overload's name.
BUILT: Mapping[str, Built] = {
    "topk": Built("topk", lambda m: [[m.distinct(5, 7), 3], [m.distinct(5, 7), 2, 0, False, True]]),
    "histc": Built(
        "histc",
        lambda m: [
            [m.centres(5, 7, low=-4, high=4), 8, -4, 4],
            [m.centres(3, 4, 5, low=-3, high=5), 6, -2, 4],
            [m.centres(40, low=0, high=100), 300, 0, 300],
        ],
    ),
    "histogram.bin_ct": Built("histogram", _histogram),
    "_histogramdd_from_bin_cts": Built("histogramdd", _histogramdd(edges=False)),
    "_histogramdd_from_bin_tensors": Built("histogramdd", _histogramdd(edges=True)),
    "nonzero_static": Built(
        "nonzero",
        lambda m: [
            [m.values(4, 6) * m.mask(4, 6), {"size": 9}],
            [m.values(3, 2, 5) * m.mask(3, 2, 5), {"size": 40, "fill_value": -3}],
        ],
    ),
    "kthvalue": Built("kthvalue", lambda m: [[m.distinct(5, 7), 2], [m.distinct(5, 7), 3, 0, True]]),
    "median": Built("median", lambda m: [[m.distinct(5, 7)]]),
    "nanmedian": Built("nanmedian", lambda m: [[m.distinct(5, 7)]]),
    "median.dim": Built("median", lambda m: [[m.distinct(5, 7), 1], [m.distinct(5, 7), 0, True]]),
    "mode": Built(
        "mode", lambda m: [[m.values(3, 1).repeat(1, 5), 1], [m.values(1, 4).repeat(3, 1), 0, True]]
    ),
    "sort.stable": Built(
        "sort",
        lambda m: [
            [m.distinct(5, 7), {"stable": True, "dim": 0, "descending": True}],
            [m.distinct(5, 7), {"stable": True}],
        ],
    ),
    "adaptive_max_pool2d": Built("nn.functional.adaptive_max_pool2d", _pool(2)),
    "adaptive_max_pool3d": Built("nn.functional.adaptive_max_pool3d", _pool(3)),
    "adaptive_max_pool2d_backward": Built("nn.functional.adaptive_max_pool2d", _pool(2, into=True)),
    "adaptive_max_pool3d_backward": Built("nn.functional.adaptive_max_pool3d", _pool(3, into=True)),
    "adaptive_avg_pool2d": Built(
        "nn.functional.adaptive_avg_pool2d",
        lambda m: [[m.values(2, 3, 6, 8), size] for size in ([3, 5], [1, 1])],
    ),
    "adaptive_avg_pool3d": Built(
        "nn.functional.adaptive_avg_pool3d",
        lambda m: [[m.values(2, 3, 6, 4, 5), size] for size in ([3, 3, 2], [1, 1, 1])],
    ),
    "adaptive_avg_pool3d_backward.grad_input": Built(
        "nn.functional.adaptive_avg_pool3d",
        lambda m: [
            [m.values(2, 3, 2, 2, 3), x, {"grad_input": torch.ones_like(x)}]
            for x in [m.values(2, 3, 4, 4, 5)]
        ],
    ),
    "max_pool3d_with_indices": Built("nn.functional.max_pool3d", _max_pool3d(into=False)),
    "max_pool3d_with_indices_backward": Built("nn.functional.max_pool3d", _max_pool3d(into=True)),
    "_unique2": Built(_UNIQUE, lambda m: [[m.values(4, 5), True, True, True], [m.values(4, 5)]]),
    "_unique": Built(_UNIQUE, lambda m: [[m.values(4, 5), True, True]]),
    "unique_dim": Built(_UNIQUE, lambda m: [[m.values(6, 1).repeat(1, 2), 0, True, True, True]]),
    "unique_consecutive": Built(
        "unique_consecutive",
        lambda m: [[m.values(4, 5).repeat_interleave(2, 1), True, True], [m.values(6, 1), True, True, 0]],
    ),
    "unique_dim_consecutive": Built(
        "unique_consecutive", lambda m: [[m.values(6, 2).repeat_interleave(2, 0), 0, True, True]]
    ),
    "__lshift__.Tensor": Built(_INTEGERS, lambda m: [[m.values(3, 5), m.values(3, 5, low=0, high=3)]]),
    "__lshift__.Scalar": Built(_INTEGERS, lambda m: [[m.values(3, 5), 2]]),
    "__rshift__.Tensor": Built(
        _INTEGERS, lambda m: [[m.values(3, 5, high=40), m.values(3, 5, low=0, high=3)]]
    ),
    "__rshift__.Scalar": Built(_INTEGERS, lambda m: [[m.values(3, 5, high=40), 2]]),
    "isin.Tensor_Scalar": Built(
        "isin", lambda m: [[m.values(4, 6), 2], [m.values(4, 6), 1, {"invert": True}]]
    ),
    "isin.Scalar_Tensor": Built(
        "isin",
        # The first one is found at the end: whoever reads other memory does not find it.
        lambda m: [[2, m.distinct(5).sort()[0]], [2, m.values(6)], [1, m.values(6), {"invert": True}]],
    ),
    "clamp_max": Built("clamp", lambda m: [[m.values(3, 5), 1]]),
    "remainder.Scalar_Tensor": Built("remainder", lambda m: [[7, m.positive(3, 5)]]),
    "bucketize.Scalar": Built(
        "bucketize",
        lambda m: [
            [2, m.distinct(8).sort().values],
            [1, m.distinct(8).sort().values, {"out_int32": True, "right": True}],
        ],
    ),
    "fill.Tensor": Built("fill", lambda m: [[m.values(3, 5), m.values(1).reshape(())]]),
    "conj_physical": Built("conj_physical", lambda m: [[m.values(3, 5)]]),
    "equal": Built(
        "equal", lambda m: [[x, x.clone()] for x in [m.values(3, 5)]] + [[m.values(3, 5), m.values(3, 5)]]
    ),
    "linalg_lu": Built("linalg.lu", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "linalg_lu_factor_ex": Built("linalg.lu_factor_ex", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "_cholesky_solve_helper": Built("cholesky_solve", _solved),
    "linalg__powsum": Built(
        "linalg.vector_norm", lambda m: [[m.values(3, 5), 2, [1]], [m.values(3, 5), 3, [0], True]]
    ),
    "norm.ScalarOpt_dim_dtype": Built(
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
    "_weight_norm_interface": Built("linalg.vector_norm", _weight_norm(into=False)),
    "_weight_norm_interface_backward": Built("linalg.vector_norm", _weight_norm(into=True)),
    "_standard_gamma_grad": Built("igammac", lambda m: [[m.positive(3, 5), m.positive(3, 5)]]),
    "_dirichlet_grad": Built(
        "igammac", lambda m: [[m.values(4, 3, low=0.1, high=0.9), m.positive(4, 3), m.positive(4, 3) + 4]]
    ),
    "fake_quantize_per_tensor_affine_cachemask": Built(
        "mul", lambda m: [[m.values(3, 5, low=-9, high=9), 0.25, 3, 0, 31]]
    ),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": Built(
        "mul",
        lambda m: [
            [x, torch.tensor([0.25]), torch.tensor([3], dtype=torch.int32), torch.tensor([1]), 0, 31]
            for x in [m.values(3, 5, low=-9, high=9)]
        ],
    ),
    "fake_quantize_per_channel_affine_cachemask": Built(
        "mul",
        lambda m: [
            [x, torch.tensor([0.25, 0.5, 1.0]), torch.tensor([3, 0, 9], dtype=torch.int32), 0, 0, 31]
            for x in [m.values(3, 5, low=-9, high=9)]
        ],
    ),
    "_amp_update_scale_": Built(
        "mul",
        lambda m: [
            [m.positive(1), torch.tensor([steps], dtype=torch.int32), torch.tensor([found]), 2.0, 0.5, 3]
            for steps, found in ((2, 0.0), (0, 0.0), (1, 1.0))
        ],
    ),
    "_amp_foreach_non_finite_check_and_unscale_": Built(
        "mul",
        lambda m: [
            [[m.values(3, 4), m.values(5)], torch.tensor([0.0]), torch.tensor([0.5])],
            [[torch.full((3,), float("inf"), dtype=m.dtype)], torch.tensor([0.0]), torch.tensor([0.5])],
        ],
    ),
    "_fused_adagrad_": Built("add", _fused("adagrad")),
    "_fused_adagrad_.tensor_lr": Built("add", _fused("adagrad", tensor_lr=True)),
    "_fused_adam_": Built("add", _fused("adam")),
    "_fused_adam_.tensor_lr": Built("add", _fused("adam", tensor_lr=True)),
    "_fused_adamw_": Built("add", _fused("adamw")),
    "_fused_adamw_.tensor_lr": Built("add", _fused("adamw", tensor_lr=True)),
    "_fused_sgd_": Built("add", _fused("sgd")),
    "_fused_sgd_.tensor_lr": Built("add", _fused("sgd", tensor_lr=True)),
    "unfold_backward": Built(
        "add", lambda m: [[m.values(3, 2, 3), [7, 2], 0, 3, 2], [m.values(4, 3, 2), [4, 4], 1, 2, 1]]
    ),
    "_convolution": Built(
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
    "group_norm": Built(
        "nn.functional.group_norm",
        lambda m: [[m.values(2, 6, 4), 3, m.values(6), m.values(6)], [m.values(2, 6, 4), 2, None, None, 0.5]],
    ),
    "_functional_assert_async.msg": Built("clone", lambda m: [[m.positive(1), "no", m.values(3)]]),
    "_masked_softmax": Built("softmax", _masked_softmax(into=False)),
    "_masked_softmax_backward": Built("softmax", _masked_softmax(into=True)),
    "_upsample_bicubic2d_aa": Built("nn.functional.interpolate.bicubic", _bicubic(into=False)),
    "_upsample_bicubic2d_aa_backward": Built("nn.functional.interpolate.bicubic", _bicubic(into=True)),
    "_embedding_bag_dense_backward": Built("nn.functional.embedding_bag", _embedding_bag),
    "_sobol_engine_initialize_state_": Built("add", _sobol("initialize")),
    "_sobol_engine_scramble_": Built("add", _sobol("scramble")),
    "_sobol_engine_ff_": Built("add", _sobol("ff")),
    "_sobol_engine_draw": Built("add", _sobol("draw")),
    "rnn_tanh.data": Built("addmm", _recurrent(1), frozenset({0}), draws=False),
    "rnn_relu.data": Built("addmm", _recurrent(1), frozenset({0}), draws=False),
    "gru.data": Built("addmm", _recurrent(3), frozenset({0}), draws=False),
    "lstm.data": Built("addmm", _recurrent(4, cells=True), frozenset({0}), draws=False),
    "native_channel_shuffle": Built("nn.functional.channel_shuffle", lambda m: [[m.values(1, 6, 2, 2), 3]]),
    "_cummax_helper": Built("cummax", _running),
    "_cummin_helper": Built("cummin", _running),
    "_stack": Built("stack", lambda m: [[[m.values(3, 2), m.values(3, 2)], 0], [[m.values(3, 2)] * 2, -1]]),
    "glu_jvp": Built(
        "nn.functional.glu",
        lambda m: [[torch.ops.aten.glu.default(x, 1), x, m.values(3, 4), 1] for x in [m.values(3, 4)]],
    ),
    "glu_backward_jvp": Built(
        "nn.functional.glu",
        lambda m: [[m.values(3, 4), m.values(3, 2), m.values(3, 4), m.values(3, 2), m.values(3, 4), 1]],
    ),
    "eye.m_out": Built("eye", lambda m: [[4, 3, _out(m, 4, 3)]]),
    "eye.out": Built("eye", lambda m: [[4, _out(m, 4, 4)]]),
    "linspace.out": Built("linspace", lambda m: [[0, 8, 9, _out(m, 9)], [-3, 5, 33, _out(m, 33)]]),
    "logspace.out": Built("logspace", lambda m: [[0, 3, 4, _out(m, 4)], [0, 6, 19, 2.0, _out(m, 19)]]),
    "arange.start_out": Built("arange", lambda m: [[2, 9, _out(m, 7)], [5, 60, 3, _out(m, 19)]]),
    "range.out": Built("arange", lambda m: [[3, 60, 3, _out(m, 20)], [2, 8, _out(m, 7)]]),
    "_linalg_eigh": Built("linalg.eigh", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3), "L", False]]),
    "_linalg_svd": Built(
        "linalg.svd", lambda m: [[m.matrix(4, 4)], [m.values(2, 3, 5), True], [m.values(3, 5), False, False]]
    ),
    "linalg_qr": Built("linalg.qr", lambda m: [[m.values(4, 3)], [m.values(2, 3, 4), "complete"]]),
    "geqrf": Built("geqrf", lambda m: [[m.values(4, 3)], [m.values(2, 3, 3)]]),
    "linalg_eig": Built("linalg.eig", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "_linalg_eigvals": Built("linalg.eigvals", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "linalg_eigvals": Built("linalg.eigvals", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "linalg_ldl_factor_ex": Built("linalg.ldl_factor_ex", lambda m: [[m.matrix(4, 4)], [m.matrix(2, 3, 3)]]),
    "normal.float_Tensor": Built("normal", lambda m: [[1.0, m.positive(4, 9)]]),
    "poisson": Built("normal", lambda m: [[m.positive(4, 9) * 64]]),
    "binomial": Built(
        "normal",
        lambda m: [[torch.full((4, 9), 400.0, dtype=m.dtype), torch.full((4, 9), 0.5, dtype=m.dtype)]],
    ),
    "_standard_gamma": Built("normal", lambda m: [[m.positive(4, 9)]]),
    "_sample_dirichlet": Built("normal", lambda m: [[m.positive(4, 9)]]),
    "bernoulli.Tensor": Built("fill", lambda m: [[m.values(4, 40), torch.full((4, 40), 0.5)]]),
    "random": Built("fill", lambda m: [[m.values(4, 9)]]),
    "random.to": Built("fill", lambda m: [[m.values(4, 40), 100]]),
    "random.from": Built("fill", lambda m: [[m.values(4, 40), 3, 100]]),
}


def _one_of_each(make: Maker, rows: int, columns: int) -> torch.Tensor:
    """Weights that leave one choice in each row."""
    chosen = torch.arange(rows) * 5 % columns
    return torch.nn.functional.one_hot(chosen, columns).to(make.dtype)


#: Calls that draw random numbers, of overloads whose other calls have a certain result.
DRAWN: Mapping[str, Built] = {
    "rnn_tanh.data": Built("addmm", _recurrent(1, drawn=True), frozenset({0})),
    "rnn_relu.data": Built("addmm", _recurrent(1, drawn=True), frozenset({0})),
    "gru.data": Built("addmm", _recurrent(3, drawn=True), frozenset({0})),
    "lstm.data": Built("addmm", _recurrent(4, cells=True, drawn=True), frozenset({0})),
}

#: Calls of overloads that draw random numbers, with arguments for which there is one result only.
CERTAIN: Mapping[str, Built] = {
    "normal.Tensor_Tensor": Built("normal", lambda m: [[m.values(4, 9), torch.zeros(4, 9, dtype=m.dtype)]]),
    "normal.Tensor_float": Built("normal", lambda m: [[m.values(4, 9), 0.0]]),
    "normal.float_Tensor": Built("normal", lambda m: [[1.5, torch.zeros(4, 9, dtype=m.dtype)]]),
    "bernoulli": Built("bernoulli", lambda m: [[m.mask(4, 9).to(m.dtype)]]),
    "bernoulli.Tensor": Built("fill", lambda m: [[m.values(4, 9), m.mask(4, 9).float()]]),
    "poisson": Built("normal", lambda m: [[torch.zeros(4, 9, dtype=m.dtype)]]),
    "binomial": Built("normal", lambda m: [[m.distinct(4, 9).abs(), m.mask(4, 9).to(m.dtype)]]),
    "multinomial": Built("multinomial", lambda m: [[_one_of_each(m, 4, 9), 1]]),
    "uniform": Built("uniform", lambda m: [[m.values(4, 9), 2.0, 2.0]]),
    "geometric": Built("geometric", lambda m: [[m.values(4, 9), 1.0]]),
    "random.to": Built("fill", lambda m: [[m.values(4, 9), 1]]),
    "random.from": Built("fill", lambda m: [[m.values(4, 9), 3, 4]]),
    "rrelu_with_noise": Built(
        "nn.functional.rrelu",
        lambda m: [
            [m.values(4, 9), torch.zeros(4, 9, dtype=m.dtype), 0.25, 0.25, True],
            [m.values(4, 9), torch.zeros(4, 9, dtype=m.dtype), 0.125, 0.375, False],
        ],
    ),
    "native_dropout": Built("nn.functional.dropout", lambda m: [[m.values(4, 9), 0.0, True]]),
}
