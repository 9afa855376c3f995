"""Behaviours of operators while ``torch.use_deterministic_algorithms`` is enabled."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab

Call = Callable[[], torch.Tensor]


@contextlib.contextmanager
def deterministic_algorithms(*, warn_only: bool = False, fill: bool = False) -> Iterator[None]:
    """Enable deterministic algorithms inside the context. ``fill`` is the value of the setting
    ``fill_uninitialized_memory``.
    """
    before = torch.get_deterministic_debug_mode()
    switch: Any = torch.utils.deterministic
    filled = switch.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True, warn_only=warn_only)
        switch.fill_uninitialized_memory = fill
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        switch.fill_uninitialized_memory = filled


def expect_repeatable_or_refused(
    lab: Lab, name: str, call: Call, *, roundings: float = 64, parity_ground: str = ""
) -> None:
    """Expect that ``call`` returns the same bits each time, or raises the error for operators that are not
    deterministic. Record the result.

    If the call raises this error, the call is repeated with ``warn_only``. The repeated call must warn and
    return the result. If ``parity_ground`` is passed, the values of the result have basis parity on this
    ground.
    """
    try:
        with deterministic_algorithms():
            results = [call() for _ in range(3)]
        same = all(torch.equal(results[0], result) for result in results[1:])
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        with deterministic_algorithms(warn_only=True), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = [call()]
        same = any("deterministic" in str(warning.message) for warning in caught)
    lab.holds(f"{name} repeats its bits or is reported as nondeterministic", same)
    with lab.parity(parity_ground) if parity_ground else contextlib.nullcontext():
        lab.close(name, results[0], roundings=roundings)


def gradient_function(call: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor) -> Call:
    """Return a function without arguments that returns a gradient at ``start``. The differentiated function
    is a weighted sum of the elements of ``call(start)``.
    """

    def gradient_of_weighted_sum() -> torch.Tensor:
        leaf = start.detach().clone().requires_grad_()
        result = call(leaf)
        weights = torch.arange(1, result.numel() + 1, device=result.device).remainder(7).view_as(result)
        (result * weights).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    return gradient_of_weighted_sum


@behaviour("determinism", capabilities=("autograd",), must_detect=("value",))
def deterministic_pooling(lab: Lab) -> None:
    """While deterministic algorithms are enabled, gradients of pooling and unpooling repeat bit for bit or
    are refused.
    """
    plane, cube, line = lab.floats(2, 3, 9, 9), lab.floats(2, 3, 6, 6, 6), lab.floats(2, 3, 12)
    calls: dict[str, tuple[Any, torch.Tensor]] = {
        "avg_pool3d": (lambda x: F.avg_pool3d(x, 3, 2), cube),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 4), plane),
        "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 4), cube),
        "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2), cube),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2), plane),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 4), plane),
        "fractional_max_pool2d": (
            lambda x: F.fractional_max_pool2d(x, 2, 4, _random_samples=fractional_pooling_samples(2)),
            plane,
        ),
        "fractional_max_pool3d": (
            lambda x: F.fractional_max_pool3d(x, 2, 3, _random_samples=fractional_pooling_samples(3)),
            cube,
        ),
    }

    def fractional_pooling_samples(dims: int) -> torch.Tensor:
        return torch.full((2, 3, dims), 0.25, device=lab.device)

    for name, (call, input_tensor) in calls.items():
        expect_repeatable_or_refused(
            lab,
            f"the gradient of {name}",
            gradient_function(call, input_tensor),
            parity_ground="No page says which regions random samples select" if "fractional" in name else "",
        )
    for dims, input_tensor in ((1, line), (2, plane), (3, cube)):
        pool, unpool = getattr(F, f"max_pool{dims}d"), getattr(F, f"max_unpool{dims}d")
        values, indices = pool(input_tensor, 3, 3, return_indices=True)
        lab.same(f"places of max_pool{dims}d", indices)
        expect_repeatable_or_refused(lab, f"max_unpool{dims}d", lambda: unpool(values, indices, 3, 3))


@behaviour("determinism", capabilities=("autograd",), must_detect=("value",))
def deterministic_padding_and_sampling(lab: Lab) -> None:
    """While deterministic algorithms are enabled, gradients of padding, interpolation and ``grid_sample``
    repeat bit for bit or are refused.
    """
    line, plane, cube = lab.floats(2, 3, 6), lab.floats(1, 2, 5, 6), lab.floats(1, 2, 4, 4, 4)
    for mode in ("reflect", "replicate"):
        for name, input_tensor, pads in (
            ("1d", line, (2, 3)),
            ("2d", plane, (2, 1, 1, 3)),
            ("3d", cube, (1, 1, 2, 1, 1, 2)),
        ):
            expect_repeatable_or_refused(
                lab,
                f"{mode} padding {name}",
                gradient_function(lambda x: F.pad(x, pads, mode=mode), input_tensor),
            )
    for mode, input_tensor in (
        ("linear", line),
        ("bilinear", plane),
        ("bicubic", plane),
        ("trilinear", cube),
        ("nearest", plane),
    ):
        for corners in (False, True):
            if mode == "nearest" and corners:
                continue
            options: dict[str, Any] = {} if mode == "nearest" else {"align_corners": corners}
            call = gradient_function(
                lambda x: F.interpolate(x, scale_factor=2, mode=mode, **options), input_tensor
            )
            expect_repeatable_or_refused(
                lab,
                f"{mode} interpolation, corners {corners}",
                call,
                parity_ground="No page gives the coefficients of bicubic interpolation"
                if mode == "bicubic"
                else "",
            )
    flat = lab.floats(1, 3, 3, 2, low=-0.9, high=0.9)
    deep = lab.floats(1, 2, 3, 3, 3, low=-0.9, high=0.9)
    expect_repeatable_or_refused(
        lab,
        "grid_sample of a plane",
        gradient_function(lambda x: F.grid_sample(x, flat, align_corners=False), plane),
        roundings=256,
    )
    expect_repeatable_or_refused(
        lab,
        "grid_sample of a cube",
        gradient_function(lambda x: F.grid_sample(x, deep, align_corners=False), cube),
        roundings=256,
    )


@behaviour("determinism", capabilities=("autograd",), must_detect=("value",))
def deterministic_losses(lab: Lab) -> None:
    """While deterministic algorithms are enabled, losses and embeddings over repeated classes repeat bit for
    bit or are refused.
    """
    scores = torch.log_softmax(lab.floats(2, 3, 4, 4), 1)
    classes = lab.integers(2, 4, 4, low=0, high=3, dtype=torch.int64)
    expect_repeatable_or_refused(lab, "nll_loss of planes", lambda: F.nll_loss(scores, classes))
    expect_repeatable_or_refused(
        lab, "its gradient", gradient_function(lambda x: F.nll_loss(x, classes), scores)
    )
    steps = lab.floats(10, 2, 5)
    targets = lab.integers(2, 3, low=1, high=5, dtype=torch.int64)
    lengths, target_lengths = torch.tensor([10, 8]), torch.tensor([3, 2])
    expect_repeatable_or_refused(
        lab,
        "the gradient of ctc_loss",
        # The gradient is taken before log_softmax, because torch's own derivative of ctc_loss is correct only
        # for an input from log_softmax.
        gradient_function(
            lambda x: F.ctc_loss(torch.log_softmax(x, 2), targets, lengths, target_lengths), steps
        ),
        roundings=1024,
    )
    table = lab.floats(5, 4)
    tokens = lab.integers(12, low=0, high=5, dtype=torch.int64)
    offsets = lab.put([0, 4, 8])
    for mode in ("sum", "mean", "max"):
        expect_repeatable_or_refused(
            lab,
            f"embedding_bag by {mode}",
            gradient_function(lambda x: F.embedding_bag(tokens, x, offsets, mode=mode), table),
        )
    expect_repeatable_or_refused(lab, "embedding", gradient_function(lambda x: F.embedding(tokens, x), table))


@behaviour("determinism", level="core", dtypes=("float32", "float64"), must_detect=("value",))
def deterministic_sums_by_index(lab: Lab) -> None:
    """While deterministic algorithms are enabled, sums over repeated indices repeat bit for bit or are
    refused.
    """
    values = lab.floats(200)
    indices = lab.integers(200, low=0, high=7, dtype=torch.int64)
    base = torch.zeros(7, dtype=lab.dtype, device=lab.device)
    calls: dict[str, Call] = {
        "index_add": lambda: base.index_add(0, indices, values),
        "scatter_add": lambda: base.scatter_add(0, indices, values),
        "scatter_reduce": lambda: base.scatter_reduce(0, indices, values, "sum"),
        "index_put": lambda: base.index_put((indices,), values, accumulate=True),
        "put_": lambda: base.clone().put_(indices, values, accumulate=True),
        "bincount": lambda: torch.bincount(indices, values, minlength=7),
        "cumsum": lambda: values.cumsum(0),
        "cumsum of a plane": lambda: values.view(20, 10).cumsum(0),
    }
    for name, call in calls.items():
        expect_repeatable_or_refused(lab, name, call, roundings=2048)
    rows = lab.integers(4, 5)
    expect_repeatable_or_refused(
        lab,
        "the gradient of gather",
        gradient_function(lambda x: x.gather(0, indices[:5].clamp(max=3).view(1, 5)), rows),
    )
    line = lab.integers(7)
    expect_repeatable_or_refused(
        lab,
        "the gradient of gather in one dimension",
        gradient_function(lambda x: x.gather(0, indices), line),
        roundings=0,
    )
    expect_repeatable_or_refused(
        lab, "the gradient of an index", gradient_function(lambda x: x[indices], line), roundings=0
    )
    expect_repeatable_or_refused(
        lab,
        "the gradient of index_select",
        gradient_function(lambda x: x.index_select(0, indices), line),
        roundings=0,
    )
    expect_repeatable_or_refused(
        lab,
        "the gradient of repeat_interleave",
        gradient_function(lambda x: x.repeat_interleave(lab.put([2, 0, 1, 3, 1, 1, 2])), line),
    )
    expect_repeatable_or_refused(
        lab, "the gradient of take", gradient_function(lambda x: x.take(indices), line), roundings=0
    )


@behaviour("determinism", must_detect=("value",))
def deterministic_orders_and_counts(lab: Lab) -> None:
    """While deterministic algorithms are enabled, medians, kth values, histograms and writes repeat bit for
    bit or are refused.
    """
    values = lab.permutation(60).to(lab.dtype).view(6, 10)
    calls: dict[str, Call] = {
        "kthvalue": lambda: values.kthvalue(3, 1).values,
        "places of kthvalue": lambda: values.kthvalue(3, 1).indices,
        "median": lambda: values.median(),
        "median along one": lambda: values.median(1).values,
        "places of median": lambda: values.median(1).indices,
        "histc": lambda: torch.histc(values, 6, 0, 60),
        "bincount": lambda: torch.bincount(values.long().view(-1) % 5),
        "put_": lambda: values.clone().put_(lab.put([0, 1, 2]), torch.ones(3, device=lab.device)),
        "index_copy": lambda: values.index_copy(0, lab.put([4, 2]), values[:2]),
        "scatter": lambda: values.scatter(0, lab.put([[0] * 10]), values[1:2]),
        "sort": lambda: values.sort(1).values,
        "matmul": lambda: values @ values.t(),
    }
    for name, call in calls.items():
        expect_repeatable_or_refused(lab, name, call, roundings=0 if name != "matmul" else 64)
    matrix = lab.floats(30, 40)
    expect_repeatable_or_refused(lab, "a product", lambda: matrix @ matrix.t(), roundings=64)
    expect_repeatable_or_refused(lab, "a sum", lambda: matrix.sum().reshape(1), roundings=64)


@behaviour(
    "determinism",
    level="core",
    dtypes=ALL,
    must_detect=("value",),
    page="deterministic.html",
)
def deterministic_empty_memory(lab: Lab) -> None:
    """While deterministic algorithms and ``fill_uninitialized_memory`` are enabled, uninitialized memory
    contains NaN or the largest integer.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    base = torch.zeros(2, 3, **where)
    with deterministic_algorithms(fill=True):
        filled = {
            "empty": torch.empty(2, 3, **where),
            "empty_like": torch.empty_like(base),
            "empty_strided": torch.empty_strided((2, 3), (1, 2), **where),
            "empty_permuted": torch.empty_permuted((2, 3), (1, 0), **where),
            "new_empty": base.new_empty(2),
            "resized": torch.zeros(2, **where).resize_(5),
            "of nothing": torch.empty(0, **where),
        }
    for name, tensor in filled.items():
        listed = name != "new_empty" and lab.dtype != torch.bool
        with (
            contextlib.nullcontext()
            if listed
            else lab.parity("The page does not list new_empty, and gives no value for bool")
        ):
            lab.same(name, tensor + torch.zeros_like(tensor))
    with deterministic_algorithms(fill=False):
        lab.same("the shape without filling", torch.empty(2, 3, **where).shape)
        lab.same("a sum of filled tensors", torch.zeros(2, **where) + torch.ones(2, **where))


