"""Behaviours of functions that are traced by ahead-of-time autograd (AOTAutograd): agreement with eager in
results, writes into inputs, aliasing and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.compare import significant_strides
from conformance.framework.trees import leaves

Function = Callable[..., Any]
MakeArguments = Callable[[Sequence[torch.Tensor]], Sequence[Any]]


def trace_with_aot_autograd(function: Function, **options: Any) -> Function:
    """Return the function traced by ahead-of-time autograd. Tests replace this function by a faulty one."""
    return torch_testing_internals.trace_ahead_of_time(function, **options)


def compile_with_aot_eager(function: Function, **options: Any) -> Function:
    """Return the function compiled by ``torch.compile`` with backend ``aot_eager``.

    Tests replace this function by a faulty one.
    """
    torch_testing_internals.reset_dynamo()
    compiled_function: Function = torch.compile(function, backend="aot_eager", **options)
    return compiled_function


def observe_call(
    function: Function, inputs: Sequence[torch.Tensor], make_arguments: MakeArguments, *, gradients: bool
) -> dict[str, Any]:
    """Call a function and return the observations by name: results, arguments after the call, shapes and
    strides, ``requires_grad`` flags, shared storages and, if requested, gradients.

    ``make_arguments`` makes the arguments from copies of ``inputs``.
    """
    clones = [start.detach().clone().requires_grad_(start.requires_grad) for start in inputs]
    arguments = make_arguments(clones)
    results = [leaf for leaf in leaves(function(*arguments)) if isinstance(leaf, torch.Tensor)]
    tensors = [leaf for leaf in leaves(arguments) if isinstance(leaf, torch.Tensor)]
    observed: dict[str, Any] = {
        "results": [result.detach().clone() for result in results],
        "arguments": [tensor.detach().clone() for tensor in tensors],
        "layouts": [
            (list(t.shape), significant_strides(t)) for t in (*tensors, *results) if t.layout is torch.strided
        ],
        "requires grad": [tensor.requires_grad for tensor in (*results, *tensors)],
        "shares": [
            [
                output.untyped_storage()._cdata == tensor.untyped_storage()._cdata
                for tensor in (*tensors, *results)
            ]
            for output in results
        ],
    }
    if gradients:
        differentiable = [tensor for tensor in clones if tensor.requires_grad]
        ends = [end for end in (*results, *tensors) if end.requires_grad and end.grad_fn is not None]
        total: Any = sum((end * end).sum() for end in ends)
        observed["gradients"] = [
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(
                differentiable, torch.autograd.grad(total, differentiable, allow_unused=True), strict=True
            )
        ]
    return observed


def trees_are_equal(actual: Any, expected: Any) -> bool:
    """Return whether the observations of two calls are equal, including the dtypes of tensors."""
    if isinstance(actual, torch.Tensor):
        return torch.equal(actual, expected) and actual.dtype == expected.dtype
    if isinstance(actual, dict):
        return all(trees_are_equal(value, expected[key]) for key, value in actual.items())
    if isinstance(actual, list):
        return len(actual) == len(expected) and all(
            trees_are_equal(actual_item, expected_item)
            for actual_item, expected_item in zip(actual, expected, strict=True)
        )
    return bool(actual == expected)


def compare_with_eager(
    lab: Lab,
    name: str,
    function: Function,
    *inputs: torch.Tensor,
    make_arguments: MakeArguments = list,
    with_gradients: Sequence[bool] = (False, True),
    **options: Any,
) -> None:
    """Record the observations of a traced function, which must equal the observations of the eager function.

    Both functions are called once for each entry of ``with_gradients``. If the entry is True, the inputs
    require grad and the gradients are compared.
    """
    for gradients in with_gradients:
        differentiable_inputs = [
            start.detach().requires_grad_(gradients and start.is_floating_point()) for start in inputs
        ]
        actual = observe_call(
            trace_with_aot_autograd(function, **options),
            differentiable_inputs,
            make_arguments,
            gradients=gradients,
        )
        expected = observe_call(function, differentiable_inputs, make_arguments, gradients=gradients)
        label = f"{name} with gradients" if gradients else name
        lab.same(label, [actual["results"], actual["arguments"], actual.get("gradients", [])])
        for part, value in expected.items():
            lab.holds(f"{label}: {part}, traced and eager agree", trees_are_equal(actual[part], value))


def non_leaf_copies(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies that are not leaves, because autograd refuses a write into a leaf that requires grad."""
    return [tensor.clone() for tensor in clones]


