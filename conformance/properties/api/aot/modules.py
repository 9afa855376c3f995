"""Behaviours of modules that are traced ahead of time: parameters, buffers, inference, and graphs that are
lowered for example inputs as ``torch.compile`` lowers them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot.functions import trees_are_equal

MakeCallable = Callable[[nn.Module], Callable[..., Any]]


def trace_module_with_aot_autograd(module: nn.Module) -> Callable[..., Any]:
    """Return the module traced by ahead-of-time autograd. Tests replace this function by a faulty one."""
    return torch_testing_internals.trace_module_ahead_of_time(module)


def lowered_graph(module: nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """Return the module's graph for example inputs, lowered as a backend of ``torch.compile`` lowers it.
    Tests replace this function by a faulty one.
    """
    return torch_testing_internals.trace_module_as_compile_backend(module, inputs)


def graph_with_dynamic_shapes(function: Callable[..., Any], *inputs: torch.Tensor) -> Callable[..., Any]:
    """Return the graph of a function or module with dynamic shapes. A module's parameters are constants of
    the graph. Tests replace this function by a faulty one.
    """
    return torch_testing_internals.graph_with_dynamic_shapes(function, *inputs)  # type: ignore[no-any-return]


class CallCountingModule(nn.Module):
    """A module that multiplies its input by a parameter and counts its calls in a buffer."""

    counter: torch.Tensor

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.register_buffer("counter", torch.zeros(2, 2, device=weight.device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add 1 to each element of the counter. Return the sum of all elements of ``x @ weight`` and of the
        counter.
        """
        self.counter.add_(1)
        return (x @ self.weight).sum() + self.counter.sum()