@behaviour(
    "determinism",
    level="core",
    must_detect=("value",),
    page="generated/torch.set_deterministic_debug_mode.html",
)
def deterministic_switch(lab: Lab) -> None:
    """The setting for deterministic algorithms has three values: default, warn and error. Every getter
    reports the setting. The setting does not change the results of a deterministic operator.
    """
    before = torch.get_deterministic_debug_mode()
    base = lab.floats(4, 4)
    sum_before = base + base
    for setting, name in ((0, "default"), (1, "warn"), (2, "error")):
        try:
            torch.set_deterministic_debug_mode(name)
            lab.same(
                f"the settings under {name}",
                [
                    torch.get_deterministic_debug_mode(),
                    torch.are_deterministic_algorithms_enabled(),
                    torch.is_deterministic_algorithms_warn_only_enabled(),
                ],
            )
            lab.expect(f"the number of {name}", torch.get_deterministic_debug_mode(), setting)
            lab.same(f"a sum under {name}", base + base)
        finally:
            torch.set_deterministic_debug_mode(before)
    lab.same("a sum before", sum_before)
    with lab.parity("The page lists the modes, and does not say that an unknown mode is refused"):
        lab.raises(
            "an unknown debug mode",
            lambda: torch.set_deterministic_debug_mode("nosuch"),
            RuntimeError,
            match="debug_mode",
        )
    with lab.parity("The page says that mode is a bool, and does not say that a number is refused"):
        lab.raises("a number as the mode", lambda: torch.use_deterministic_algorithms(3), TypeError)  # type: ignore[arg-type]
