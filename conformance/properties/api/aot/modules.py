"""Ahead-of-time traces of modules: parameters, buffers, inference, and modules lowered for given inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot.functions import alike

Change = Callable[[nn.Module], Callable[..., Any]]


def traced(module: nn.Module) -> Callable[..., Any]:
    """The module by ahead-of-time autograd; tests break it here."""
    return torch_testing_internals.ahead_of_time_module(module)


def lowered(module: nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The module lowered for inputs; tests break it here."""
    return torch_testing_internals.lowered_module(module, inputs)


def graph_of(function: Callable[..., Any], *inputs: torch.Tensor) -> Callable[..., Any]:
    """The graph of a function with open sizes, its parameters kept as they are; tests break it here."""
    return torch_testing_internals.open_graph_of(function, *inputs)  # type: ignore[no-any-return]


class Counted(nn.Module):
    """A module that counts its calls in a buffer and scales by parameters."""

    counter: torch.Tensor

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.register_buffer("counter", torch.zeros(2, 2, device=weight.device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Count and return the scaled input and the count, summed."""
        self.counter.add_(1)
        return (x @ self.weight).sum() + self.counter.sum()


def whole(module: nn.Module) -> nn.Module:
    """Set parameters to small whole numbers, so that results are exact."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            values = (torch.arange(parameter.numel()) % 5 - 2 + number).to(parameter.dtype)
            parameter.copy_(values.reshape(parameter.shape))
    return module


def walk(
    module: nn.Module, change: Change, *inputs: torch.Tensor, gradients: bool = True, calls: int = 2
) -> list[Any]:
    """Call a changed module several times and list results, buffers and gradients."""
    call = change(module)
    shown: list[Any] = []
    for _ in range(calls):
        given = [t.clone().requires_grad_(gradients and t.is_floating_point()) for t in inputs]
        result = call(*given)
        result = result[0] if isinstance(result, (list, tuple)) else result
        shown.append(result.detach().clone())
        if gradients:
            (result * 1.0).abs().sum().backward()
            shown.append([t.grad for t in given if t.grad is not None])
    shown.append([b.detach().clone() for b in module.buffers()])
    for parameter in module.parameters():
        grad = parameter.grad
        if grad is not None:
            shown.append(grad.to_dense() if grad.is_sparse else grad)
    return shown


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_of_modules(lab: Lab) -> None:
    """A traced module gives the results of the module, fills the gradients of its parameters, sparse ones
    too, and writes its buffers.
    """
    x = lab.integers(3, 2)
    words = lab.put([0, 2, 1, 2])
    modules: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
        "linear": (whole(nn.Linear(2, 3)), (x,)),
        "layers": (nn.Sequential(whole(nn.Linear(2, 3)), nn.ReLU()), (x,)),
        "complex": (
            whole(nn.Linear(2, 3, dtype=torch.complex64)),
            (lab.integers(3, 2, dtype=torch.complex64),),
        ),
        "a buffer": (Counted(torch.tensor([[1.0, 2.0], [3.0, -1.0]])), (x,)),
        "sparse": (whole(nn.EmbeddingBag(4, 2, sparse=True)), (words, lab.put([0, 1, 3]))),
    }
    for name, (module, inputs) in modules.items():
        lab.to(module)
        shown = walk(copy.deepcopy(module), traced, *inputs)
        due = walk(copy.deepcopy(module), lambda m: m, *inputs)
        lab.close(name, shown)
        lab.holds(f"{name}, as without tracing", near(shown, due))
    for name, norm in {"one dimension": nn.BatchNorm1d(4), "two": nn.BatchNorm2d(4)}.items():
        lab.to(norm)
        image = lab.integers(5, 4) if name == "one dimension" else lab.integers(3, 4, 2, 2)
        shown, due = (walk(copy.deepcopy(norm), change, image) for change in (traced, lambda m: m))
        lab.close(f"batch norm of {name}", shown, roundings=64)
        lab.holds(f"batch norm of {name}, as without tracing", near(shown, due))


def near(left: Any, right: Any) -> bool:
    """Compare trees of tensors up to rounding."""
    if isinstance(left, torch.Tensor):
        if left.is_floating_point() or left.is_complex():
            return bool(left.dtype == right.dtype and torch.allclose(left, right, rtol=1e-4, atol=1e-4))
        return alike(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(
            near(one, other) for one, other in zip(left, right, strict=True)
        )
    return bool(left == right)


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_of_modules_for_inference(lab: Lab) -> None:
    """A traced module under no_grad or inference_mode gives the results of the module, in eval mode without
    writes into its running statistics.
    """
    x, image = lab.integers(3, 2), lab.integers(2, 4, 3, 3)
    linear = lab.to(whole(nn.Linear(2, 3)))
    norm = lab.to(nn.BatchNorm2d(4)).eval()
    with torch.no_grad():
        norm.running_mean.copy_(lab.integers(4))  # type: ignore[union-attr]
    larger = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    for name, guard in {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.items():
        for word, module, given in (
            ("linear", linear, x),
            ("norm", norm, image),
            ("upsample", larger, image),
        ):
            before = [b.clone() for b in module.buffers()]
            with guard():
                result, due = traced(module)(given), module(given)
            lab.close(f"{word}, {name}", result.clone())
            lab.holds(f"{word}, {name}, as without tracing", near(result, due))
            lab.holds(f"{word}, {name}: no graph", not result.requires_grad and result.grad_fn is None)
            lab.holds(f"{word}, {name}: buffers as before", alike(before, list(module.buffers())))


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def aot_lowers_modules(lab: Lab) -> None:
    """A module lowered for inputs, real ones or fake ones with open sizes, gives what the module gives for
    inputs like them: with tensors made inside, given twice, or of which fewer require grad.
    """

    class Plus(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = whole(nn.Linear(2, 3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return (self.linear(x) + y,)

    class Constant(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return (x * torch.ops.aten.lift_fresh_copy.default(torch.tensor([2], device=x.device)),)

    class Turns(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            x.unsqueeze_(0)
            y.unsqueeze_(0)
            return (x + y,)

    class Larger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

        def forward(self, x: torch.Tensor) -> Any:
            return (self.upsample(x),)

    plus = lab.to(Plus())
    x, y = lab.integers(4, 2), lab.integers(4, 3)
    image = lab.integers(2, 3, 4, 5)
    for word, change in (("real", list), ("open sizes", torch_testing_internals.open_sized)):
        for name, module, inputs, gradients in (
            ("linear", plus, (x, y), True),
            ("a constant", Constant(), (x,), True),
            ("upsample", Larger(), (image,), False),
        ):
            like = [t.clone().requires_grad_(gradients) for t in inputs]
            call = lowered(module, change(like))
            shown = walk(
                copy.deepcopy(module),
                lambda m, call=call: call,  # type: ignore[misc]
                *inputs,
                gradients=gradients,
                calls=1,
            )
            due = walk(copy.deepcopy(module), lambda m: m, *inputs, gradients=gradients, calls=1)
            lab.close(f"{name}, {word}", shown[:1])
            lab.holds(f"{name}, {word}, as the module", near(shown[:2], due[:2]))

        def fresh(*flags: bool) -> list[torch.Tensor]:
            return [t.clone().requires_grad_(flag).clone() for t, flag in zip((x, x + 1), flags, strict=True)]

        call = lowered(Turns(), change(fresh(True, True)))
        one, other = fresh(True, True)
        lab.same(f"two, {word}", call(one, other)[0].detach())
        lab.same(f"their sizes, {word}", [list(one.shape), list(other.shape)])
        for flags in ((True, True), (True, False)):
            leaves = [t.requires_grad_(flag) for t, flag in zip((x.clone(), x + 1), flags, strict=True)]
            result = lowered(Added(), change([x.clone().requires_grad_(), (x + 1).requires_grad_()]))(*leaves)
            result[0].sum().backward()
            lab.same(f"added, {flags}, {word}", [result[0].detach(), leaves[0].grad])

    fake = torch_testing_internals.open_sized([x])[0]

    class Foreign(nn.Module):
        def forward(self, t: torch.Tensor) -> Any:
            return (t + fake,)

    lab.raises(
        "a fake constant",
        lambda: lowered(Foreign(), torch_testing_internals.open_sized([x])),
        AssertionError,
        RuntimeError,
        match="[Ff]ake|mode",
    )


class Added(nn.Module):
    """The sum of two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """Return the sum."""
        return (x + y,)


@behaviour("aot", level="full", capabilities=("autograd",), sees=())
def graphs_of_modules_with_open_sizes(lab: Lab) -> None:
    """A graph of a module with open sizes keeps its weights and gives what the module gives for inputs of
    other sizes, plain and under functionalize.
    """
    linear = lab.to(whole(nn.Linear(2, 3)))
    x = lab.integers(3, 2)
    plain = graph_of(linear, x)
    functional = graph_of(torch.func.functionalize(linear), x)
    for rows in (3, 5):
        given = lab.integers(rows, 2)
        with torch.no_grad():
            lab.same(f"{rows} rows", [plain(given), functional(given)])
            due = linear(given)
            lab.holds(f"{rows} rows, as the module", near([plain(given), functional(given)], [due, due]))
