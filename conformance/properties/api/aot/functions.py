"""Ahead-of-time autograd: traced functions give what they give eagerly, with writes, aliases and
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

Function = Callable[..., Any]
Make = Callable[[Sequence[torch.Tensor]], Sequence[Any]]


def traced(function: Function, **options: Any) -> Function:
    """The function by ahead-of-time autograd; tests break it here."""
    return torch_testing_internals.ahead_of_time(function, **options)


def compiled(function: Function, **options: Any) -> Function:
    """The function by torch.compile, with the graphs of ahead-of-time autograd run as they are; tests break
    it here.
    """
    torch_testing_internals.reset_dynamo()
    made: Function = torch.compile(function, backend="aot_eager", **options)
    return made


def run(function: Function, starts: Sequence[torch.Tensor], make: Make, *, gradients: bool) -> dict[str, Any]:
    """Call a function and list results, arguments afterwards, flags, shared memory and gradients."""
    kept = [start.detach().clone().requires_grad_(start.requires_grad) for start in starts]
    arguments = make(kept)
    results = [leaf for leaf in leaves(function(*arguments)) if isinstance(leaf, torch.Tensor)]
    tensors = [leaf for leaf in leaves(arguments) if isinstance(leaf, torch.Tensor)]
    shown: dict[str, Any] = {
        "results": [result.detach().clone() for result in results],
        "arguments": [tensor.detach().clone() for tensor in tensors],
        "layouts": [
            (list(t.shape), list(t.stride())) for t in (*tensors, *results) if t.layout is torch.strided
        ],
        "requires grad": [tensor.requires_grad for tensor in (*results, *tensors)],
        "shares": [
            [
                left.untyped_storage()._cdata == right.untyped_storage()._cdata
                for right in (*tensors, *results)
            ]
            for left in results
        ],
    }
    if gradients:
        differentiable = [tensor for tensor in kept if tensor.requires_grad]
        ends = [end for end in (*results, *tensors) if end.requires_grad and end.grad_fn is not None]
        total: Any = sum((end * end).sum() for end in ends)
        shown["gradients"] = [
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(
                differentiable, torch.autograd.grad(total, differentiable, allow_unused=True), strict=True
            )
        ]
    return shown


def alike(left: Any, right: Any) -> bool:
    """Compare what two runs showed; tensors must be equal and of one dtype."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right) and left.dtype == right.dtype
    if isinstance(left, dict):
        return all(alike(value, right[word]) for word, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(
            alike(mine, its) for mine, its in zip(left, right, strict=True)
        )
    return bool(left == right)


def check(
    lab: Lab,
    name: str,
    function: Function,
    *starts: torch.Tensor,
    make: Make = list,
    ways: Sequence[bool] = (False, True),
    **options: Any,
) -> None:
    """Show a traced function on copies of ``starts``, which must agree with eager.

    ``ways`` says for each run whether it has gradients.
    """
    for gradients in ways:
        inputs = [start.detach().requires_grad_(gradients and start.is_floating_point()) for start in starts]
        actual = run(traced(function, **options), inputs, make, gradients=gradients)
        due = run(function, inputs, make, gradients=gradients)
        word = f"{name} with gradients" if gradients else name
        lab.same(word, [actual["results"], actual["arguments"], actual.get("gradients", [])])
        for part, value in due.items():
            lab.holds(f"{word}: {part} as without tracing", alike(actual[part], value))


def copies(kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Arguments that are not leaves, so that a write into them is differentiated."""
    return [tensor.clone() for tensor in kept]


class Cube(torch.autograd.Function):
    """A function with its own backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return x³."""
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Return 3x² times the gradient."""
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


@behaviour("aot", level="training", capabilities=("autograd",), sees=())
def aot_calls(lab: Lab) -> None:
    """A function traced ahead of time gives the results and gradients of the function: one or several
    outputs, trees, constants, numbers and None beside tensors, unused and repeated inputs.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    check(lab, "one output", lambda a, b: a * b + a, x, y)
    check(lab, "two outputs", lambda a, b: (a * b, a.sum()), x, y)
    check(lab, "a list", lambda a, b: [a * b, (a - b, b)], x, y)
    check(lab, "a dict", lambda a, b: {"p": a * b, "q": a + b}, x, y)
    check(lab, "numbers and None", lambda a, n, k: (a * k, None, n), x, make=lambda kept: [kept[0], None, 3])
    check(lab, "an unused input", lambda a, b: a * a, x, y)
    check(lab, "the same input twice", lambda a, b: a * b, x, make=lambda kept: [kept[0], kept[0]])
    check(
        lab,
        "the same one returned",
        lambda a, b: (a * b, a + 1, b + 1),
        x,
        make=lambda kept: [kept[0], kept[0]],
    )
    check(lab, "an output without a gradient", lambda a, b: (a * b, (a > b).long(), a.detach() + 1), x, y)
    check(lab, "products", lambda a, b: a @ b.T @ a, x, y)
    check(lab, "a constant", lambda a: a + torch.ones(4, device=a.device), x)
    check(lab, "a custom function", lambda a: Cube.apply(a) + 1, x)
    check(lab, "writes inside", lambda a, b: a.clone().mul_(b).add_(1), x, y)
    check(lab, "detach inside", lambda a, b: a * b.detach(), x, y)

    def quiet(a: torch.Tensor, b: torch.Tensor) -> Any:
        with torch.no_grad():
            c = a * 2
        return c * b

    check(lab, "no_grad inside", quiet, x, y)
    function = traced(lambda a, b: a * b)
    with torch.no_grad():
        lab.same("under no_grad", function(x.clone().requires_grad_(), y))
    lab.same("again with other values", function(y, x + 1))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_writes_into_inputs(lab: Lab) -> None:
    """Writes of a traced function into its inputs reach them: of values, of sizes and strides, of both, once
    or several times, returned or not, with gradients through them.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    check(lab, "one", lambda a, b: a.mul_(2) * b, x, y, make=copies)
    check(lab, "both", lambda a, b: a.mul_(2) * b.add_(1), x, y, make=copies)
    check(lab, "twice", lambda a: a.mul_(2).add_(3) * 2, x, make=copies)
    check(lab, "one that is returned", lambda a, b: (a.mul_(b), a * 3), x, y, make=copies)
    check(lab, "one that is the result", lambda a: a.add_(5), x, make=copies)
    check(lab, "through a view", lambda a: a[1:].mul_(2) + a[0], x, make=copies)
    check(
        lab,
        "through a view of a view",
        lambda a: a.view(-1)[3:].unsqueeze(0).fill_(2).sum() * a,
        x,
        make=copies,
    )
    check(lab, "not contiguous", lambda a: a.mul_(3) + 1, x, make=lambda kept: [kept[0].clone().t()])
    check(lab, "a copy", lambda a, b: a.copy_(b) * 2, x, y, make=copies)
    check(lab, "strides", lambda a: (a.t_(), a * 2)[1], x, make=copies)
    check(lab, "a dimension", lambda a: (a.unsqueeze_(0), a + 1)[1], x, make=copies)
    check(
        lab,
        "a dimension gone",
        lambda a: (a.squeeze_(0), a + 1)[1],
        x,
        make=lambda k: [k[0].clone().unsqueeze(0)],
    )
    check(lab, "values and strides", lambda a: (a.t_(), a.mul_(2), a + 1)[2], x, make=copies)
    check(lab, "beside None", lambda a, n, k: a.mul_(k) + 1, x, make=lambda k: [k[0].clone(), None, 3])

    def hidden(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a.mul_(2)
        return a * b

    check(lab, "under no_grad", hidden, x, y, make=copies)
    check(lab, "of a detached view", lambda a, b: (a.detach().mul_(2), a * b)[1], x, y, make=copies)

    def norm(a: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(a * 0, mean, var, training=True, momentum=0.5)

    buffers = [torch.zeros(4, device=lab.device), torch.ones(4, device=lab.device)]
    due = [torch.zeros(4, device=lab.device), torch.ones(4, device=lab.device)]
    traced(norm)(x, *buffers)
    norm(x, *due)
    lab.same("running statistics", buffers)
    lab.holds("running statistics as without tracing", alike(buffers, due))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_returns_aliases(lab: Lab) -> None:
    """The results of a traced function share memory with its inputs and with each other as those of the
    original function do, and gradients flow through them.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    check(lab, "a view of an input", lambda a: a.view(-1), x, make=copies)
    check(lab, "the input itself", lambda a, b: (a, a * b), x, y, make=copies)
    check(lab, "views of both", lambda a, b: (a.t(), b[1:], a * b), x, y, make=copies)
    check(lab, "several views of an input", lambda a: list(a.unbind(0)), x, make=copies)
    check(lab, "a view of what was written", lambda a: a.mul_(2).view(-1), x, make=copies)
    check(
        lab, "views of two written ones", lambda a, b: (a.mul_(2).t(), b.add_(1).view(-1)), x, y, make=copies
    )
    check(lab, "a view of an intermediate", lambda a: (a * 2).view(-1), x)
    check(lab, "it and its view", lambda a: (lambda b: (b, b.view(-1)))(a * 2), x)
    check(lab, "the view and it", lambda a: (lambda b: (b.t(), b))(a * 2), x)
    check(lab, "two views of it", lambda a: (lambda b: (b.view(-1), b[0]))(a * 2), x)
    check(lab, "it twice", lambda a: (lambda b: (b, b))(a * 2), x)
    check(lab, "several views of it", lambda a: list((a * 2).split(1)), x)
    check(lab, "a view of a written intermediate", lambda a: (lambda b: (b[0].mul_(3), b))(a * 2), x)
    check(lab, "a detached one", lambda a: (lambda b: (b, b.detach()))(a * 2), x)
    check(lab, "all kinds", lambda a, b: (a.view(-1), (a * b).t(), a * 3, b), x, y, make=copies)
    check(lab, "an expanded one", lambda a: a[:1].expand(3, 4), x, make=copies)

    def quiet(a: torch.Tensor) -> Any:
        with torch.no_grad():
            b = a * 2
            return b, b.view(-1)

    for gradients in (False, True):
        start = x.clone().requires_grad_(gradients)
        result, due = traced(quiet)(start), quiet(start)
        lab.same(f"under no_grad, {gradients}", [output.detach() for output in result])
        lab.holds(
            f"under no_grad, {gradients}: nothing requires grad",
            [output.requires_grad for output in result] == [output.requires_grad for output in due],
        )


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_inputs_that_share(lab: Lab) -> None:
    """Inputs that are views of each other are seen written through each other, whichever is written and
    returned.
    """
    base = lab.integers(4, 4)

    def pair(kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = kept[0].clone()
        return [whole, whole.view(-1)]

    def turned(kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return pair(kept)[::-1]

    def parts(kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = kept[0].clone()
        return [whole[:3], whole[1:], kept[0] * 2]

    def apart(kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = kept[0].clone()
        return [whole[:2], whole[2:]]

    # With gradients torch itself fails to trace several writes into inputs that share.
    plain = (False,)
    for name, make in (("base and view", pair), ("view and base", turned)):
        check(lab, f"{name}, the first written", lambda a, b: a.mul_(2) + b.sum(), base, make=make)
        check(lab, f"{name}, the second written", lambda a, b: b.add_(1).sum() * a, base, make=make)
        check(
            lab,
            f"{name}, both written",
            lambda a, b: (a.mul_(2), b.add_(1), a * 2)[2],
            base,
            make=make,
            ways=plain,
        )
        check(lab, f"{name}, one used", lambda a, b: a.mul_(2) * b.sum(), base, make=make)
        check(lab, f"{name}, a view returned", lambda a, b: (a.add_(3), b.view(-1)[2:]), base, make=make)
        check(lab, f"{name}, nothing written", lambda a, b: a.sum() * b, base, make=make)
    check(lab, "overlapping", lambda a, b, c: (a.mul_(2), b + 1, c * 2)[1:], base, make=parts)
    check(lab, "overlapping, the other", lambda a, b, c: (b.mul_(2), a + c[:3])[1], base, make=parts)
    check(
        lab,
        "overlapping, all written",
        lambda a, b, c: (a.mul_(2), b.add_(1), c.mul_(3), a + b)[3],
        base,
        make=parts,
        ways=plain,
    )
    check(lab, "of one storage without overlap", lambda a, b: (a.mul_(2), b + 1)[1], base, make=apart)


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_partitions_and_sizes(lab: Lab) -> None:
    """Both ways to split forward from backward, and traces with open sizes, give the same results and
    gradients.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)

    def deep(a: torch.Tensor, b: torch.Tensor) -> Any:
        c = (a * b).relu()
        parts = c.split(2, 1)
        return (parts[0] * parts[1]).sum(1) + c.amax(1), (c @ a.T).view(-1) * a.shape[0]

    for name, options in {
        "default": {},
        "min cut": {"min_cut": True},
        "open sizes": {"dynamic": True},
    }.items():
        check(lab, f"{name}: a chain", deep, x, y, **options)  # type: ignore[arg-type]
        check(lab, f"{name}: sizes", lambda a, b: a.view(a.shape[1], -1) * b.numel(), x, y, **options)  # type: ignore[arg-type]
        check(lab, f"{name}: a write", lambda a, b: a.mul_(2) * b, x, y, make=copies, **options)  # type: ignore[arg-type]
        check(lab, f"{name}: a view", lambda a, b: ((a * b).view(-1), a.t()), x, y, make=copies, **options)  # type: ignore[arg-type]
