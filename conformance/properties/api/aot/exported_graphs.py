"""Behaviours of graphs of modules and functions that are exported ahead of time. Results, written buffers and
gradients are outputs of such a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot.functions import trees_are_equal
from conformance.properties.api.aot.modules import trees_are_close, with_whole_number_parameters


def exported_graph_and_signature(
    module: nn.Module, inputs: Sequence[torch.Tensor], **options: Any
) -> tuple[Callable[..., Any], Any]:
    """Return the exported graph of a module, and the graph's signature. Tests replace this function by a
    faulty one.
    """
    return torch_testing_internals.exported_graph(module, inputs, **options)


def exported_graph_of_function(
    function: Callable[..., Any], inputs: Sequence[Any], *, joint: bool = False
) -> Callable[..., Any]:
    """Return the exported graph of a function. If ``joint`` is set, the graph also computes gradients. Tests
    replace this function by a faulty one.
    """
    return torch_testing_internals.exported_function(function, inputs, joint=joint)


class FunctionModule(nn.Module):
    """A module whose forward calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the results of the function as a tuple."""
        result = self.function(*inputs)
        return tuple(result) if isinstance(result, (list, tuple)) else (result,)


def copies_of_state(module: nn.Module) -> list[torch.Tensor]:
    """Return copies of the parameters and buffers, in the order in which an exported graph takes them as
    inputs.
    """
    return [*(p.detach().clone() for p in module.parameters()), *(b.clone() for b in module.buffers())]


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/aot_autograd.html",
    basis="consistency",
    ground="The exported graph and the function must give the same results on the device",
)
def exported_functions_compute(lab: Lab) -> None:
    """A graph exported before dispatch (``pre_dispatch``) or after it gives the results of the function, also
    for other inputs. The
    function may change the grad mode, write to intermediate tensors, and contain views, branches and loops.
    """
    from functorch.experimental.control_flow import map as map_over

    x, y, row = lab.integers(2, 2), lab.integers(2, 2), lab.integers(2)

    def write_under_no_grad(a: torch.Tensor) -> torch.Tensor:
        b = a + 2
        with torch.no_grad():
            b.add_(2)
        return a * 2 + b

    def write_under_enable_grad(a: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            b = a @ a
            b.add_(5)
        return a.sum() + b.view(1, 4).sum()

    def nested_cond(a: torch.Tensor) -> Any:
        def branch_with_inner_cond(t: torch.Tensor) -> torch.Tensor:
            u = t * 2
            u.add_(5)
            return torch.cond(u.sum() > 30, lambda v: v * 3, lambda v: v - 1, [u])  # type: ignore[no-any-return]

        def branch_with_write(t: torch.Tensor) -> torch.Tensor:
            u = t - 4
            u.add_(6)
            return u * 5

        chosen = torch.cond(a.sum() > 4, branch_with_inner_cond, branch_with_write, [a])
        return chosen + 3, chosen + 4

    def map_body(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = a * 2
        c.add_(5)
        return c + b

    def map_and_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = a * 3
        return c + map_over(map_body, c, b).sum()  # type: ignore[no-any-return]

    def cond_with_maps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cond(  # type: ignore[no-any-return]
            a.sum() > 4,
            lambda t, r: t * 2 + r.sum(),
            lambda t, r: t + map_over(map_body, t, r).sum() + map_over(map_body, t, r).sum(),
            [a, b],
        )

    programs: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
        "no_grad inside": (write_under_no_grad, (x,)),
        "enable_grad inside": (write_under_enable_grad, (x,)),
        "in place": (lambda a: torch.ops.aten.absolute_.default(a.clone()), (x,)),
        "reshape": (lambda a: a.reshape(4, 1).sum(0), (x,)),
        "contiguous": (lambda a: a.contiguous().sum(), (x,)),
        "branches": (nested_cond, (x,)),
        "a loop": (map_and_sum, (x, row)),
        "a branch with loops": (cond_with_maps, (x, row)),
    }
    for name, (program, inputs) in programs.items():
        module = FunctionModule(program)
        compiles = "branch" in name or "loop" in name
        # Branches and loops are exported before dispatch only. Area ``control-flow`` covers their graphs
        # after dispatch.
        for before in (True,) if compiles else (False, True):
            with torch.no_grad():
                graph, _ = exported_graph_and_signature(module, inputs, before_dispatch=before)
                for first in (x, y, x + 4, x - 9):
                    result = list(graph(first, *inputs[1:]))
                    lab.same(f"{name}, {before}", result)
                    # An eager call of a program with a branch or loop compiles the program, which takes long.
                    # Only one such call is made.
                    if first is x or not compiles:
                        expected = list(module(first, *inputs[1:]))
                        lab.holds(
                            f"{name}, {before}: traced and eager agree", trees_are_equal(result, expected)
                        )

    def fill_of_read_size() -> torch.Tensor:
        number = torch.full((), 5, device=lab.device).item()
        return torch.full((number,), 7, device=lab.device)  # type: ignore[arg-type]

    graph, _ = exported_graph_and_signature(FunctionModule(fill_of_read_size), (), dynamic=True)
    lab.same("a size that is read from a tensor", list(graph()))


class ConvolutionWithBatchNorm(nn.Module):
    """A convolution followed by a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = with_whole_number_parameters(nn.Conv2d(1, 3, 1))
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> Any:
        """Return the sum of the output, which serves as the loss, and the detached output."""
        out = torch.relu(self.norm(self.conv(x)))
        return out.sum(), out.detach()


