"""Behaviours of gradients across devices, dtypes and Python numbers, and of gradients at special points."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    level="training",
    must_detect=("value",),
    ground="gradients follow from the chain rule; a copy between devices is an operation of the graph",
)
def gradients_across_devices(lab: Lab) -> None:
    """The gradient of a leaf is on the device of the leaf, also if the forward moves tensors between host and
    device several times.
    """
    x = lab.integers(3, requires_grad=True)
    host = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    moved = host.to(lab.device)
    out = (moved * x).cpu() * host
    out.to(lab.device).sum().backward()
    lab.same("gradient on the device", x.grad)
    lab.same("gradient on the host", host.grad, host=True)
    x.grad = host.grad = None
    (x * 2).cpu().sum().backward()
    lab.same("from a loss on the host", x.grad)
    (x.sum().cpu() + host.sum()).backward()
    lab.same("added up", [x.grad])
    lab.same("added up on the host", [host.grad], host=True)
    target = torch.zeros(3)
    target.copy_(x * 3)
    target.sum().backward()
    lab.same("through copy_ to the host", x.grad)
    into = lab.integers(2, 3)
    into.copy_(host * 2)
    into.sum().backward()
    lab.same("through copy_ from the host, broadcast", host.grad, host=True)
    unused = (x * 2, host * 2)
    gradients = torch.autograd.grad(unused[0].sum(), (x, host), allow_unused=True)
    lab.same("an unused leaf of the other device", [gradients[0], gradients[1] is None])


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.backward.html",
    basis="parity",
    ground="No page says that a gradient on another device is an error, or that host scalars may be operands",
)
def wrong_device_gradients(lab: Lab) -> None:
    """A gradient must be on the device of its tensor, whether it is passed to ``backward`` or returned by an
    ``autograd.Function``. A scalar of the host may be combined with a device tensor. The gradient of this
    scalar is on the host.
    """
    x = lab.integers(3, requires_grad=True)
    meta = torch.ones(3, device="meta")
    lab.raises(
        "a gradient on another device passed to backward", lambda: (x * 2).backward(meta), match="device"
    )

    class ReturnsMetaGradient(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return torch.ones(3, device="meta")

    lab.raises(
        "returned by a Function", lambda: ReturnsMetaGradient.apply(x).sum().backward(), match="device"
    )
    number = torch.tensor(2.0, requires_grad=True)
    out = x * number
    out.sum().backward()
    lab.same("a host scalar times a device tensor", x.grad)
    lab.same("its gradient", number.grad, host=True)


@behaviour(
    "autograd",
    must_detect=("value",),
    ground=(
        "The note gives the real part; by the docstring of Tensor.grad_dtype gradients get the dtype of the "
        "leaf"
    ),
)
def gradients_of_conversions(lab: Lab) -> None:
    """The gradient through a dtype conversion has the dtype of the leaf. For a real leaf that is converted to
    complex, the gradient is the real part of the complex gradient.
    """
    x = lab.integers(3, requires_grad=True)
    for name, convert in {
        "another width": lambda: x.to(lab.other_float),
        "half": lambda: x.half(),
        "bfloat16": lambda: x.bfloat16(),
        "to and back": lambda: x.to(torch.bfloat16).to(lab.other_float),
        "complex": lambda: x.to(torch.complex64),
        "type": lambda: x.type(lab.other_float),
        "as another": lambda: x.type_as(lab.integers(1, dtype=lab.other_float)),
    }.items():
        out = convert()
        lab.same(f"result of {name}", out.detach())
        (gradient,) = torch.autograd.grad(out.sum(), x, torch.ones((), device=lab.device, dtype=out.dtype))
        lab.expect(f"gradient of {name}", gradient, [1.0, 1.0, 1.0])
    z = lab.integers(3, dtype=torch.complex64)
    target = z.clone()
    target.copy_(x)
    (target * (1 + 2j)).real.sum().backward()
    lab.expect("a real tensor copied into a complex tensor", x.grad, [1.0, 1.0, 1.0])
    lab.same("an integer result ends the graph", x.long().requires_grad)
    with lab.parity("No page says that cat and stack accept inputs of several dtypes"):
        x.grad = None
        joined = torch.cat((x, z))
        (joined * 3).real.sum().backward()
        lab.expect("cat of real and complex", x.grad, [3.0, 3.0, 3.0])
        x.grad = None
        stacked = torch.stack((x.to(lab.other_float), x))
        stacked.sum().backward()
        lab.expect("stack of two widths", x.grad, [2.0, 2.0, 2.0])


@behaviour("autograd", must_detect=("value",), page="generated/torch.Tensor.item.html")
def python_numbers_of_tensors_with_gradients(lab: Lab) -> None:
    """A tensor with one element that requires grad can be converted to a Python number. Python numbers can be
    operands of differentiable operators.
    """
    x = lab.put(3.0, requires_grad=True)
    y = lab.put([2.0], requires_grad=True)
    lab.same("numbers", [float(x.detach()), int(y.detach()), x.item(), y.item(), bool(x.detach())])
    out = (2 * x + y * x.item() + 1) / 4 - 0.5
    lab.same("value", out.detach())
    out.sum().backward()
    lab.expect("gradient of a scalar", x.grad, 0.5)
    lab.expect("gradient of one element", y.grad, [0.75])
    z = lab.put(1.0 + 2.0j, requires_grad=True)
    (z * z).abs().backward()
    lab.close("gradient of a complex scalar", z.grad, roundings=64)
    mixed = x.to(lab.other_float) * lab.put([1.0, 2.0], dtype=lab.other_float)
    x.grad = None
    mixed.sum().backward()
    lab.expect("a scalar of a different dtype", x.grad, 3.0)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="autograd.html",
    basis="consistency",
    ground="A passed tensor, or another leaf's gradient, must have the same values before and after",
)
def copies_of_gradients(lab: Lab) -> None:
    """A backward does not change the gradient tensor that the caller passed. Later changes of a leaf's
    ``.grad`` do not change this tensor or the gradients of other leaves.
    """
    x: Any = lab.integers(3, requires_grad=True)
    seed_gradient = lab.put([1.0, 2.0, 3.0])
    (x * 1).backward(seed_gradient)
    (x * 2).backward(seed_gradient)
    lab.expect("given", seed_gradient, [1.0, 2.0, 3.0])
    with lab.documented():
        lab.expect("added up", x.grad, [3.0, 6.0, 9.0])
    x.grad = None
    x.clone().backward(seed_gradient, create_graph=False)
    x.grad.zero_()
    lab.expect("after .grad was cleared in place", seed_gradient, [1.0, 2.0, 3.0])
    received = []

    class AddAndKeepGradient(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            received.append(grad)
            return grad, grad

    a: Any = lab.integers(3, requires_grad=True)
    b = lab.integers(3, requires_grad=True)
    AddAndKeepGradient.apply(a, b).backward(seed_gradient)
    a.grad.mul_(10)
    lab.expect("one gradient for two leaves", b.grad, [1.0, 2.0, 3.0])
    lab.expect("a gradient that a Function's backward received", received[0], [1.0, 2.0, 3.0])
    c: Any = lab.integers(3, requires_grad=True)
    (c + c.detach()).backward(seed_gradient.expand(3))
    c.grad.add_(1)
    lab.expect("a passed gradient that was expanded", seed_gradient, [1.0, 2.0, 3.0])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.amax.html",
    ground="For scatter_reduce and index_reduce, notes/autograd.html asks for the sub-gradient of least norm",
)
def ties_share_gradients(lab: Lab) -> None:
    """``min``, ``max``, ``amin`` and ``amax`` over all elements divide the gradient equally between the
    elements that are equal to the result. The elements of the gradient of ``median`` add up to one.
    """
    for data in ([1.0, 1.0, 1.0], [3.0, 3.0, 1.0, 1.0]):
        for name in ("max", "min", "amax", "amin"):
            x: Any = lab.put(data, requires_grad=True)
            getattr(x, name)().backward()
            best = max(data) if "max" in name else min(data)
            expected = [float(v == best) / data.count(best) for v in data]
            lab.expect(f"{name} of {data}", x.grad, expected, roundings=4)
    for name in ("median", "nanmedian"):
        x = lab.put([1.0, 3.0, 3.0, 3.0, 7.0], requires_grad=True)
        getattr(x, name)().backward()
        lab.expect(f"{name}: sum of gradients", x.grad.sum(), 1.0, roundings=4)
        lab.same(f"{name}: gradients elsewhere", [x.grad[0], x.grad[4]])
    for reduce in ("amin", "amax"):
        into = lab.put([0.0, 2.0], requires_grad=True)
        source = lab.put([2.0, 2.0, 0.0], requires_grad=True)
        where = lab.put([1, 1, 0])
        into.scatter_reduce(0, where, source, reduce).sum().backward()
        lab.close(f"scatter_reduce {reduce}", [into.grad, source.grad], roundings=4)
        into.grad = source.grad = None
        into.index_reduce(0, where, source, reduce).sum().backward()
        lab.close(f"index_reduce {reduce}", [into.grad, source.grad], roundings=4)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    ground="The note ranks the rules for points at which a function has no derivative",
)
def gradients_at_special_points(lab: Lab) -> None:
    """Gradients at the edges of domains have their documented values: powers of zero, norms at zero and
    products with zeros.
    """
    x = lab.put([0.0, 2.0], requires_grad=True)

    def expect_gradient(name: str, out: torch.Tensor, expected: Any) -> None:
        lab.expect(name, torch.autograd.grad(out.sum(), x)[0], expected, roundings=8)

    expect_gradient("zeroth power", x**0, [0.0, 0.0])
    expect_gradient("first power", x**1, [1.0, 1.0])
    expect_gradient("square", x**2, [0.0, 4.0])
    expect_gradient("tensor exponents", x ** lab.put([0.0, 3.0]), [0.0, 12.0])
    expect_gradient("norm of zero", (x * 0).norm(), [0.0, 0.0])
    expect_gradient("abs", x.abs(), [0.0, 1.0])
    expect_gradient("product with a zero", x.prod(), [2.0, 0.0])
    expect_gradient("sign", x.sign() + x, [1.0, 1.0])
    expect_gradient("relu", x.relu(), [0.0, 1.0])
    expect_gradient("clamp", x.clamp(-1, 1), [1.0, 0.0])
    expect_gradient("masked", torch.where(x > 1, x * 3, x.detach()), [0.0, 3.0])
    expect_gradient("torch.where with a number", torch.where(x > 1, x, 0.0), [0.0, 1.0])
    negative = lab.put([-2.0], dtype=torch.complex64, requires_grad=True)
    (negative**2).real.sum().backward()
    lab.expect("square of a negative complex number", negative.grad, [-4.0 + 0j], roundings=32)
    lab.raises(
        "no derivative",
        lambda: torch.igamma(x + 1, x.detach() + 1).sum().backward(),
        NotImplementedError,
        RuntimeError,
    )
    for name, flat in {"floor": x.floor, "sign": x.sign, "round": x.round}.items():
        lab.same(f"{name} is flat", torch.autograd.grad(flat().sum(), x)[0])
    for name, whole in {"argmax": x.argmax, "comparison": lambda: x > 0, "isnan": x.isnan}.items():
        lab.same(f"{name} ends the graph", whole().requires_grad)


@behaviour("autograd", must_detect=("value",), page="generated/torch.var_mean.html")
def variance_and_mean(lab: Lab) -> None:
    """``var_mean`` and ``std_mean`` have correct gradients, also if only one of the two results is used."""
    x = lab.integers(3, 4, requires_grad=True)
    for name in ("var_mean", "std_mean"):
        function = getattr(torch, name)
        for options in ({"dim": 1}, {"dim": 0, "keepdim": True}, {"dim": [0, 1], "correction": 0}):
            first, mean = function(x, **options)
            for part, out in {"first": first.sum(), "mean": mean.sum(), "both": (first * mean).sum()}.items():
                gradient = torch.autograd.grad(out, x, retain_graph=True)[0]
                lab.close(f"{name} {options}: {part}", gradient, roundings=256)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab.expect("std over one element", x[:1, :1].std().detach(), math.nan)