def with_whole_number_parameters(module: nn.Module) -> nn.Module:
    """Set the parameters of a module to small whole numbers, so that results are exact."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            values = (torch.arange(parameter.numel()) % 5 - 2 + number).to(parameter.dtype)
            parameter.copy_(values.reshape(parameter.shape))
    return module


def observe_calls(
    module: nn.Module,
    make_callable: MakeCallable,
    *inputs: torch.Tensor,
    gradients: bool = True,
    calls: int = 2,
) -> list[Any]:
    """Call ``make_callable(module)`` with copies of ``inputs``, ``calls`` times. Return all results and
    gradients, and the final buffers.

    ``make_callable`` returns the traced module, the lowered module or the module itself.
    """
    call = make_callable(module)
    observed: list[Any] = []
    for _ in range(calls):
        arguments = [t.clone().requires_grad_(gradients and t.is_floating_point()) for t in inputs]
        result = call(*arguments)
        result = result[0] if isinstance(result, (list, tuple)) else result
        observed.append(result.detach().clone())
        if gradients:
            (result * 1.0).abs().sum().backward()
            observed.append([t.grad for t in arguments if t.grad is not None])
    observed.append([b.detach().clone() for b in module.buffers()])
    for parameter in module.parameters():
        grad = parameter.grad
        if grad is not None:
            observed.append(grad.to_dense() if grad.is_sparse else grad)
    return observed


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_module.html",
    basis="consistency",
    ground="The traced and the eager module must agree in results, gradients and buffers",
)
def aot_of_modules(lab: Lab) -> None:
    """A traced module gives the results of the original module. The traced module accumulates gradients, also
    sparse gradients, in its parameters, and writes its buffers.
    """
    x = lab.integers(3, 2)
    tokens = lab.put([0, 2, 1, 2])
    modules: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
        "linear": (with_whole_number_parameters(nn.Linear(2, 3)), (x,)),
        "layers": (nn.Sequential(with_whole_number_parameters(nn.Linear(2, 3)), nn.ReLU()), (x,)),
        "complex": (
            with_whole_number_parameters(nn.Linear(2, 3, dtype=torch.complex64)),
            (lab.integers(3, 2, dtype=torch.complex64),),
        ),
        "a buffer": (CallCountingModule(torch.tensor([[1.0, 2.0], [3.0, -1.0]])), (x,)),
        "sparse": (
            with_whole_number_parameters(nn.EmbeddingBag(4, 2, sparse=lab.target.capable("sparse"))),
            (tokens, lab.put([0, 1, 3])),
        ),
    }
    for name, (module, inputs) in modules.items():
        lab.to(module)
        observed = observe_calls(copy.deepcopy(module), trace_module_with_aot_autograd, *inputs)
        expected = observe_calls(copy.deepcopy(module), lambda m: m, *inputs)
        lab.close(name, observed)
        lab.holds(f"{name}, as without tracing", trees_are_close(observed, expected))
    for name, norm in {"one dimension": nn.BatchNorm1d(4), "two": nn.BatchNorm2d(4)}.items():
        lab.to(norm)
        image = lab.integers(5, 4) if name == "one dimension" else lab.integers(3, 4, 2, 2)
        observed, expected = (
            observe_calls(copy.deepcopy(norm), change, image)
            for change in (trace_module_with_aot_autograd, lambda m: m)
        )
        lab.close(f"batch norm of {name}", observed, roundings=64)
        lab.holds(f"batch norm of {name}: traced and eager agree", trees_are_close(observed, expected))


def trees_are_close(actual: Any, expected: Any) -> bool:
    """Return whether two trees of tensors agree up to rounding."""
    if isinstance(actual, torch.Tensor):
        if actual.is_floating_point() or actual.is_complex():
            return bool(
                actual.dtype == expected.dtype and torch.allclose(actual, expected, rtol=1e-4, atol=1e-4)
            )
        return trees_are_equal(actual, expected)
    if isinstance(actual, list):
        return len(actual) == len(expected) and all(
            trees_are_close(actual_item, expected_item)
            for actual_item, expected_item in zip(actual, expected, strict=True)
        )
    return bool(actual == expected)


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_module.html",
    basis="consistency",
    ground="The traced and the eager module must agree in results and leave the buffers unchanged",
)
def aot_of_modules_for_inference(lab: Lab) -> None:
    """A traced module under ``no_grad`` or ``inference_mode`` gives the results of the original module. In
    eval mode it does not write the running statistics.
    """
    x, image = lab.integers(3, 2), lab.integers(2, 4, 3, 3)
    linear = lab.to(with_whole_number_parameters(nn.Linear(2, 3)))
    norm = lab.to(nn.BatchNorm2d(4)).eval()
    with torch.no_grad():
        norm.running_mean.copy_(lab.integers(4))  # type: ignore[union-attr]
    larger = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    for name, guard in {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.items():
        for module_name, module, argument in (
            ("linear", linear, x),
            ("norm", norm, image),
            ("upsample", larger, image),
        ):
            before = [b.clone() for b in module.buffers()]
            with guard():
                result, expected = trace_module_with_aot_autograd(module)(argument), module(argument)
            lab.close(f"{module_name}, {name}", result.clone())
            lab.holds(f"{module_name}, {name}: traced and eager agree", trees_are_close(result, expected))
            with lab.documented():
                lab.holds(
                    f"{module_name}, {name}: no graph", not result.requires_grad and result.grad_fn is None
                )
            lab.holds(
                f"{module_name}, {name}: buffers are unchanged",
                trees_are_equal(before, list(module.buffers())),
            )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="user_guide/torch_compiler/torch.compiler_custom_backends.html",
    basis="consistency",
    ground="The lowered graph and the module must give the same results and gradients",
)
def aot_lowers_modules(lab: Lab) -> None:
    """A module that is lowered for example inputs gives the results of the original module for similar
    inputs. The examples may be real tensors, or fake tensors with dynamic shapes. The module may create
    tensors and change the shapes of its inputs. An input need not require grad if its example requires grad.
    """

    class LinearPlusInput(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = with_whole_number_parameters(nn.Linear(2, 3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return (self.linear(x) + y,)

    class MultipliesByConstant(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return (x * torch.ops.aten.lift_fresh_copy.default(torch.tensor([2], device=x.device)),)

    class UnsqueezesInputsInPlace(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            x.unsqueeze_(0)
            y.unsqueeze_(0)
            return (x + y,)

    class UpsamplingModule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

        def forward(self, x: torch.Tensor) -> Any:
            return (self.upsample(x),)

    plus = lab.to(LinearPlusInput())
    x, y = lab.integers(4, 2), lab.integers(4, 3)
    image = lab.integers(2, 3, 4, 5)
    for input_kind, change in (("real", list), ("open sizes", torch_testing_internals.with_symbolic_sizes)):
        for name, module, inputs, gradients in (
            ("linear", plus, (x, y), True),
            ("a constant", MultipliesByConstant(), (x,), True),
            ("upsample", UpsamplingModule(), (image,), False),
        ):
            like = [t.clone().requires_grad_(gradients) for t in inputs]
            call = lowered_graph(module, change(like))
            observed = observe_calls(
                copy.deepcopy(module),
                lambda m, call=call: call,  # type: ignore[misc]
                *inputs,
                gradients=gradients,
                calls=1,
            )
            expected = observe_calls(
                copy.deepcopy(module), lambda m: m, *inputs, gradients=gradients, calls=1
            )
            lab.close(f"{name}, {input_kind}", observed[:1])
            lab.holds(
                f"{name}, {input_kind}: graph and module agree", trees_are_close(observed[:2], expected[:2])
            )

        def non_leaf_inputs(*flags: bool) -> list[torch.Tensor]:
            return [t.clone().requires_grad_(flag).clone() for t, flag in zip((x, x + 1), flags, strict=True)]

        call = lowered_graph(UnsqueezesInputsInPlace(), change(non_leaf_inputs(True, True)))
        first, second = non_leaf_inputs(True, True)
        lab.same(f"two, {input_kind}", call(first, second)[0].detach())
        lab.same(f"their sizes, {input_kind}", [list(first.shape), list(second.shape)])
        for flags in ((True, True), (True, False)):
            leaves = [t.requires_grad_(flag) for t, flag in zip((x.clone(), x + 1), flags, strict=True)]
            result = lowered_graph(
                AddsTwoInputs(), change([x.clone().requires_grad_(), (x + 1).requires_grad_()])
            )(*leaves)
            result[0].sum().backward()
            lab.same(f"added, {flags}, {input_kind}", [result[0].detach(), leaves[0].grad])

    fake = torch_testing_internals.with_symbolic_sizes([x])[0]

    class AddsFakeTensor(nn.Module):
        def forward(self, t: torch.Tensor) -> Any:
            return (t + fake,)

    with lab.parity("No page says that tracing refuses a fake tensor as a constant"):
        lab.raises(
            "a fake constant",
            lambda: lowered_graph(AddsFakeTensor(), torch_testing_internals.with_symbolic_sizes([x])),
            AssertionError,
            RuntimeError,
            match="[Ff]ake|mode",
        )


class AddsTwoInputs(nn.Module):
    """A module that adds its two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """Return the sum."""
        return (x + y,)


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="generated/torch.fx.experimental.proxy_tensor.make_fx.html",
    basis="consistency",
    ground="The graph and the module must give the same results for other sizes",
)
def graphs_of_modules_with_open_sizes(lab: Lab) -> None:
    """A graph of a module with dynamic shapes contains the module's weights. The graph gives the results of
    the module for inputs of other sizes, with and without ``functionalize``.
    """
    linear = lab.to(with_whole_number_parameters(nn.Linear(2, 3)))
    x = lab.integers(3, 2)
    graph = graph_with_dynamic_shapes(linear, x)
    functional = graph_with_dynamic_shapes(torch.func.functionalize(linear), x)
    for rows in (3, 5):
        batch = lab.integers(rows, 2)
        with torch.no_grad():
            lab.same(f"{rows} rows", [graph(batch), functional(batch)])
            expected = linear(batch)
            lab.holds(
                f"{rows} rows: graph and module agree",
                trees_are_close([graph(batch), functional(batch)], [expected, expected]),
            )
