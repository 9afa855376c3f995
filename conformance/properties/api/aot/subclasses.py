"""Behaviours of ahead-of-time autograd for functions whose inputs are tensor subclasses: the classes of
results, written inputs, views and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot._wrapper_subclasses import (
    PairOfTensors,
    TensorWithNote,
    subclasses_as_lists,
)
from conformance.properties.api.aot.functions import trees_are_equal

MakeLeaves = Callable[[], Sequence[torch.Tensor]]


def observe_subclass_call(
    function: Callable[..., Any], make_leaves: MakeLeaves, *, writes_inputs: bool
) -> dict[str, Any]:
    """Call a function on new leaves, and return the observations by name: results, inputs after the call,
    ``requires_grad`` flags, shapes and strides, and gradients.

    If ``writes_inputs`` is set, the function receives copies that are not leaves. In the observations, tensor
    subclasses are replaced by lists.
    """
    leaves = list(make_leaves())
    inputs = [leaf * 1 for leaf in leaves] if writes_inputs else leaves
    results = function(*inputs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    observed = {
        "results": subclasses_as_lists(results),
        "inputs": subclasses_as_lists(inputs),
        "flags": [t.requires_grad for t in (*results, *inputs)],
        "layouts": [[list(t.shape), list(t.stride())] for t in results],
    }
    ends = [end for end in results if end.grad_fn is not None]
    if ends:
        # A traced backward requires that each incoming gradient has the class of the result to which it
        # belongs. The incoming gradients are therefore computed from the results.
        torch.autograd.backward(ends, [(end * 2).detach() for end in ends])
        observed["gradients"] = subclasses_as_lists([leaf.grad for leaf in leaves])
    return observed


def compare_subclass_call_with_eager(
    lab: Lab,
    name: str,
    function: Callable[..., Any],
    make_leaves: MakeLeaves,
    *,
    writes_inputs: bool = False,
    **options: Any,
) -> None:
    """Record the observations of a traced function of tensor subclasses, which must equal the observations of
    eager.
    """
    observed = observe_subclass_call(
        functions.trace_with_aot_autograd(function, **options), make_leaves, writes_inputs=writes_inputs
    )
    expected = observe_subclass_call(function, make_leaves, writes_inputs=writes_inputs)
    # The strides of results may depend on the device. They are compared with eager on the same device, and
    # are not recorded.
    lab.same(name, {part: value for part, value in observed.items() if part != "layouts"})
    for part, value in expected.items():
        lab.holds(f"{name}: {part}, traced and eager agree", trees_are_equal(observed[part], value))


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="classes and values of the traced and of the eager call must agree",
)
def aot_of_subclasses(lab: Lab) -> None:
    """A traced function of tensor subclasses gives results and gradients with the classes and values of the
    original function. Subclasses may be nested, mixed with ordinary tensors, or have attributes that are not
    tensors.
    """
    numbers = [lab.integers(3, 4) for _ in range(4)]

    def make_pair(first: int = 0) -> Any:
        return PairOfTensors(numbers[first].clone(), numbers[(first + 1) % 4].clone())

    def make_nested_pair() -> Any:
        return PairOfTensors(make_pair(0), make_pair(2))

    def make_tensor_with_note(note: int = 6) -> Any:
        return TensorWithNote(numbers[0].clone(), note)

    def require_grad(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [tensor.requires_grad_() for tensor in tensors]

    square: Callable[..., Any] = lambda a: a * a + 1  # noqa: E731
    compare_subclass_call_with_eager(lab, "a pair", square, lambda: require_grad(make_pair()))
    compare_subclass_call_with_eager(lab, "no gradient", square, lambda: [make_pair()])
    compare_subclass_call_with_eager(lab, "nested", square, lambda: require_grad(make_nested_pair()))
    compare_subclass_call_with_eager(
        lab,
        "a pair and an ordinary tensor",
        lambda a, b: (a * b, b * 2),
        lambda: require_grad(make_pair(), numbers[2].clone()),
    )
    compare_subclass_call_with_eager(
        lab, "a noted one", square, lambda: require_grad(make_tensor_with_note())
    )
    compare_subclass_call_with_eager(
        lab, "a noted pair", square, lambda: require_grad(TensorWithNote(make_pair(), 3))
    )
    compare_subclass_call_with_eager(
        lab, "noted twice", square, lambda: require_grad(TensorWithNote(make_tensor_with_note(6), 4))
    )
    compare_subclass_call_with_eager(
        lab,
        "a pair of noted tensors",
        square,
        lambda: require_grad(PairOfTensors(make_tensor_with_note(2), make_tensor_with_note(5))),
    )
    compare_subclass_call_with_eager(
        lab, "what it holds", lambda a: a * a.left + a.right, lambda: [make_nested_pair()]
    )
    compare_subclass_call_with_eager(
        lab, "and the note", lambda a: a * a.inner * a.note, lambda: [make_tensor_with_note()]
    )
    compare_subclass_call_with_eager(
        lab,
        "several nested",
        lambda a, b, c: (a * b).sum() + (a * a) + c.sum(),
        lambda: require_grad(make_nested_pair(), make_nested_pair(), numbers[1].clone()),
    )
    compare_subclass_call_with_eager(
        lab,
        "a nested pair and a noted tensor",
        lambda a, b: (a * 2, b * b),
        lambda: require_grad(make_nested_pair(), make_tensor_with_note()),
    )
    compare_subclass_call_with_eager(
        lab,
        "made inside",
        lambda a, b: PairOfTensors(a * 2, a * b),
        lambda: [numbers[0].clone(), numbers[1].clone()],
    )
    compare_subclass_call_with_eager(
        lab,
        "a factory inside",
        lambda a: a + torch.ones(4, device=a.device),
        lambda: require_grad(make_pair()),
    )
    compare_subclass_call_with_eager(
        lab, "strides", lambda a: a.t() * 2, lambda: require_grad(make_pair()), dynamic=True
    )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="writes and views of the traced and of the eager call must agree",
)
def aot_writes_into_subclasses(lab: Lab) -> None:
    """A traced function writes into tensor subclasses and returns views of them as the original function
    does. Transposing a subclass input in place, and writing one of two inputs that share storage, are errors.
    """
    numbers = [lab.integers(3, 3) for _ in range(2)]

    def leaf_tensor_and_leaf_pair() -> list[torch.Tensor]:
        pair: Any = PairOfTensors(numbers[0].clone(), numbers[1].clone())
        return [numbers[1].clone().requires_grad_(), pair.requires_grad_()]

    def tensor_and_pair_without_grad() -> list[torch.Tensor]:
        return [numbers[1].clone(), PairOfTensors(numbers[0].clone(), numbers[1].clone())]

    for case, starts in (
        ("with gradients", leaf_tensor_and_leaf_pair),
        ("without", tensor_and_pair_without_grad),
    ):
        compare_subclass_call_with_eager(
            lab, f"aliases {case}", lambda a, b: (b.view(b.shape), a * b), starts, writes_inputs=True
        )
        compare_subclass_call_with_eager(
            lab, f"a view of an intermediate {case}", lambda a, b: (a * b).view(-1), starts
        )
        compare_subclass_call_with_eager(
            lab, f"a result and its view {case}", lambda a, b: (lambda c: (c, c.t()))(a * b), starts
        )
        compare_subclass_call_with_eager(
            lab, f"a result that does not use the second input {case}", lambda a, b: a * 2, starts
        )
    for name, program in {
        "one written": lambda a, b: (b.mul_(3), a + b)[1],
        "both written": lambda a, b: (a.mul_(2), b.mul_(3), a + b)[2],
        "written and a view": lambda a, b: (a.mul_(2), b.mul_(3), b.view(b.shape), a + b)[2:],
    }.items():
        compare_subclass_call_with_eager(lab, name, program, tensor_and_pair_without_grad, writes_inputs=True)
    compare_subclass_call_with_eager(
        lab,
        "one written, with gradients",
        lambda a, b: (b.mul_(3), a * b)[1],
        leaf_tensor_and_leaf_pair,
        writes_inputs=True,
    )

    def transpose_pair_in_place() -> Any:
        return functions.trace_with_aot_autograd(lambda a, b: (b.t_(), a + 1)[1])(
            *tensor_and_pair_without_grad()
        )

    with lab.parity("No page says that tracing refuses to transpose a subclass in place"):
        lab.raises("sizes of a pair", transpose_pair_in_place, match="subclass")

    def write_one_of_two_views() -> Any:
        pair = PairOfTensors(numbers[0].clone(), numbers[1].clone())
        return functions.trace_with_aot_autograd(lambda a, b: (a.mul_(2), a * b)[1])(
            pair.view(-1), pair.view(-1)
        )

    with lab.parity("No page says that tracing refuses written subclasses that share storage"):
        lab.raises("pairs that share", write_one_of_two_views, match="subclass|[Aa]lias")


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="gradients of the traced and of the eager function must agree for every layout of the tangent",
)
def aot_gradients_of_other_kinds(lab: Lab) -> None:
    """The backward of a traced function accepts gradients with the layout, memory format and class of the
    results. Gradients with other strides are converted. An ordinary tensor as the gradient of a subclass is
    an error.
    """
    x = lab.integers(2, 4, 3)

    def double_and_transpose(a: torch.Tensor) -> torch.Tensor:
        return (a * 2).transpose(1, 2)

    tangents: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "contiguous": lambda r: torch.arange(r.numel(), device=r.device, dtype=r.dtype).view(r.shape),
        "expanded": lambda r: torch.full((1,), 3.0, device=r.device).expand(r.shape),
        "strided": lambda r: torch.arange(2 * r.numel(), device=r.device, dtype=r.dtype)[::2].view(r.shape),
        "like the result": lambda r: torch.ones_like(r),
    }
    for dynamic in (False, True):
        traced_function = functions.trace_with_aot_autograd(double_and_transpose, dynamic=dynamic)
        for name, tangent in tangents.items():
            observed = []
            for call in (traced_function, double_and_transpose):
                leaf = x.clone().requires_grad_()
                result = call(leaf)
                (gradient,) = torch.autograd.grad(result, leaf, tangent(result))
                observed.append(gradient)
            lab.same(f"{name}, {dynamic}", observed[0])
            lab.holds(f"{name}, {dynamic}: traced and eager agree", trees_are_equal(observed[0], observed[1]))

    formats: list[str] = []

    class RecordsGradientMemoryFormat(torch.autograd.Function):
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
        "pair": lambda: PairOfTensors(image.clone(), image.clone()),
        "nested": lambda: PairOfTensors(
            PairOfTensors(image.clone(), image.clone()), PairOfTensors(image.clone(), image.clone())
        ),
    }.items():
        leaf = start().requires_grad_()
        functions.trace_with_aot_autograd(lambda a: RecordsGradientMemoryFormat.apply(a * 3))(
            leaf
        ).sum().backward()
        lab.same(f"{name}: gradient", subclasses_as_lists(leaf.grad))
    with lab.parity("No page says which memory format a gradient has inside a backward"):
        lab.same("memory formats", sorted(set(formats)))

    pairs: Any = lambda: PairOfTensors(x.clone(), x + 1).requires_grad_()  # noqa: E731
    copied = functions.trace_with_aot_autograd(lambda a: a * 1)
    leaf = pairs()
    copied(leaf).backward(PairOfTensors(x + 2, x + 3))
    lab.same("a gradient of the result's class", subclasses_as_lists(leaf.grad))
    second_result = copied(pairs())
    with lab.parity("No page says that a gradient of another class is an error"):
        lab.raises("an ordinary gradient for a pair", lambda: second_result.backward(x), match="metadata")
    third_result = copied(pairs())
    nested_pair = PairOfTensors(x.clone(), PairOfTensors(x.clone(), x.clone()))
    with lab.parity("No page says that a gradient of another class is an error"):
        lab.raises(
            "a nested gradient for a pair",
            lambda: (third_result + nested_pair).sum().backward(),
            match="metadata",
        )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled and the eager module must agree in results and gradients",
)
def aot_of_modules_with_subclasses(lab: Lab) -> None:
    """A compiled module whose parameters are tensor subclasses, also nested ones, gives the results and
    gradients of the eager module. A compiled function preserves the strides of its inputs.
    """
    numbers = [lab.integers(3, 4) for _ in range(4)]

    class ModuleWithSubclassParameters(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.nn.Parameter(numbers[0].clone())
            inner = PairOfTensors(numbers[2].clone(), numbers[3].clone())
            self.pair = torch.nn.Parameter(
                PairOfTensors(PairOfTensors(numbers[1].clone(), numbers[0].clone()), inner)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 2 * self.plain * self.pair

    observed = []
    for change in (
        lambda module: functions.compile_with_aot_eager(module, fullgraph=True),
        lambda module: module,
    ):
        module = ModuleWithSubclassParameters()
        result = change(module)(numbers[3])
        result.sum().backward()
        observed.append(
            [
                subclasses_as_lists(result),
                subclasses_as_lists(module.plain.grad),
                subclasses_as_lists(module.pair.grad),
            ]
        )
    lab.same("a module", observed[0])
    lab.holds("a module: compiled and eager agree", trees_are_equal(observed[0], observed[1]))

    results = []
    for change in (lambda f: functions.compile_with_aot_eager(f, dynamic=True, fullgraph=True), lambda f: f):
        result = change(lambda a: a * a)(PairOfTensors(numbers[0].t(), numbers[1].t()))
        results.append([subclasses_as_lists(result), list(result.stride())])
    lab.same("the square of a transposed pair", results[0][0])
    lab.holds("strides: compiled and eager agree", trees_are_equal(results[0], results[1]))