class CubeFunction(torch.autograd.Function):
    """An ``autograd.Function`` that returns x³."""

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


@behaviour(
    "aot",
    level="training",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="The traced call and the eager call of one function on the device must agree",
)
def aot_calls(lab: Lab) -> None:
    """A function traced ahead of time gives the results and gradients of the original function. The function
    may have several outputs, trees of outputs, and constants. The inputs may include numbers, None, unused
    inputs and one tensor passed twice.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    compare_with_eager(lab, "one output", lambda a, b: a * b + a, x, y)
    compare_with_eager(lab, "two outputs", lambda a, b: (a * b, a.sum()), x, y)
    compare_with_eager(lab, "a list", lambda a, b: [a * b, (a - b, b)], x, y)
    compare_with_eager(lab, "a dict", lambda a, b: {"p": a * b, "q": a + b}, x, y)
    compare_with_eager(
        lab,
        "numbers and None",
        lambda a, n, k: (a * k, None, n),
        x,
        make_arguments=lambda clones: [clones[0], None, 3],
    )
    compare_with_eager(lab, "an unused input", lambda a, b: a * a, x, y)
    compare_with_eager(
        lab,
        "the same input twice",
        lambda a, b: a * b,
        x,
        make_arguments=lambda clones: [clones[0], clones[0]],
    )
    compare_with_eager(
        lab,
        "the same one returned",
        lambda a, b: (a * b, a + 1, b + 1),
        x,
        make_arguments=lambda clones: [clones[0], clones[0]],
    )
    compare_with_eager(
        lab, "an output without a gradient", lambda a, b: (a * b, (a > b).long(), a.detach() + 1), x, y
    )
    compare_with_eager(lab, "products", lambda a, b: a @ b.T @ a, x, y)
    compare_with_eager(lab, "a constant", lambda a: a + torch.ones(4, device=a.device), x)
    compare_with_eager(lab, "a custom function", lambda a: CubeFunction.apply(a) + 1, x)
    compare_with_eager(lab, "writes inside", lambda a, b: a.clone().mul_(b).add_(1), x, y)
    compare_with_eager(lab, "detach inside", lambda a, b: a * b.detach(), x, y)

    def multiply_after_no_grad(a: torch.Tensor, b: torch.Tensor) -> Any:
        with torch.no_grad():
            c = a * 2
        return c * b

    compare_with_eager(lab, "no_grad inside", multiply_after_no_grad, x, y)
    function = trace_with_aot_autograd(lambda a, b: a * b)
    with torch.no_grad():
        lab.same("under no_grad", function(x.clone().requires_grad_(), y))
    lab.same("a second call with different values", function(y, x + 1))


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="inputs after the traced and after the eager call must agree",
)
def aot_writes_into_inputs(lab: Lab) -> None:
    """A traced function changes its inputs as the original function does. The function may change the values
    of an input, the sizes and strides of an input, or both, once or several times. The function may also
    return the changed input. Gradients flow through the writes.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    compare_with_eager(lab, "one", lambda a, b: a.mul_(2) * b, x, y, make_arguments=non_leaf_copies)
    compare_with_eager(lab, "both", lambda a, b: a.mul_(2) * b.add_(1), x, y, make_arguments=non_leaf_copies)
    compare_with_eager(lab, "twice", lambda a: a.mul_(2).add_(3) * 2, x, make_arguments=non_leaf_copies)
    compare_with_eager(
        lab, "one that is returned", lambda a, b: (a.mul_(b), a * 3), x, y, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab, "an input that is returned", lambda a: a.add_(5), x, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab, "through a view", lambda a: a[1:].mul_(2) + a[0], x, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab,
        "through a view of a view",
        lambda a: a.view(-1)[3:].unsqueeze(0).fill_(2).sum() * a,
        x,
        make_arguments=non_leaf_copies,
    )
    compare_with_eager(
        lab,
        "not contiguous",
        lambda a: a.mul_(3) + 1,
        x,
        make_arguments=lambda clones: [clones[0].clone().t()],
    )
    compare_with_eager(lab, "a copy", lambda a, b: a.copy_(b) * 2, x, y, make_arguments=non_leaf_copies)
    compare_with_eager(lab, "strides", lambda a: (a.t_(), a * 2)[1], x, make_arguments=non_leaf_copies)
    compare_with_eager(
        lab, "a dimension", lambda a: (a.unsqueeze_(0), a + 1)[1], x, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab,
        "a dimension gone",
        lambda a: (a.squeeze_(0), a + 1)[1],
        x,
        make_arguments=lambda k: [k[0].clone().unsqueeze(0)],
    )
    compare_with_eager(
        lab, "values and strides", lambda a: (a.t_(), a.mul_(2), a + 1)[2], x, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab, "beside None", lambda a, n, k: a.mul_(k) + 1, x, make_arguments=lambda k: [k[0].clone(), None, 3]
    )

    def double_under_no_grad_then_multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a.mul_(2)
        return a * b

    compare_with_eager(
        lab, "under no_grad", double_under_no_grad_then_multiply, x, y, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab,
        "of a detached view",
        lambda a, b: (a.detach().mul_(2), a * b)[1],
        x,
        y,
        make_arguments=non_leaf_copies,
    )

    def training_batch_norm(a: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(a * 0, mean, var, training=True, momentum=0.5)

    buffers = [torch.zeros(4, device=lab.device), torch.ones(4, device=lab.device)]
    expected = [torch.zeros(4, device=lab.device), torch.ones(4, device=lab.device)]
    trace_with_aot_autograd(training_batch_norm)(x, *buffers)
    training_batch_norm(x, *expected)
    lab.same("running statistics", buffers)
    lab.holds("running statistics: traced and eager agree", trees_are_equal(buffers, expected))


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="sharing of memory and gradients of results must agree between the traced and the eager call",
)
def aot_returns_aliases(lab: Lab) -> None:
    """The results of a traced function share memory with its inputs and with each other as the results of the
    original function do. Gradients flow through these results.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)
    compare_with_eager(lab, "a view of an input", lambda a: a.view(-1), x, make_arguments=non_leaf_copies)
    compare_with_eager(lab, "the input itself", lambda a, b: (a, a * b), x, y, make_arguments=non_leaf_copies)
    compare_with_eager(
        lab, "views of both", lambda a, b: (a.t(), b[1:], a * b), x, y, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab, "several views of an input", lambda a: list(a.unbind(0)), x, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab, "a view of a written input", lambda a: a.mul_(2).view(-1), x, make_arguments=non_leaf_copies
    )
    compare_with_eager(
        lab,
        "views of two written inputs",
        lambda a, b: (a.mul_(2).t(), b.add_(1).view(-1)),
        x,
        y,
        make_arguments=non_leaf_copies,
    )
    compare_with_eager(lab, "a view of an intermediate", lambda a: (a * 2).view(-1), x)
    compare_with_eager(lab, "it and its view", lambda a: (lambda b: (b, b.view(-1)))(a * 2), x)
    compare_with_eager(lab, "the view and it", lambda a: (lambda b: (b.t(), b))(a * 2), x)
    compare_with_eager(lab, "two views of it", lambda a: (lambda b: (b.view(-1), b[0]))(a * 2), x)
    compare_with_eager(lab, "it twice", lambda a: (lambda b: (b, b))(a * 2), x)
    compare_with_eager(lab, "several views of it", lambda a: list((a * 2).split(1)), x)
    compare_with_eager(
        lab, "a view of a written intermediate", lambda a: (lambda b: (b[0].mul_(3), b))(a * 2), x
    )
    compare_with_eager(lab, "a detached one", lambda a: (lambda b: (b, b.detach()))(a * 2), x)
    compare_with_eager(
        lab,
        "all kinds",
        lambda a, b: (a.view(-1), (a * b).t(), a * 3, b),
        x,
        y,
        make_arguments=non_leaf_copies,
    )
    compare_with_eager(
        lab, "an expanded one", lambda a: a[:1].expand(3, 4), x, make_arguments=non_leaf_copies
    )

    def double_and_view_under_no_grad(a: torch.Tensor) -> Any:
        with torch.no_grad():
            b = a * 2
            return b, b.view(-1)

    for gradients in (False, True):
        start = x.clone().requires_grad_(gradients)
        result, expected = (
            trace_with_aot_autograd(double_and_view_under_no_grad)(start),
            double_and_view_under_no_grad(start),
        )
        lab.same(f"under no_grad, {gradients}", [output.detach() for output in result])
        lab.holds(
            f"under no_grad, {gradients}: nothing requires grad",
            [output.requires_grad for output in result] == [output.requires_grad for output in expected],
        )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="writes into inputs that share memory must agree between the traced and the eager call",
)
def aot_inputs_that_share(lab: Lab) -> None:
    """If inputs of a traced function are views of each other, a write into one input is visible in the
    others, whichever input is written and returned.
    """
    base = lab.integers(4, 4)

    def base_and_view(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole, whole.view(-1)]

    def view_and_base(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return base_and_view(clones)[::-1]

    def overlapping_rows_and_copy(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole[:3], whole[1:], clones[0] * 2]

    def disjoint_rows(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole[:2], whole[2:]]

    # With gradients, torch itself fails to trace several writes into inputs that share storage.
    without_gradients = (False,)
    for name, make in (("base and view", base_and_view), ("view and base", view_and_base)):
        compare_with_eager(
            lab, f"{name}, the first written", lambda a, b: a.mul_(2) + b.sum(), base, make_arguments=make
        )
        compare_with_eager(
            lab, f"{name}, the second written", lambda a, b: b.add_(1).sum() * a, base, make_arguments=make
        )
        compare_with_eager(
            lab,
            f"{name}, both written",
            lambda a, b: (a.mul_(2), b.add_(1), a * 2)[2],
            base,
            make_arguments=make,
            with_gradients=without_gradients,
        )
        compare_with_eager(
            lab, f"{name}, one used", lambda a, b: a.mul_(2) * b.sum(), base, make_arguments=make
        )
        compare_with_eager(
            lab,
            f"{name}, a view returned",
            lambda a, b: (a.add_(3), b.view(-1)[2:]),
            base,
            make_arguments=make,
        )
        compare_with_eager(
            lab, f"{name}, nothing written", lambda a, b: a.sum() * b, base, make_arguments=make
        )
    compare_with_eager(
        lab,
        "overlapping",
        lambda a, b, c: (a.mul_(2), b + 1, c * 2)[1:],
        base,
        make_arguments=overlapping_rows_and_copy,
    )
    compare_with_eager(
        lab,
        "overlapping, the other",
        lambda a, b, c: (b.mul_(2), a + c[:3])[1],
        base,
        make_arguments=overlapping_rows_and_copy,
    )
    compare_with_eager(
        lab,
        "overlapping, all written",
        lambda a, b, c: (a.mul_(2), b.add_(1), c.mul_(3), a + b)[3],
        base,
        make_arguments=overlapping_rows_and_copy,
        with_gradients=without_gradients,
    )
    compare_with_eager(
        lab,
        "inputs of one storage without overlap",
        lambda a, b: (a.mul_(2), b + 1)[1],
        base,
        make_arguments=disjoint_rows,
    )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="results and gradients of the traced and of the eager call must agree for both partitioners",
)
def aot_partitions_and_sizes(lab: Lab) -> None:
    """Both partitioners, which split a joint graph into forward and backward, give the results and gradients
    of eager. Traces with dynamic shapes give these results and gradients too.
    """
    x, y = lab.integers(3, 4), lab.integers(3, 4)

    def split_and_multiply(a: torch.Tensor, b: torch.Tensor) -> Any:
        c = (a * b).relu()
        parts = c.split(2, 1)
        return (parts[0] * parts[1]).sum(1) + c.amax(1), (c @ a.T).view(-1) * a.shape[0]

    for name, options in {
        "default": {},
        "min cut": {"min_cut": True},
        "open sizes": {"dynamic": True},
    }.items():
        compare_with_eager(lab, f"{name}: a chain", split_and_multiply, x, y, **options)  # type: ignore[arg-type]
        compare_with_eager(
            lab,
            f"{name}: sizes",
            lambda a, b: a.view(a.shape[1], -1) * b.numel(),
            x,
            y,
            **options,  # type: ignore[arg-type]
        )
        compare_with_eager(
            lab,
            f"{name}: a write",
            lambda a, b: a.mul_(2) * b,
            x,
            y,
            make_arguments=non_leaf_copies,
            **options,  # type: ignore[arg-type]
        )
        compare_with_eager(
            lab,
            f"{name}: a view",
            lambda a, b: ((a * b).view(-1), a.t()),
            x,
            y,
            make_arguments=non_leaf_copies,
            **options,  # type: ignore[arg-type]
        )
