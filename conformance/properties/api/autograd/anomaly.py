"""Reports of anomaly detection: the forward call of the node whose backward returned NaN."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _Poisoned(Function):
    """The identity, with a backward that returns NaN."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * float("nan")


class _PoisonedLater(Function):
    """The identity, with a backward whose own backward returns NaN."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _Poisoned.apply(grad)


@behaviour("autograd", sees=("value", "error", "message", "warning"))
def anomalies_of_second_derivatives(lab: Lab) -> None:
    """If NaN first appears in the backward of a backward, anomaly detection raises there. It warns with the
    traceback of the forward call and of the previous calculation that induced it.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)

    def second() -> str:
        seed = torch.ones(2, device=lab.device, requires_grad=True)
        with torch.autograd.detect_anomaly():
            out = _PoisonedLater.apply(x)
            (first,) = torch.autograd.grad(out, x, seed, create_graph=True)
            lab.expect("the first derivative has no NaN", first.detach(), [1.0, 1.0])
            try:
                torch.autograd.grad(first.sum(), seed)
            except RuntimeError as error:
                return str(error)
        return ""

    lab.raises(
        "the second derivative", lambda: _raise_if_text(second()), match="_PoisonedBackward.* returned nan"
    )
    lab.warns("the second derivative", second, match="Traceback of forward call that caused the error")
    lab.warns("that which induced it", second, match="Previous calculation was induced by _PoisonedLater")


def _raise_if_text(text: str) -> None:
    if text:
        raise RuntimeError(text)


@behaviour("autograd", sees=("value", "error", "message", "warning"))
def anomalies_of_unwatched_forwards(lab: Lab) -> None:
    """Anomaly detection around the backward alone still raises. It warns that no information about the
    forward is available.
    """
    x = lab.put([1.0, 2.0], requires_grad=True)

    def run() -> str:
        out = _Poisoned.apply(x).sum()
        try:
            with torch.autograd.detect_anomaly():
                out.backward()
        except RuntimeError as error:
            return str(error)
        return ""

    lab.raises("a backward with NaN", lambda: _raise_if_text(run()), match="_PoisonedBackward.* returned nan")
    lab.warns("a backward with NaN", run, match="No forward pass information available")
    x.grad = None
    (x * 2).sum().backward()
    lab.expect("a gradient without NaN", x.grad, [2.0, 2.0])
