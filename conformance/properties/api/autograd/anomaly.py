"""Behaviours of anomaly detection. Its reports name the node whose backward returned NaN, and the forward
call of this node.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _NaNGradient(Function):
    """The identity, as an ``autograd.Function`` whose backward returns NaN."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * float("nan")


class _NaNSecondGradient(Function):
    """The identity, as an ``autograd.Function`` whose double backward returns NaN."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _NaNGradient.apply(grad)


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value", "error", "message", "warning"),
    page="autograd.html",
)
def anomalies_of_second_derivatives(lab: Lab) -> None:
    """If NaN first appears in a double backward, anomaly detection raises an error in this double backward.
    The warnings contain two tracebacks: the traceback of the forward call that created the failing node, and
    the traceback of the earlier forward call whose backward made this call.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)

    def second_derivative_error_text() -> str:
        seed = torch.ones(2, device=lab.device, requires_grad=True)
        with torch.autograd.detect_anomaly():
            out = _NaNSecondGradient.apply(x)
            (first,) = torch.autograd.grad(out, x, seed, create_graph=True)
            lab.expect("the first derivative has no NaN", first.detach(), [1.0, 1.0])
            try:
                torch.autograd.grad(first.sum(), seed)
            except RuntimeError as error:
                return str(error)
        return ""

    lab.raises(
        "the second derivative",
        lambda: _raise_runtime_error_if_not_empty(second_derivative_error_text()),
        match="_NaNGradientBackward.* returned nan",
    )
    lab.warns(
        "the second derivative",
        second_derivative_error_text,
        match="Traceback of forward call that caused the error",
        is_documented=True,
    )
    lab.warns(
        "traceback of the earlier forward call",
        second_derivative_error_text,
        match="Previous calculation was induced by _NaNSecondGradient",
    )


def _raise_runtime_error_if_not_empty(text: str) -> None:
    if text:
        raise RuntimeError(text)


@behaviour(
    "autograd",
    must_detect=("value", "error", "message", "warning"),
    page="autograd.html",
    ground="any backward computation that gives NaN under detect_anomaly raises an error",
)
def anomalies_of_unwatched_forwards(lab: Lab) -> None:
    """If only the backward runs under anomaly detection, a NaN still raises an error. A warning says that no
    information about the forward is available.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)

    def backward_error_text() -> str:
        out = _NaNGradient.apply(x).sum()
        try:
            with torch.autograd.detect_anomaly():
                out.backward()
        except RuntimeError as error:
            return str(error)
        return ""

    lab.raises(
        "a backward with NaN",
        lambda: _raise_runtime_error_if_not_empty(backward_error_text()),
        match="_NaNGradientBackward.* returned nan",
    )
    lab.warns("a backward with NaN", backward_error_text, match="No forward pass information available")
    x.grad = None
    (x * 2).sum().backward()
    lab.expect("a gradient without NaN", x.grad, [2.0, 2.0])
