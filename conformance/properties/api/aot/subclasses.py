"""Ahead-of-time autograd of tensor subclasses: results, writes, views and gradients keep their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot._wrapper_subclasses import Noted, Pair, parts
from conformance.properties.api.aot.functions import alike

Starts = Callable[[], Sequence[torch.Tensor]]


def walk(function: Callable[..., Any], starts: Starts, *, written: bool) -> dict[str, Any]:
    """Call a function on fresh inputs and list its results, inputs afterwards and gradients, taken apart."""
    leaves = list(starts())
    inputs = [leaf * 1 for leaf in leaves] if written else leaves
    results = function(*inputs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    shown = {
        "results": parts(results),
        "inputs": parts(inputs),
        "flags": [t.requires_grad for t in (*results, *inputs)],
        "layouts": [[list(t.shape), list(t.stride())] for t in results],
    }
    ends = [end for end in results if end.grad_fn is not None]
    if ends:
        # Each with a gradient of its own kind, which is what a trace expects.
        torch.autograd.backward(ends, [(end * 2).detach() for end in ends])
        shown["gradients"] = parts([leaf.grad for leaf in leaves])
    return shown


def compare(
    lab: Lab,
    name: str,
    function: Callable[..., Any],
    starts: Starts,
    *,
    written: bool = False,
    **options: Any,
) -> None:
    """Show a traced function of subclasses, which must agree with eager."""
    shown = walk(functions.traced(function, **options), starts, written=written)
    due = walk(function, starts, written=written)
    # Strides of results are the device's; a trace has to keep to them.
    lab.same(name, {part: value for part, value in shown.items() if part != "layouts"})
    for part, value in due.items():
        lab.holds(f"{name}: {part} as without tracing", alike(shown[part], value))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_of_subclasses(lab: Lab) -> None:
    """A traced function of subclasses, plain, nested, mixed and with notes, gives results and gradients of
    the kinds that the function gives, and with their values.
    """
    numbers = [lab.integers(3, 4) for _ in range(4)]

    def pair(first: int = 0) -> Any:
        return Pair(numbers[first].clone(), numbers[(first + 1) % 4].clone())

    def nested() -> Any:
        return Pair(pair(0), pair(2))

    def noted(note: int = 6) -> Any:
        return Noted(numbers[0].clone(), note)

    def grown(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [tensor.requires_grad_() for tensor in tensors]

    square: Callable[..., Any] = lambda a: a * a + 1  # noqa: E731
    compare(lab, "a pair", square, lambda: grown(pair()))
    compare(lab, "no gradient", square, lambda: [pair()])
    compare(lab, "nested", square, lambda: grown(nested()))
    compare(
        lab, "a pair and a plain one", lambda a, b: (a * b, b * 2), lambda: grown(pair(), numbers[2].clone())
    )
    compare(lab, "a noted one", square, lambda: grown(noted()))
    compare(lab, "a noted pair", square, lambda: grown(Noted(pair(), 3)))
    compare(lab, "noted twice", square, lambda: grown(Noted(noted(6), 4)))
    compare(lab, "a pair of noted ones", square, lambda: grown(Pair(noted(2), noted(5))))
    compare(lab, "what it holds", lambda a: a * a.left + a.right, lambda: [nested()])
    compare(lab, "and the note", lambda a: a * a.inner * a.note, lambda: [noted()])
    compare(
        lab,
        "several nested",
        lambda a, b, c: (a * b).sum() + (a * a) + c.sum(),
        lambda: grown(nested(), nested(), numbers[1].clone()),
    )
    compare(lab, "nested beside a noted one", lambda a, b: (a * 2, b * b), lambda: grown(nested(), noted()))
    compare(
        lab, "made inside", lambda a, b: Pair(a * 2, a * b), lambda: [numbers[0].clone(), numbers[1].clone()]
    )
    compare(lab, "a factory inside", lambda a: a + torch.ones(4, device=a.device), lambda: grown(pair()))
    compare(lab, "strides", lambda a: a.t() * 2, lambda: grown(pair()), dynamic=True)


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_writes_into_subclasses(lab: Lab) -> None:
    """Writes of a traced function into subclasses, and views of them among its results, are those of the
    function; a change of their sizes is an error.
    """
    numbers = [lab.integers(3, 3) for _ in range(2)]

    def both() -> list[torch.Tensor]:
        pair: Any = Pair(numbers[0].clone(), numbers[1].clone())
        return [numbers[1].clone().requires_grad_(), pair.requires_grad_()]

    def neither() -> list[torch.Tensor]:
        return [numbers[1].clone(), Pair(numbers[0].clone(), numbers[1].clone())]

    for word, starts in (("with gradients", both), ("without", neither)):
        compare(lab, f"aliases {word}", lambda a, b: (b.view(b.shape), a * b), starts, written=True)
        compare(lab, f"a view of an intermediate {word}", lambda a, b: (a * b).view(-1), starts)
        compare(lab, f"a result and its view {word}", lambda a, b: (lambda c: (c, c.t()))(a * b), starts)
        compare(lab, f"no tensor of the pair {word}", lambda a, b: a * 2, starts)
    for name, program in {
        "one written": lambda a, b: (b.mul_(3), a + b)[1],
        "both written": lambda a, b: (a.mul_(2), b.mul_(3), a + b)[2],
        "written and a view": lambda a, b: (a.mul_(2), b.mul_(3), b.view(b.shape), a + b)[2:],
    }.items():
        compare(lab, name, program, neither, written=True)
    compare(lab, "one written, with gradients", lambda a, b: (b.mul_(3), a * b)[1], both, written=True)

    def turn() -> Any:
        return functions.traced(lambda a, b: (b.t_(), a + 1)[1])(*neither())

    lab.raises("sizes of a pair", turn, match="subclass")

    def written_twice() -> Any:
        pair = Pair(numbers[0].clone(), numbers[1].clone())
        return functions.traced(lambda a, b: (a.mul_(2), a * b)[1])(pair.view(-1), pair.view(-1))

    lab.raises("pairs that share", written_twice, match="subclass|[Aa]lias")


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_gradients_of_other_kinds(lab: Lab) -> None:
    """A traced function takes gradients of the layout, memory format and kind that its results have; other
    layouts are brought to it, and a plain tensor for a subclass is an error.
    """
    x = lab.integers(2, 4, 3)

    def turned(a: torch.Tensor) -> torch.Tensor:
        return (a * 2).transpose(1, 2)

    tangents: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "contiguous": lambda r: torch.arange(r.numel(), device=r.device, dtype=r.dtype).view(r.shape),
        "expanded": lambda r: torch.full((1,), 3.0, device=r.device).expand(r.shape),
        "strided": lambda r: torch.arange(2 * r.numel(), device=r.device, dtype=r.dtype)[::2].view(r.shape),
        "like the result": lambda r: torch.ones_like(r),
    }
    for dynamic in (False, True):
        made = functions.traced(turned, dynamic=dynamic)
        for name, tangent in tangents.items():
            shown = []
            for call in (made, turned):
                leaf = x.clone().requires_grad_()
                result = call(leaf)
                (gradient,) = torch.autograd.grad(result, leaf, tangent(result))
                shown.append(gradient)
            lab.same(f"{name}, {dynamic}", shown[0])
            lab.holds(f"{name}, {dynamic}, as without tracing", alike(shown[0], shown[1]))

    formats: list[str] = []

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            last = grad.is_contiguous(memory_format=torch.channels_last)
            formats.append("channels last" if last else "other")
            return grad * 2

    image = lab.integers(2, 3, 4, 4).to(memory_format=torch.channels_last)
    for name, start in {
        "dense": lambda: image.clone(),
        "pair": lambda: Pair(image.clone(), image.clone()),
        "nested": lambda: Pair(Pair(image.clone(), image.clone()), Pair(image.clone(), image.clone())),
    }.items():
        leaf = start().requires_grad_()
        functions.traced(lambda a: Looks.apply(a * 3))(leaf).sum().backward()
        lab.same(f"{name}: gradient", parts(leaf.grad))
    lab.same("memory formats", sorted(set(formats)))

    pairs: Any = lambda: Pair(x.clone(), x + 1).requires_grad_()  # noqa: E731
    copied = functions.traced(lambda a: a * 1)
    leaf = pairs()
    copied(leaf).backward(Pair(x + 2, x + 3))
    lab.same("of its kind", parts(leaf.grad))
    again = copied(pairs())
    lab.raises("a plain one for a pair", lambda: again.backward(x), match="metadata")
    more = copied(pairs())
    other = Pair(x.clone(), Pair(x.clone(), x.clone()))
    lab.raises("a nested one for a pair", lambda: (more + other).sum().backward(), match="metadata")


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_of_modules_with_subclasses(lab: Lab) -> None:
    """A compiled module whose parameters are subclasses, nested ones too, gives the results and gradients of
    the module; a compiled function keeps strides and modes of its inputs.
    """
    numbers = [lab.integers(3, 4) for _ in range(4)]

    class Holds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.nn.Parameter(numbers[0].clone())
            inner = Pair(numbers[2].clone(), numbers[3].clone())
            self.pair = torch.nn.Parameter(Pair(Pair(numbers[1].clone(), numbers[0].clone()), inner))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 2 * self.plain * self.pair

    shown = []
    for change in (lambda module: functions.compiled(module, fullgraph=True), lambda module: module):
        module = Holds()
        result = change(module)(numbers[3])
        result.sum().backward()
        shown.append([parts(result), parts(module.plain.grad), parts(module.pair.grad)])
    lab.same("a module", shown[0])
    lab.holds("a module as without tracing", alike(shown[0], shown[1]))

    results = []
    for change in (lambda f: functions.compiled(f, dynamic=True, fullgraph=True), lambda f: f):
        result = change(lambda a: a * a)(Pair(numbers[0].t(), numbers[1].t()))
        results.append([parts(result), list(result.stride())])
    lab.same("of turned ones", results[0][0])
    lab.holds("strides as without tracing", alike(results[0], results[1]))
