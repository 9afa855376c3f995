"""Functions compiled with the graphs of ahead-of-time autograd run as they are: precision, saved tensors,
random values and what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot.functions import alike


def both(lab: Lab, name: str, function: Callable[..., Any], *starts: torch.Tensor, **options: Any) -> None:
    """Show results and gradients of a compiled function, which must agree with eager."""
    shown = []
    for call in (functions.compiled(function, fullgraph=True, **options), function):
        leaves = [start.clone().requires_grad_(start.is_floating_point()) for start in starts]
        result = call(*leaves)
        ends = list(result) if isinstance(result, (list, tuple)) else [result]
        grown = [leaf for leaf in leaves if leaf.requires_grad]
        # The sum of the squares of what a norm gives is constant: its gradient is rounding alone.
        wide = torch.float64 if lab.target.declares("float64") else torch.float32
        gradients = torch.autograd.grad(sum((end.to(wide) ** 4).sum() for end in ends), grown)
        shown.append([[end.detach() for end in ends], list(gradients)])
    lab.close(name, shown[0], roundings=64)
    for part, number in (("results", 0), ("gradients", 1)):
        pairs = zip(shown[0][number], shown[1][number], strict=True)
        lab.holds(
            f"{name}: {part} as eager",
            all(one.dtype == other.dtype and torch.allclose(one, other, 1e-4, 1e-4) for one, other in pairs),
        )


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def compiled_norms_and_layouts(lab: Lab) -> None:
    """Compiled norms, products of turned tensors, jagged tensors and random leaky units give what eager
    gives: values, gradients and, if they are random, the range.
    """
    x, y = lab.floats(2, 4, 8), lab.floats(4, 3)
    both(lab, "layer norm", lambda a: functional.layer_norm(a, (8,)), x)
    both(lab, "rms norm", lambda a: functional.rms_norm(a, (8,)), x)
    both(lab, "turned and made contiguous", lambda a, b: (a.t() * b.t()).contiguous().view(-1), y, y + 1)

    rows = [lab.integers(size, 3).requires_grad_() for size in (2, 3, 4)]
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    copied = functions.compiled(lambda n: n.clone(), fullgraph=True)(nested).values()
    lab.same("a jagged one", copied.detach())
    lab.same("its gradients", list(torch.autograd.grad((copied * 3).sum(), rows)))

    def noisy(a: torch.Tensor) -> Any:
        noise = torch.ones_like(a)
        return torch.ops.aten.rrelu_with_noise(a, noise, 0.25, 0.75, True), noise

    negative = -(lab.floats(4, 4).abs() + 1)
    for name, function in {
        "fresh": lambda a: (torch.rrelu(a, 0.25, 0.75, training=True), a),
        "noise": noisy,
    }.items():
        result, noise = functions.compiled(function, fullgraph=True)(negative)
        slope = result / negative
        lab.holds(f"{name}: slopes in the range", bool(((slope > 0.249) & (slope < 0.751)).all()))
        if name == "noise":
            lab.holds("the noise is the slope", torch.allclose(noise, slope))
    given = negative.clone()
    functions.compiled(lambda a: torch.rrelu_(a, 0.25, 0.75, training=True), fullgraph=True)(given)
    lab.holds("in place: in the range", bool(((given > negative) & (given < 0)).all()))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def compiled_for_other_inputs(lab: Lab) -> None:
    """A compiled function serves inputs of other sizes, flags and identities: fewer that require grad, and
    one given twice.
    """
    x, y = lab.integers(4, 4), lab.integers(4, 4)
    added = functions.compiled(lambda a, b: a * 2 + b, fullgraph=True)
    turned = functions.compiled(lambda a, b: (a.t_(), a + b)[1])
    for flags in ((True, True), (True, False), (False, False)):
        leaves = [t.clone().requires_grad_(flag) for t, flag in zip((x, y), flags, strict=True)]
        result = added(*leaves)
        lab.same(f"{flags}", [result.detach(), result.requires_grad])
        if result.requires_grad:
            result.sum().backward()
            lab.same(f"{flags}: gradients", [leaf.grad is not None for leaf in leaves])
    leaf = x.clone().requires_grad_()
    result = added(leaf, leaf)
    result.sum().backward()
    lab.same("one given twice", [result.detach(), leaf.grad])
    for inputs in ((x.clone(), y.clone()), (y.clone(),) * 2):
        lab.same("turned", [turned(*inputs), list(inputs[0].stride())])

    chained = functions.compiled(lambda a, b: torch.relu(a @ b), fullgraph=True)
    for size in (2, 3):
        one, other = lab.integers(size, size).requires_grad_(), lab.integers(size, size).requires_grad_()
        result = chained(one, other)
        due = torch.relu(one @ other)
        lab.same(f"size {size}", [result.detach(), *torch.autograd.grad(result.sum(), (one, other))])
        lab.holds(f"size {size} as eager", alike(result.detach(), due.detach()))

    made = functions.traced(lambda a: a * a)
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        quiet = made(leaf)
    lab.same("under no_grad", [quiet, quiet.requires_grad])
    loud = functions.traced(lambda a: a * a)(leaf)
    lab.same("and with gradients", [loud.detach(), *torch.autograd.grad(loud.sum(), leaf)])


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def compiled_with_saved_tensor_hooks(lab: Lab) -> None:
    """Hooks for saved tensors see what a compiled function saves, may change its place, dtype or value, and
    its backward takes what they give back; a new pair of hooks is taken too.
    """
    x = lab.integers(3, 4)
    hooks: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "as they are": (lambda t: t, lambda t: t),
        "doubled": (lambda t: t * 2, lambda t: t / 2),
        "in half precision": (lambda t: (t.dtype, t.to(torch.float16)), lambda p: p[1].to(p[0])),
        "on the host": (lambda t: (t.device, t.cpu()), lambda p: p[1].to(p[0])),
        "wrong": (lambda t: t, lambda t: t * 3),
    }

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a)
            return a.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (a,) = ctx.saved_tensors
            return grad + a  # type: ignore[no-any-return]

    made = functions.compiled(lambda a: Keeps.apply((a * 2).relu()), fullgraph=True)
    for name, (pack, unpack) in hooks.items():
        counts = {"packed": 0, "unpacked": 0}

        def packing(tensor: torch.Tensor, pack: Any = pack, counts: dict[str, int] = counts) -> Any:
            counts["packed"] += 1
            return pack(tensor)

        def unpacking(packed: Any, unpack: Any = unpack, counts: dict[str, int] = counts) -> Any:
            counts["unpacked"] += 1
            return unpack(packed)

        leaf = x.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(packing, unpacking):
            result = made(leaf)
        (gradient,) = torch.autograd.grad(result.sum(), leaf)
        lab.same(name, [result.detach(), gradient])
        lab.holds(f"{name}: each is packed and unpacked", counts["packed"] == counts["unpacked"] > 0)


@behaviour("aot", level="full", capabilities=("autograd", "autocast"), sees=())
def compiled_under_autocast(lab: Lab) -> None:
    """A compiled function under autocast computes in the lower precision and gives results and gradients of
    the dtypes that eager gives.
    """
    x, y = lab.integers(4, 4), lab.integers(4, 4)
    programs: dict[str, Callable[..., Any]] = {
        "products": lambda a, b: (a @ b) @ b,
        "a sum of products": lambda a, b: torch.einsum("ah,th->t", a, b).log_softmax(-1),
        "beside others": lambda a, b: (a @ b) * a + b.relu(),
    }
    for name, program in programs.items():
        shown = []
        for call in (functions.traced(program), program):
            leaves = [x.clone().requires_grad_(), y.clone().requires_grad_()]
            with torch.autocast(lab.device.type, dtype=torch.bfloat16):
                result = call(*leaves)
            gradients = torch.autograd.grad(result.float().sum(), leaves)
            shown.append([result.detach(), *gradients])
        lab.same(f"{name}: dtypes", [str(t.dtype) for t in shown[0]])
        lab.holds(f"{name}: dtypes as eager", [t.dtype for t in shown[0]] == [t.dtype for t in shown[1]])
        lab.holds(
            f"{name}: values as eager",
            all(torch.allclose(a.float(), b.float(), 0.05, 0.5) for a, b in zip(*shown, strict=True)),
        )
        lab.close(name, shown[0][0], roundings=64, dtype=torch.bfloat16)
