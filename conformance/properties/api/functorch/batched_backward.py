"""Behaviours of ``torch.autograd.grad`` with ``is_grads_batched``, compared with single backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

BATCH = 3


def check_batched_backward(
    lab: Lab, name: str, function: Callable[..., Any], *inputs: torch.Tensor, rounded: bool = False
) -> None:
    """Compare the gradients that ``is_grads_batched`` returns with the gradients of single backward passes.
    Then compare second-order gradients in the same way.
    """
    starts = [x.detach().requires_grad_() for x in inputs]
    outputs = [
        out for out in leaves(function(*starts)) if isinstance(out, torch.Tensor) and out.requires_grad
    ]
    weights = [lab.integers(BATCH, *out.shape) for out in outputs]

    def gradients_of_inputs(outputs: Any, cotangents: Any, batched: bool) -> Any:
        result = torch.autograd.grad(
            outputs,
            starts,
            cotangents,
            retain_graph=True,
            create_graph=True,
            allow_unused=True,
            is_grads_batched=batched,
        )
        return [
            torch.zeros((BATCH, *x.shape) if batched else x.shape, device=x.device)
            if gradient is None
            else gradient
            for gradient, x in zip(result, starts, strict=True)
        ]

    def compare_with_single_passes(case_name: str, outputs: Any, cotangents: Any) -> Any:
        result = gradients_of_inputs(outputs, cotangents, True)
        rows = [gradients_of_inputs(outputs, [w[row] for w in cotangents], False) for row in range(BATCH)]
        expected_gradients = [
            torch.stack([row[index] for row in rows]).detach() for index in range(len(starts))
        ]
        gradients = [gradient.detach() for gradient in result]
        if rounded:
            lab.close(case_name, gradients, roundings=64)
            agrees = all(
                torch.allclose(value, expected, rtol=1e-4, atol=1e-5)
                for value, expected in zip(gradients, expected_gradients, strict=True)
            )
        else:
            lab.same(case_name, gradients)
            agrees = all(
                torch.equal(value, expected)
                for value, expected in zip(gradients, expected_gradients, strict=True)
            )
        lab.holds(f"{case_name}: agrees with single passes", agrees)
        return rows[0]

    first = [output for output in compare_with_single_passes(name, outputs, weights) if output.requires_grad]
    if first:
        compare_with_single_passes(
            f"{name}, second order", first, [lab.integers(BATCH, *output.shape) for output in first]
        )


@behaviour(
    "functorch", level="full", capabilities=("double_backward",), page="generated/torch.autograd.grad.html"
)
def batched_gradients_exact(lab: Lab) -> None:
    """With ``is_grads_batched``, a backward pass through arithmetic, views, joins and selections returns the
    stacked gradients of single passes.
    """
    x, y = lab.integers(2, 3), lab.integers(2, 3)
    for name in ("add", "sub", "mul", "maximum"):
        check_batched_backward(lab, name, getattr(torch, name), x, y + 0.5)
        check_batched_backward(lab, f"{name} of other shapes", getattr(torch, name), x, y[0] + 0.5)
    functions: dict[str, Callable[[torch.Tensor], Any]] = {
        "square": lambda a: a * a,
        "cube": lambda a: a * a * a,
        "expand": lambda a: a.unsqueeze(0).expand(4, 2, 3),
        "reshape": lambda a: a.reshape(3, 2),
        "permute": lambda a: a.permute(1, 0),
        "select": lambda a: a.select(1, 1),
        "slice": lambda a: a[:, 1:] * a[:, :-1],
        "step": lambda a: a[:, ::2],
        "index": lambda a: a[lab.put([1, 0, 1])],
        "index of both": lambda a: a[lab.put([1, 0]), lab.put([0, 2])],
        "diagonal": lambda a: a.diagonal(),
        "trace": lambda a: (a @ a.t()).trace(),
        "stack": lambda a: torch.stack([a, a * a]),
        "cat": lambda a: torch.cat([a, a * 2], 1),
        "unbind": lambda a: list(a.unbind(1)),
        "split": lambda a: list((a * a).split(2, 1)),
        "where": lambda a: torch.where(a > 0, a * a, -a),
        "threshold": lambda a: F.threshold(a, 0.5, 3.0),
        "relu": F.relu,
        "sum": lambda a: (a * a).sum(1),
        "in place": lambda a: a.clone().mul_(a),
        "a view written": lambda a: (lambda b: (b[0].mul_(2), b)[1])(a * a),
        "many views written": lambda a: (lambda b: ([b.select(1, n).add_(1) for n in range(3)], b)[1] * b)(
            a * 1
        ),
        "an output that does not depend on the input": lambda a: (
            a * a,
            torch.ones(2, device=a.device, requires_grad=True) * 2,
        ),
    }
    for name, function in functions.items():
        check_batched_backward(lab, name, function, x)
    distinct = lab.put(torch.tensor([[3.0, 1, 2], [5, 9, 7]]))
    for name in ("max", "min", "median"):
        check_batched_backward(lab, name, getattr(torch, name), distinct)
        check_batched_backward(
            lab, f"{name} over a dimension", lambda a, f=getattr(torch, name): f(a, 1).values, distinct
        )


@behaviour(
    "functorch", level="full", capabilities=("double_backward",), page="generated/torch.autograd.grad.html"
)
def batched_gradients_rounded(lab: Lab) -> None:
    """With ``is_grads_batched``, a backward pass through divisions, exponentials, logarithms, softmax and
    losses returns the stacked gradients of single passes.
    """
    x, y = lab.floats(2, 3, low=0.5, high=2.0), lab.floats(2, 3, low=0.5, high=2.0)
    check_batched_backward(lab, "div", torch.div, x, y, rounded=True)
    for name in ("exp", "log", "log1p", "sigmoid", "tanh", "sqrt", "lgamma", "sin"):
        check_batched_backward(lab, name, getattr(torch, name), x, rounded=True)
    check_batched_backward(lab, "logsumexp", lambda a: torch.logsumexp(a, 1), x, rounded=True)
    check_batched_backward(lab, "log_softmax", lambda a: F.log_softmax(a, 1), x, rounded=True)
    check_batched_backward(lab, "softmax", lambda a: F.softmax(a, 0), x, rounded=True)
    check_batched_backward(
        lab,
        "binary_cross_entropy",
        lambda a: F.binary_cross_entropy(torch.sigmoid(a), (y > 1).to(a.dtype), reduction="none"),
        x,
        rounded=True,
    )
    q = lab.floats(1, 4, 2)
    with sdpa_kernel(SDPBackend.MATH):  # fused kernels need not have a second derivative
        check_batched_backward(
            lab, "attention", lambda a: F.scaled_dot_product_attention(a, a * 0.5, a + 1), q, rounded=True
        )
    check_batched_backward(lab, "layer_norm", lambda a: F.layer_norm(a, (3,)), x, rounded=True)
