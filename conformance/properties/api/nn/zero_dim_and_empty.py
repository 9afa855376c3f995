"""Check modules and losses for dimensionless tensors and for tensors without elements."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: Elementwise modules, which accept tensors of any shape.
ELEMENTWISE: tuple[tuple[type[nn.Module], dict[str, Any]], ...] = (
    (nn.Threshold, {"threshold": 0.0, "value": 2.0}),
    (nn.ReLU, {}),
    (nn.RReLU, {}),
    (nn.Hardtanh, {}),
    (nn.ReLU6, {}),
    (nn.Sigmoid, {}),
    (nn.Tanh, {}),
    (nn.Softmax, {"dim": 0}),
    (nn.LogSoftmax, {"dim": 0}),
    (nn.ELU, {}),
    (nn.SELU, {}),
    (nn.CELU, {}),
    (nn.Hardshrink, {}),
    (nn.LeakyReLU, {}),
    (nn.LogSigmoid, {}),
    (nn.Softplus, {}),
    (nn.Softshrink, {}),
    (nn.PReLU, {}),
    (nn.Softsign, {}),
    (nn.Softmin, {"dim": 0}),
    (nn.Tanhshrink, {}),
)
LOSSES = (
    "MSELoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "SoftMarginLoss",
    "KLDivLoss",
    "HingeEmbeddingLoss",
)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "shape"),
    page="generated/torch.nn.ReLU.html",
    ground="The pages allow any number of dimensions; they do not name tensors without elements",
)
def modules_of_scalars_and_of_none(lab: Lab) -> None:
    """Elementwise modules accept dimensionless tensors and tensors without elements. Results and gradients
    have the shape of the input.
    """
    for kind, options in ELEMENTWISE:
        module = lab.to(kind(**options)).eval()
        for shape in ((), (0,), (0, 2), (2, 0, 3)):
            if kind is nn.PReLU and shape == (2, 0, 3):
                continue  # PReLU has one weight per channel, and this shape does not have channels
            leaf = (lab.floats(1)[0] if shape == () else lab.floats(*shape)).detach().requires_grad_()
            basis = (
                lab.parity("No page says that a dimension may be named for a tensor without dimensions")
                if shape == () and "dim" in options
                else contextlib.nullcontext()
            )
            with basis:
                result = module(leaf)
                lab.close(f"{kind.__name__} of {shape}", result, roundings=64)
                lab.holds(f"{kind.__name__} of {shape} keeps the shape", result.shape == leaf.shape)
                result.backward(torch.ones_like(result))
                assert leaf.grad is not None
                lab.close(f"gradient of {kind.__name__} of {shape}", leaf.grad, roundings=64)
                lab.holds(
                    f"the gradient of {kind.__name__} has the shape {shape}", leaf.grad.shape == leaf.shape
                )


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "shape"),
    page="generated/torch.nn.MSELoss.html",
    ground="The pages allow any number of dimensions and give a scalar or the shape of the input",
)
def losses_of_scalars(lab: Lab) -> None:
    """Losses of dimensionless tensors return a dimensionless tensor for each reduction. The gradient is
    dimensionless too.
    """
    for name in LOSSES:
        for reduction in ("none", "mean", "sum"):
            leaf = lab.floats(1, low=0.2, high=0.9)[0].detach().requires_grad_()
            # The targets of these losses are 1 or -1.
            one_or_minus_one = name in ("SoftMarginLoss", "HingeEmbeddingLoss")
            target = lab.put(-1.0) if one_or_minus_one else lab.floats(1, low=0.2, high=0.9)[0]
            result = getattr(nn, name)(reduction=reduction)(leaf, target)
            lab.close(f"{name}, {reduction}", result, roundings=64)
            lab.same(f"shape of {name}, {reduction}", result.shape)
            result.backward()
            assert leaf.grad is not None
            lab.close(f"gradient of {name}, {reduction}", leaf.grad, roundings=64)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "shape"),
    page="generated/torch.nn.TransformerEncoderLayer.html",
    ground="The output has the shape of the input; the page does not name empty batches",
)
def layers_of_empty_batches(lab: Lab) -> None:
    """Encoder and decoder layers of transformers preserve the shape of an empty batch, in train and eval
    mode. With probabilities as targets and zero classes, the unreduced cross entropy is zero.
    """
    for batch_first in (False, True):
        encoder = lab.to(nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first, dropout=0.0))
        decoder = lab.to(nn.TransformerDecoderLayer(8, 2, 16, batch_first=batch_first, dropout=0.0))
        shape, memory = ((0, 3, 8), (0, 2, 8)) if batch_first else ((3, 0, 8), (2, 0, 8))
        for training in (True, False):
            source, memory_input = lab.floats(*shape), lab.floats(*memory)
            name = f"batch first {batch_first}, training {training}"
            encoded = encoder.train(training)(source)
            lab.same(f"encoder, {name}", encoded.detach())
            lab.holds(f"encoder keeps the shape, {name}", encoded.shape == source.shape)
            decoded = decoder.train(training)(source, memory_input)
            lab.same(f"decoder, {name}", decoded.detach())
            lab.holds(f"decoder keeps the shape, {name}", decoded.shape == source.shape)
    loss = nn.CrossEntropyLoss(reduction="none")(lab.floats(5, 0), lab.floats(5, 0))
    with lab.parity("No page describes zero classes"):
        lab.same(
            "cross entropy of zero classes",
            [loss, nn.CrossEntropyLoss()(lab.floats(5, 0), lab.floats(5, 0)).shape],
        )
    lab.close("a loss", nn.CrossEntropyLoss()(lab.floats(5, 2), lab.put([0, 1, 0, 1, 1])))
