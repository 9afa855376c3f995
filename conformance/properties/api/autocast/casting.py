"""Behaviours of autocast: the dtypes in which operators run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: The dtypes to which autocast can lower float32.
LOWER = (torch.bfloat16, torch.float16)
#: Losses and distances that are missing in some of the documentation's lists for CPU, CUDA and XPU.
_NOT_IN_ALL_LISTS = ("mse_loss", "smooth_l1_loss", "multi_margin_loss", "cdist")

Calls = dict[str, Callable[[], torch.Tensor]]


def _calls_in_lower_precision(lab: Lab) -> Calls:
    """Return calls of operators that autocast runs in the lower dtype, by name.

    These operators are in the documentation's lists for CPU, CUDA and XPU.
    """
    square, second = lab.integers(4, 4), lab.integers(4, 4)
    batch, more = lab.integers(2, 4, 4), lab.integers(2, 4, 4)
    line, plane, block = lab.integers(1, 2, 5), lab.integers(1, 2, 5, 5), lab.integers(1, 2, 3, 3, 3)
    kernels = [lab.integers(2, 2, *([2] * n)) for n in (1, 2, 3)]
    return {
        "mm": lambda: torch.mm(square, second),
        "matmul": lambda: torch.matmul(batch, square),
        "bmm": lambda: torch.bmm(batch, more),
        "addmm": lambda: torch.addmm(square, square, second),
        "baddbmm": lambda: torch.baddbmm(batch, batch, more),
        "addbmm": lambda: torch.addbmm(square, batch, more),
        "linear": lambda: F.linear(square, second),
        "conv1d": lambda: F.conv1d(line, kernels[0]),
        "conv2d": lambda: F.conv2d(plane, kernels[1]),
        "conv3d": lambda: F.conv3d(block, kernels[2]),
        "conv_transpose1d": lambda: F.conv_transpose1d(line, kernels[0]),
        "conv_transpose2d": lambda: F.conv_transpose2d(plane, kernels[1]),
        "conv_transpose3d": lambda: F.conv_transpose3d(block, kernels[2]),
        "method": lambda: square @ second,
    }


def _calls_in_float32(lab: Lab) -> Calls:
    """Return calls of losses and distances that autocast runs in float32, by name.

    All of these operators except ``_NOT_IN_ALL_LISTS`` are in the documentation's lists for CPU, CUDA and
    XPU.
    """
    prediction, aim = lab.integers(3, 4), lab.integers(3, 4)
    lower = [t.to(torch.bfloat16) for t in (prediction, aim)]
    signs = torch.ones(3, 4, device=lab.device)
    classes = lab.put([0, 1, 3])
    return {
        "nll_loss": lambda: F.nll_loss(lower[0], classes),
        "kl_div": lambda: F.kl_div(lower[0], lower[1], reduction="sum"),
        "poisson_nll_loss": lambda: F.poisson_nll_loss(lower[0] * 0, lower[1]),
        "hinge_embedding_loss": lambda: F.hinge_embedding_loss(lower[0], signs),
        "margin_ranking_loss": lambda: F.margin_ranking_loss(lower[0], lower[1], signs),
        "mse_loss": lambda: F.mse_loss(lower[0], lower[1]),
        "smooth_l1_loss": lambda: F.smooth_l1_loss(lower[0], lower[1]),
        "multi_margin_loss": lambda: F.multi_margin_loss(lower[0], classes),
        "cdist": lambda: torch.cdist(lower[0], lower[1]),
    }


@behaviour(
    "autocast",
    level="training",
    must_detect=("value",),
    ground=(
        "The CPU, CUDA and XPU lists have all of them; the backend page names convolutions and linear layers"
    ),
)
def autocast_lowers_products(lab: Lab) -> None:
    """Under autocast, matrix products and convolutions of float32 tensors run in the lower dtype. Outside of
    autocast they run in float32.
    """
    kind = lab.device.type
    for dtype in LOWER:
        for name, call in _calls_in_lower_precision(lab).items():
            with torch.autocast(kind, dtype=dtype):
                result = call()
            lab.same(f"dtype of {name} under {dtype}", result.dtype)
            lab.holds(f"{name} is lowered to {dtype}", result.dtype == dtype)
            lab.close(
                f"value of {name} under {dtype}", result.float(), roundings=16, dtype=dtype, matrix=True
            )
    for name, call in _calls_in_lower_precision(lab).items():
        lab.close(f"{name} outside", call(), roundings=32, matrix=True)


@behaviour(
    "autocast",
    level="training",
    must_detect=("value",),
    ground="The lists for CPU, CUDA and XPU agree on most of them; the backend page names losses",
)
def autocast_keeps_losses(lab: Lab) -> None:
    """Under autocast, losses and distances of bfloat16 tensors are computed in float32."""
    kind = lab.device.type
    for name, call in _calls_in_float32(lab).items():
        unlisted = lab.parity("The lists for CPU, CUDA and XPU do not agree on this operator")
        with unlisted if name in _NOT_IN_ALL_LISTS else contextlib.nullcontext():
            with torch.autocast(kind, dtype=torch.bfloat16):
                result = call()
            lab.holds(f"{name} is float32", result.dtype == torch.float32)
            lab.close(f"value of {name}", result, roundings=1024)


@behaviour("autocast", level="training", must_detect=("value",))
def autocast_promotes(lab: Lab) -> None:
    """Under autocast, operators whose inputs must have one dtype (such as ``cat``) convert their inputs to
    the widest input dtype. Other operators follow ordinary type promotion.
    """
    kind = lab.device.type
    for dtype in LOWER:
        wide, narrow = lab.integers(3, 4), lab.integers(3, 4, dtype=dtype)
        with torch.autocast(kind, dtype=dtype):
            results = {
                "cat": torch.cat((wide, narrow)),
                "cat of lower": torch.cat((narrow, narrow)),
                "stack": torch.stack((wide, narrow)),
                "stack, the other way": torch.stack((narrow, wide)),
                "add": wide + narrow,
                "add of lower": narrow + narrow,
                "relu": narrow.relu(),
                "neg": -wide,
                "comparison": wide > narrow,
                "view": narrow.t(),
                "integers": torch.ones(2, dtype=torch.int64, device=lab.device) * 2,
            }
        lab.same(f"under {dtype}", results)
    with torch.autocast(kind, dtype=torch.bfloat16):
        doubles = lab.integers(3, 3, dtype=torch.float64)
        lab.same("float64 is not lowered", doubles @ doubles)
        whole = lab.integers(3, 3, dtype=torch.int64)
        lab.same("integers are not converted", [whole * whole, whole.cumsum(0), whole.sum()])
        lab.same("an in-place sum keeps its dtype", wide.add_(lab.integers(3, 4, dtype=torch.bfloat16)))
        out = torch.empty(3, 3, device=lab.device)
        first_factor, second_factor = lab.integers(3, 3), lab.integers(3, 3)
        lab.same("out= is not cast", torch.mm(first_factor, second_factor, out=out).dtype)


@behaviour("autocast", level="training", must_detect=("value",))
def autocast_methods_and_nesting(lab: Lab) -> None:
    """``autocast`` contexts can be nested, disabled and used as decorators. ``is_autocast_enabled`` and
    ``get_autocast_dtype`` report the current setting.
    """
    kind = lab.device.type
    x = lab.integers(3, 3)
    states: list[Any] = [torch.is_autocast_enabled(kind)]

    def record_state() -> None:
        states.append((torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind)), (x @ x).dtype))

    with torch.autocast(kind, dtype=torch.bfloat16):
        record_state()
        with torch.autocast(kind, enabled=False):
            states.append((torch.is_autocast_enabled(kind), (x @ x).dtype))
        with torch.autocast(kind, dtype=torch.float16):
            record_state()
        record_state()
        product = x @ x
        with torch.autocast(kind, enabled=False):
            states.append((product @ product).dtype)
            with lab.parity("The page says that mixed dtypes may cause an error, not that they must"):
                lab.raises("mixed dtypes while autocast is disabled", lambda: product @ x)
    states.append(torch.is_autocast_enabled(kind))
    try:
        with torch.autocast(kind, dtype=torch.bfloat16):
            raise KeyError
    except KeyError:
        states.append(torch.is_autocast_enabled(kind))

    @torch.autocast(kind, dtype=torch.bfloat16)  # type: ignore[untyped-decorator]
    def multiply_under_autocast(t: torch.Tensor) -> torch.Tensor:
        return t @ t

    states += [multiply_under_autocast(x).dtype, (x @ x).dtype]
    lab.same("seen", states)
    lab.same("product", product)


@behaviour(
    "autocast",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    ground="The engine casts gradients to the dtype of the leaf (docstring of Tensor.grad_dtype)",
)
def autocast_and_backward(lab: Lab) -> None:
    """Gradients of operators that ran under autocast have the dtype of the leaf, also when a weight is used
    twice.
    """
    kind = lab.device.type
    for dtype in LOWER:
        weight, x = lab.integers(4, 4, requires_grad=True), lab.integers(2, 4)
        with torch.autocast(kind, dtype=dtype):
            out = (x @ weight) @ weight
            loss = out.float().sum()
        loss.backward()
        lab.same(f"dtype of the result under {dtype}", out.dtype)
        lab.same(f"gradient under {dtype}", weight.grad)
        weight.grad = None
        with torch.autocast(kind, dtype=dtype):
            first = (x @ weight).float().sum()
        with torch.no_grad():
            weight.add_(1)
        with torch.autocast(kind, dtype=dtype):
            second = x @ weight
        lab.same(f"a product with a changed weight under {dtype}", second.detach())
        first.backward()
        lab.same(f"gradient of the first product under {dtype}", weight.grad)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).view_as(parameter) % 5 - 2 + index)
    model = lab.to(model)
    with torch.autocast(kind, dtype=torch.bfloat16):
        out = model(lab.integers(3, 4))
    out.float().sum().backward()
    lab.same("a module's result", out.dtype)
    lab.same("a module's gradients are float32", [p.grad.dtype for p in model.parameters()])  # type: ignore[union-attr]
    lab.close(
        "a module's gradients", [p.grad for p in model.parameters()], roundings=64, dtype=torch.bfloat16
    )
