"""Check recurrent modules in rare cases: empty batches, dropout probabilities, projections, and old
pickles.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import are_close_in_float32


def _with_fixed_weights(lab: Lab, module: nn.Module) -> Any:
    """Return the module on the lab's device with evenly spaced weights, which are equal on the CPU and on the
    device.
    """
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.linspace(-0.4, 0.5, weight.numel()).reshape(weight.shape))
    return lab.to(module)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "shape"),
    page="generated/torch.nn.RNN.html",
    ground="The page gives the shapes for any batch size N; it does not name N = 0",
)
def recurrence_over_empty_batches(lab: Lab) -> None:
    """RNN, GRU and LSTM return empty results for an empty batch. The gradients of their weights are zero."""
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        for layers in (1, 2):
            module = _with_fixed_weights(lab, kind(3, 4, num_layers=layers))
            leaf = torch.zeros(5, 0, 3, device=lab.device, requires_grad=True)
            result, state = module(leaf)
            name = f"{kind.__name__} of {layers} layers"
            lab.holds(f"{name} has the shape of an empty batch", result.shape == (5, 0, 4))
            lab.same(f"shapes of {name}", [result.shape, [part.shape for part in state]])
            result.sum().backward()
            gradients = [weight.grad for weight in module.parameters()]
            lab.same(f"gradients of {name}", [leaf.grad, gradients])
            lab.holds(f"gradients of {name} are zeros", all(not bool(g.any()) for g in gradients))


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.RNN.html")
def dropout_between_recurrent_layers(lab: Lab) -> None:
    """In train mode, dropout between layers with a probability between 0 and 1 draws a new mask for each
    call, also in a copy of the module. In eval mode it does not change the results.
    """
    for probability in (0.0, 0.5, 1.0):
        module = _with_fixed_weights(
            lab, nn.RNN(50, 50, 2, bias=False, dropout=probability, nonlinearity="relu")
        )
        x = lab.integers(1, 1, 50, low=1, high=3) * 4.0
        module.train()
        first, second = module(x)[0].detach(), module(x)[0].detach()
        third = copy.deepcopy(module)(x)[0].detach()
        differs = not are_close_in_float32(lab, first, second)
        lab.holds(
            f"{probability}: two calls differ only with a probability of 0.5", differs == (probability == 0.5)
        )
        differs = not are_close_in_float32(lab, second, third)
        lab.holds(
            f"{probability}: a call of the copy differs only with a probability of 0.5",
            differs == (probability == 0.5),
        )
        if probability != 0.5:
            lab.close(f"{probability}: value", first, roundings=512, matrix=True)
        module.eval()
        evaluated = module(x)[0].detach()
        lab.close(f"{probability}: evaluated", evaluated, roundings=512, matrix=True)
        lab.holds(
            f"{probability}: eval mode gives equal results",
            are_close_in_float32(lab, evaluated, module(x)[0].detach()),
        )


@behaviour("nn", must_detect=("value", "error"), page="generated/torch.nn.LSTM.html")
def states_of_projected_lstms(lab: Lab) -> None:
    """An LSTM with ``proj_size`` accepts initial states of the matching sizes and uses zeros by default.
    States of any other size raise an error.
    """
    for layers, bidirectional in ((1, False), (2, False), (2, True)):
        module = _with_fixed_weights(
            lab, nn.LSTM(10, 20, num_layers=layers, proj_size=5, bidirectional=bidirectional)
        )
        x = lab.floats(3, 2, 10)
        number = layers * (2 if bidirectional else 1)
        hidden = torch.zeros(number, 2, 5, device=lab.device)
        cell = torch.zeros(number, 2, 20, device=lab.device)
        name = f"{layers} layers, bidirectional={bidirectional}"
        with_zero_states, without_states = module(x, (hidden, cell))[0], module(x)[0]
        lab.close(name, with_zero_states.detach(), roundings=512, matrix=True)
        lab.holds(
            f"{name}: the default state is zeros", are_close_in_float32(lab, with_zero_states, without_states)
        )
        for mismatch, wrong in {
            "a hidden state of the cell state's size": (cell, cell),
            "a cell state of the projection size": (hidden, hidden),
            "another batch": (hidden[:, :1].contiguous(), cell),
            "other layers": (torch.cat((hidden, hidden)), cell),
        }.items():
            lab.raises(f"{name}: {mismatch}", lambda w=wrong: module(x, w))  # type: ignore[misc]
    with lab.parity("No page says that the call is an error"):
        lab.raises("a proj_size equal to the hidden size", lambda: nn.LSTM(10, 20, proj_size=20), ValueError)
        lab.raises("a projection below zero", lambda: nn.LSTM(10, 20, proj_size=-1), ValueError)
        lab.raises("an RNN with proj_size", lambda: nn.RNN(10, 20, proj_size=5), ValueError)


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.LSTM.html",
    basis="consistency",
    ground="The LSTM restored from the old pickle and the original LSTM must give the same results",
)
def lstms_without_projections_in_pickles(lab: Lab) -> None:
    """An LSTM pickled before projections existed loads with ``proj_size=0`` and gives the same results."""
    module = _with_fixed_weights(lab, nn.LSTM(2, 3))
    x = lab.floats(32, 5, 2)
    expected = module(x)[0]
    state = dict(module.__getstate__())
    del state["proj_size"]
    old = nn.LSTM.__new__(nn.LSTM)
    old.__setstate__(pickle.loads(pickle.dumps(state)))
    lab.same("the projection", old.proj_size)
    result = old(x)[0]
    lab.close("result", result.detach(), roundings=512, matrix=True)
    lab.holds(
        "the result equals the result of the original module", are_close_in_float32(lab, result, expected)
    )