class WritesBufferAndInput(nn.Module):
    """A module that adds to its buffer and to its second input in place."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = with_whole_number_parameters(nn.Linear(2, 3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """Add 5 to the buffer and 4 to ``y``, and return two results: the sum of ``y`` and of the linear
        layer's output, and the sum of the buffer.
        """
        y.add_(4)
        self.calls.add_(5)
        return (self.linear(x).sum() + y.sum(), self.calls.sum())


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/aot_autograd.html",
    basis="consistency",
    ground="results, written buffers and gradients of the graph and of the module must agree",
)
def exported_modules_name_their_state(lab: Lab) -> None:
    """The graph of a module takes parameters and buffers as inputs. The graph returns the written buffers and
    inputs, the results and, if an output is named as the loss, the gradients. The graph's signature names
    these inputs and outputs.
    """
    x, y = lab.integers(4, 2), lab.integers(4, 2)
    image = lab.integers(2, 1, 3, 3)
    for before in (False, True):
        module = lab.to(WritesBufferAndInput())
        graph, signature = exported_graph_and_signature(module, [x, y.clone()], before_dispatch=before)
        calls, written, total, count = graph(*copies_of_state(module), x, y)
        lab.same(f"with writes, {before}", [calls, written, total, count])
        with lab.parity("No page describes the signature of this private export function"):
            lab.same(
                f"names of buffers and parameters, {before}",
                [
                    list(signature.buffers),
                    sorted(signature.parameters),
                    sorted(signature.buffers_to_mutate.values()),
                ],
            )
            lab.same(f"inputs that are written, {before}", len(signature.user_inputs_to_mutate))
        argument = y.clone()
        expected = module(x, argument)
        lab.holds(
            f"with writes, {before}: graph and module agree",
            trees_are_close([total, count, written], [*expected, argument]),
        )

        norm = lab.to(ConvolutionWithBatchNorm())
        graph, signature = exported_graph_and_signature(norm, [image], before_dispatch=before)
        outputs = list(graph(*copies_of_state(norm), image))
        loss, out = norm(image)
        lab.close(f"batch norm, {before}", outputs, roundings=64)
        lab.holds(f"batch norm, {before}: graph and module agree", trees_are_close(outputs[3:], [loss, out]))
        with lab.parity("No page describes the signature of this private export function"):
            lab.same(f"buffers of batch norm, {before}", list(signature.buffers))

    norm = lab.to(ConvolutionWithBatchNorm())
    graph, signature = exported_graph_and_signature(norm, [image], loss=0)
    outputs = list(graph(*copies_of_state(norm), image))
    norm(image)[0].backward()
    expected = [p.grad for p in norm.parameters()]
    gradients = outputs[-len(expected) :]
    lab.close("with gradients", outputs[: -len(expected)], roundings=256)
    # Batch norm cancels its input's scale and offset, so that the gradients of the convolution are zero up to
    # rounding. All gradients are compared as one tensor, so that all have the tolerance of the largest
    # gradient.
    lab.close("the gradients", torch.cat([gradient.flatten() for gradient in gradients]), roundings=256)
    lab.holds("the graph and the module give the same gradients", trees_are_close(gradients, expected))
    with lab.parity("No page describes the signature of this private export function"):
        lab.same(
            "names of the parameters with gradients",
            list(signature.backward_signature.gradients_to_parameters.values()),
        )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/aot_autograd.html",
    basis="parity",
    ground="No page describes these private export functions or what they refuse",
)
def exported_functions_refuse(lab: Lab) -> None:
    """Export without a signature refuses a function that takes trees, changes the metadata of an input,
    writes an input that is shared or repeated, or writes into a tensor that requires grad. An exported joint
    graph gives results and gradients.
    """
    weight = lab.integers(2).requires_grad_()
    x, tall = lab.integers(2), lab.integers(2, 3)

    def product_and_detached_square(a: torch.Tensor, b: torch.Tensor) -> Any:
        return a * b, b * b.detach()

    forward = exported_graph_of_function(product_and_detached_square, [x, x + 1])
    with lab.consistent("The exported graph and the function must give the same results"):
        lab.same("a function", list(forward(x, x + 1)))
    leaves = [x.clone().requires_grad_(), (x + 1).requires_grad_()]
    joint = exported_graph_of_function(product_and_detached_square, leaves, joint=True)
    ones = [torch.ones_like(x), torch.ones_like(x)]
    results, gradients = joint([leaf.detach() for leaf in leaves], ones)
    expected = torch.autograd.grad(product_and_detached_square(*leaves), leaves, ones)
    with lab.consistent("The joint graph must give the results and gradients of eager"):
        lab.same("the joint graph", [list(results), list(gradients)])
    with lab.consistent("The gradients of the joint graph and of eager must agree"):
        lab.holds(
            "the joint graph and eager give the same gradients",
            trees_are_equal(list(gradients), list(expected)),
        )

    def transpose_input_in_place(p: torch.Tensor, a: torch.Tensor) -> Any:
        a.t_()
        return (a * 2,)

    def double_input_in_place(p: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        a.mul_(2)
        return (a + b,)

    def double_parameter_in_place(p: torch.Tensor, a: torch.Tensor) -> Any:
        p.mul_(2)
        return (p + a,)

    for joint_too in (False, True):
        calls: dict[str, tuple[Callable[..., Any], list[Any], str]] = {
            "turned": (transpose_input_in_place, [weight, tall], "metadata"),
            "shared": (double_input_in_place, [weight, x, x.view(-1)], "aliased"),
            "repeated": (double_input_in_place, [weight, x, x], "duplicated"),
            "a parameter": (double_parameter_in_place, [weight, x], "mutation"),
            "trees": (lambda pair: (pair[0] + pair[1],), [[x, x + 1]], "pytrees"),
        }
        for name, (function, inputs, pattern) in calls.items():
            lab.raises(
                f"{name}, {joint_too}",
                lambda f=function, i=inputs, j=joint_too: exported_graph_of_function(f, i, joint=j),  # type: ignore[misc]
                match=pattern,
            )

    class MultipliesByParameter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(weight.detach().clone())

        def forward(self, a: torch.Tensor) -> Any:
            out = self.weight * a
            return out, out.sum()

    lab.raises(
        "two outputs with gradients",
        lambda: exported_graph_and_signature(MultipliesByParameter(), [x], loss=1),
        match="requires gradients",
    )

    class WritesInput(nn.Module):
        def forward(self, a: torch.Tensor) -> Any:
            a.add_(4)
            return (a,)

    graph, _ = exported_graph_and_signature(WritesInput(), [x.clone().requires_grad_()])
    with lab.consistent("The exported graph and the module must give the same results"):
        lab.same("a write into an input that requires grad", list(graph(x)))

    def write_dropout_result(a: torch.Tensor) -> Any:
        b = torch.ops.aten.dropout.default(a, 0.1, train=False)
        b.add_(1)
        return (b,)

    lab.raises(
        "a write into the result of dropout, before dispatch",
        lambda: exported_graph_and_signature(FunctionModule(write_dropout_result), [x], before_dispatch=True),
        match="frozen",
    )
    graph, _ = exported_graph_and_signature(FunctionModule(write_dropout_result), [x])
    with lab.consistent("The exported graph and the function must give the same results"):
        lab.same("after dispatch", list(graph(x)))
