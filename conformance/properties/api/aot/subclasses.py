"""Ahead-of-time autograd of tensor subclasses: results, writes, views and gradients have the expected
class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot._wrapper_subclasses import Noted, Pair, unwrapped
from conformance.properties.api.aot.functions import trees_are_equal

Starts = Callable[[], Sequence[torch.Tensor]]


def observe_call(function: Callable[..., Any], starts: Starts, *, written: bool) -> dict[str, Any]:
    """Call a function on new inputs and return its results, inputs afterwards, flags, layouts and gradients,
    unwrapped.
    """
    leaves = list(starts())
    inputs = [leaf * 1 for leaf in leaves] if written else leaves
    results = function(*inputs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    observed = {
        "results": unwrapped(results),
        "inputs": unwrapped(inputs),
        "flags": [t.requires_grad for t in (*results, *inputs)],
        "layouts": [[list(t.shape), list(t.stride())] for t in results],
    }
    ends = [end for end in results if end.grad_fn is not None]
    if ends:
        # Each gradient has the class of its result, as a trace requires.
        torch.autograd.backward(ends, [(end * 2).detach() for end in ends])
        observed["gradients"] = unwrapped([leaf.grad for leaf in leaves])
    return observed


def compare_with_eager(
    lab: Lab,
    name: str,
    function: Callable[..., Any],
    starts: Starts,
    *,
    written: bool = False,
    **options: Any,
) -> None:
    """Observe a traced function of tensor subclasses, which must agree with eager."""
    observed = observe_call(functions.traced(function, **options), starts, written=written)
    expected = observe_call(function, starts, written=written)
    # Strides of results may depend on the device, so they are compared with eager only.
    lab.same(name, {part: value for part, value in observed.items() if part != "layouts"})
    for part, value in expected.items():
        lab.holds(f"{name}: {part} as without tracing", trees_are_equal(observed[part], value))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_of_subclasses(lab: Lab) -> None:
    """A traced function of tensor subclasses gives results and gradients of the same classes and values as
    the function. The subclasses may be nested, mixed with ordinary tensors, or carry notes.
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
    compare_with_eager(lab, "a pair", square, lambda: grown(pair()))
    compare_with_eager(lab, "no gradient", square, lambda: [pair()])
    compare_with_eager(lab, "nested", square, lambda: grown(nested()))
    compare_with_eager(
        lab, "a pair and a plain one", lambda a, b: (a * b, b * 2), lambda: grown(pair(), numbers[2].clone())
    )
    compare_with_eager(lab, "a noted one", square, lambda: grown(noted()))
    compare_with_eager(lab, "a noted pair", square, lambda: grown(Noted(pair(), 3)))
    compare_with_eager(lab, "noted twice", square, lambda: grown(Noted(noted(6), 4)))
    compare_with_eager(lab, "a pair of noted ones", square, lambda: grown(Pair(noted(2), noted(5))))
    compare_with_eager(lab, "what it holds", lambda a: a * a.left + a.right, lambda: [nested()])
    compare_with_eager(lab, "and the note", lambda a: a * a.inner * a.note, lambda: [noted()])
    compare_with_eager(
        lab,
        "several nested",
        lambda a, b, c: (a * b).sum() + (a * a) + c.sum(),
        lambda: grown(nested(), nested(), numbers[1].clone()),
    )
    compare_with_eager(
        lab, "nested beside a noted one", lambda a, b: (a * 2, b * b), lambda: grown(nested(), noted())
    )
    compare_with_eager(
        lab, "made inside", lambda a, b: Pair(a * 2, a * b), lambda: [numbers[0].clone(), numbers[1].clone()]
    )
    compare_with_eager(
        lab, "a factory inside", lambda a: a + torch.ones(4, device=a.device), lambda: grown(pair())
    )
    compare_with_eager(lab, "strides", lambda a: a.t() * 2, lambda: grown(pair()), dynamic=True)


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_writes_into_subclasses(lab: Lab) -> None:
    """A traced function writes into tensor subclasses and returns views of them as the function does. A
    change of their sizes is an error.
    """
    numbers = [lab.integers(3, 3) for _ in range(2)]

    def both() -> list[torch.Tensor]:
        pair: Any = Pair(numbers[0].clone(), numbers[1].clone())
        return [numbers[1].clone().requires_grad_(), pair.requires_grad_()]

    def neither() -> list[torch.Tensor]:
        return [numbers[1].clone(), Pair(numbers[0].clone(), numbers[1].clone())]

    for case, starts in (("with gradients", both), ("without", neither)):
        compare_with_eager(
            lab, f"aliases {case}", lambda a, b: (b.view(b.shape), a * b), starts, written=True
        )
        compare_with_eager(lab, f"a view of an intermediate {case}", lambda a, b: (a * b).view(-1), starts)
        compare_with_eager(
            lab, f"a result and its view {case}", lambda a, b: (lambda c: (c, c.t()))(a * b), starts
        )
        compare_with_eager(lab, f"no tensor of the pair {case}", lambda a, b: a * 2, starts)
    for name, program in {
        "one written": lambda a, b: (b.mul_(3), a + b)[1],
        "both written": lambda a, b: (a.mul_(2), b.mul_(3), a + b)[2],
        "written and a view": lambda a, b: (a.mul_(2), b.mul_(3), b.view(b.shape), a + b)[2:],
    }.items():
        compare_with_eager(lab, name, program, neither, written=True)
    compare_with_eager(
        lab, "one written, with gradients", lambda a, b: (b.mul_(3), a * b)[1], both, written=True
    )

    def turn() -> Any:
        return functions.traced(lambda a, b: (b.t_(), a + 1)[1])(*neither())

    lab.raises("sizes of a pair", turn, match="subclass")

    def written_twice() -> Any:
        pair = Pair(numbers[0].clone(), numbers[1].clone())
        return functions.traced(lambda a, b: (a.mul_(2), a * b)[1])(pair.view(-1), pair.view(-1))

    lab.raises("pairs that share", written_twice, match="subclass|[Aa]lias")


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_gradients_of_other_kinds(lab: Lab) -> None:
    """A traced function accepts gradients with the layout, memory format and class of its results. Gradients
    of other layouts are converted. An ordinary tensor as the gradient of a subclass is an error.
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
        traced_function = functions.traced(turned, dynamic=dynamic)
        for name, tangent in tangents.items():
            observed = []
            for call in (traced_function, turned):
                leaf = x.clone().requires_grad_()
                result = call(leaf)
                (gradient,) = torch.autograd.grad(result, leaf, tangent(result))
                observed.append(gradient)
            lab.same(f"{name}, {dynamic}", observed[0])
            lab.holds(f"{name}, {dynamic}, as without tracing", trees_are_equal(observed[0], observed[1]))

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
        lab.same(f"{name}: gradient", unwrapped(leaf.grad))
    lab.same("memory formats", sorted(set(formats)))

    pairs: Any = lambda: Pair(x.clone(), x + 1).requires_grad_()  # noqa: E731
    copied = functions.traced(lambda a: a * 1)
    leaf = pairs()
    copied(leaf).backward(Pair(x + 2, x + 3))
    lab.same("of its kind", unwrapped(leaf.grad))
    second_result = copied(pairs())
    lab.raises("a plain one for a pair", lambda: second_result.backward(x), match="metadata")
    third_result = copied(pairs())
    nested_pair = Pair(x.clone(), Pair(x.clone(), x.clone()))
    lab.raises(
        "a nested one for a pair", lambda: (third_result + nested_pair).sum().backward(), match="metadata"
    )


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_of_modules_with_subclasses(lab: Lab) -> None:
    """A compiled module whose parameters are tensor subclasses, also nested ones, gives the results and
    gradients of the module. A compiled function preserves the strides of its inputs.
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

    observed = []
    for change in (lambda module: functions.compiled(module, fullgraph=True), lambda module: module):
        module = Holds()
        result = change(module)(numbers[3])
        result.sum().backward()
        observed.append([unwrapped(result), unwrapped(module.plain.grad), unwrapped(module.pair.grad)])
    lab.same("a module", observed[0])
    lab.holds("a module as without tracing", trees_are_equal(observed[0], observed[1]))

    results = []
    for change in (lambda f: functions.compiled(f, dynamic=True, fullgraph=True), lambda f: f):
        result = change(lambda a: a * a)(Pair(numbers[0].t(), numbers[1].t()))
        results.append([unwrapped(result), list(result.stride())])
    lab.same("of turned ones", results[0][0])
    lab.holds("strides as without tracing", trees_are_equal(results[0], results[1]))
