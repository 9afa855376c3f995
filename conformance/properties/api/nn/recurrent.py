"""Check recurrent modules and cells: known values, batch layouts, packed sequences, dropout, and errors."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.utils import rnn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import (
    are_close_in_float32,
    gradients_by_name,
    with_whole_number_state,
)

MODULES = (nn.RNN, nn.LSTM, nn.GRU)


def _with_small_weights(lab: Lab, module: nn.Module) -> nn.Module:
    """Return the module with small weights, so that its gates do not saturate."""
    with_whole_number_state(lab, module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.25)
    return module


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.LSTM.html",
)
def recurrent_modules(lab: Lab) -> None:
    """RNN, LSTM and GRU return correct results for each batch layout, without a batch, with and without
    initial states, and for several layers, directions and biases.
    """
    for make in MODULES:
        for options in (
            {},
            {"num_layers": 2},
            {"bidirectional": True},
            {"bias": False},
            {"num_layers": 2, "bidirectional": True},
        ):
            module = _with_small_weights(lab, make(3, 4, **options))
            x = lab.floats(5, 2, 3, requires_grad=True)
            y, last = module(x)
            label = f"{make.__name__} {options}"
            lab.close(f"{label}: result", (y, last), roundings=256, matrix=True)
            output_gradient = lab.floats(*y.shape)
            y.backward(output_gradient)
            lab.close(f"{label}: gradients", (x.grad, gradients_by_name(module)), roundings=1024, matrix=True)
    for make in MODULES:
        module = _with_small_weights(lab, make(3, 4))
        x = lab.floats(5, 2, 3)
        y, last = module(x)
        first: Any = copy.deepcopy(module)
        first.batch_first = True
        lab.close(
            f"{make.__name__}: batch first",
            first(x.transpose(0, 1))[0].transpose(0, 1),
            roundings=256,
            matrix=True,
        )
        lab.close(f"{make.__name__}: without a batch", module(x[:, 0])[0], roundings=256, matrix=True)
        zeros = torch.zeros(1, 2, 4, device=lab.device)
        start = (zeros, zeros) if make is nn.LSTM else zeros
        lab.close(
            f"{make.__name__}: result with an initial state of zeros",
            module(x, start)[0],
            roundings=256,
            matrix=True,
        )
        half, state = module(x[:2])
        rest, _ = module(x[2:], state)
        lab.close(f"{make.__name__}: in two parts", torch.cat((half, rest)), roundings=256, matrix=True)
        lab.close(
            f"{make.__name__}: with gaps",
            module(lab.floats(5, 4, 6)[:, ::2, ::2])[0],
            roundings=256,
            matrix=True,
        )
        lab.same(f"{make.__name__}: no samples", module(lab.floats(5, 0, 3))[0].shape)
    relu = with_whole_number_state(lab, nn.RNN(2, 2, nonlinearity="relu", bias=False), low=0, high=3)
    lab.same("relu of whole numbers", relu(lab.integers(3, 1, 2)))
    project = _with_small_weights(lab, nn.LSTM(3, 4, proj_size=2, num_layers=2))
    y, (h, c) = project(lab.floats(5, 2, 3))
    lab.close("projections", (y, h, c), roundings=256, matrix=True)


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.LSTMCell.html",
)
def recurrent_cells(lab: Lab) -> None:
    """A recurrent cell computes one time step of its module, with and without a state, with and without a
    batch, and with a state of size zero.
    """
    for make, whole_module in ((nn.RNNCell, nn.RNN), (nn.LSTMCell, nn.LSTM), (nn.GRUCell, nn.GRU)):
        cell = _with_small_weights(lab, make(3, 4))
        x = lab.floats(2, 3, requires_grad=True)
        result = cell(x)
        lab.close(f"{make.__name__}: result", result, roundings=128, matrix=True)
        module = whole_module(3, 4).to(lab.device)
        values = {f"{name}_l0": value for name, value in cell.state_dict().items()}
        module.load_state_dict(values)
        lab.close(f"{make.__name__}: the module's step", module(x[None])[0][0], roundings=128, matrix=True)
        lab.close(f"{make.__name__}: another step", cell(x, result), roundings=128, matrix=True)
        lab.close(f"{make.__name__}: without a batch", cell(x[0]), roundings=128, matrix=True)
        total = result[0] if isinstance(result, tuple) else result
        total.sum().backward()
        lab.close(
            f"{make.__name__}: gradients", (x.grad, gradients_by_name(cell)), roundings=512, matrix=True
        )
        bare = _with_small_weights(lab, make(3, 4, bias=False))
        lab.close(f"{make.__name__}: without bias", bare(x.detach()), roundings=128, matrix=True)
        with lab.parity("No page says that a state of size zero is accepted"):
            none = make(3, 0).to(lab.device)
            lab.same(f"{make.__name__}: a state of size zero", none(x.detach()))
    relu = with_whole_number_state(lab, nn.RNNCell(2, 2, nonlinearity="relu"))
    lab.same("relu of whole numbers", relu(lab.integers(3, 2), lab.integers(3, 2)))
    lstm = _with_small_weights(lab, nn.LSTMCell(3, 4))
    x = lab.floats(2, 3, requires_grad=True)
    h, c = lstm(x)
    lab.close(
        "gradient of the hidden state alone",
        torch.autograd.grad(h.sum(), x, retain_graph=True),
        roundings=512,
    )
    lab.close("gradient of the cell state alone", torch.autograd.grad(c.sum(), x), roundings=512, matrix=True)


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd", "double_backward"),
    must_detect=("value",),
    page="generated/torch.nn.LSTM.html",
    ground="gradients follow from the formulas; retain_graph is on the page of autograd.grad",
)
def recurrent_gradients_again(lab: Lab) -> None:
    """With ``retain_graph``, backward passes of recurrent modules can be repeated. Second-order gradients are
    correct.
    """
    for make in MODULES:
        module = _with_small_weights(lab, make(2, 3, num_layers=2))
        x = lab.floats(4, 2, 2, requires_grad=True)
        y, _ = module(x)
        first = torch.autograd.grad(y.sum(), x, retain_graph=True)
        lab.close(
            f"{make.__name__}: twice", (first, torch.autograd.grad(y.sum(), x)), roundings=1024, matrix=True
        )
        y, _ = module(x)
        with lab.parity("No page says that recurrent modules can be differentiated twice"):
            (slope,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
            lab.close(
                f"{make.__name__}: second gradient",
                torch.autograd.grad(slope.square().sum(), x),
                roundings=8192,
            )
        x.grad = None
        for _ in range(2):
            module(x)[0].sum().backward()
        lab.close(f"{make.__name__}: added up", x.grad, roundings=1024, matrix=True)


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.nn.LSTM.html",
)
def packed_sequences_in_modules(lab: Lab) -> None:
    """For each sequence of a packed batch, a recurrent module returns the result of this sequence alone. The
    batch may be sorted by length or not.
    """
    lengths = [4, 2, 3]
    padded: Any = lab.floats(4, 3, 2, requires_grad=True)
    for make in MODULES:
        for options in ({}, {"bidirectional": True, "num_layers": 2}):
            module = _with_small_weights(lab, make(2, 3, **options))
            packed = rnn.pack_padded_sequence(padded, torch.tensor(lengths), enforce_sorted=False)
            out, last = module(packed)
            unpacked, sizes = rnn.pad_packed_sequence(out)
            label = f"{make.__name__} {options}"
            lab.same(f"{label}: lengths", sizes, host=True)
            lab.close(f"{label}: padded again", unpacked, roundings=256, matrix=True)
            lab.close(f"{label}: last states", last, roundings=256, matrix=True)
            for sequence_index, size in enumerate(lengths):
                alone = module(padded[:size, sequence_index])[0]
                lab.holds(
                    f"{label}: sequence {sequence_index} has the result of the sequence alone",
                    are_close_in_float32(lab, alone, unpacked[:size, sequence_index]),
                )
            padded.grad = None
            unpacked.sum().backward()
            lab.close(f"{label}: gradient", padded.grad, roundings=1024, matrix=True)
            lab.holds(f"{label}: the padding has no gradient", padded.grad[2:, 1].abs().max() == 0)
    start = lab.floats(1, 3, 3)
    gru = _with_small_weights(lab, nn.GRU(2, 3))
    out, last = gru(packed, start)
    lab.close("an initial state in the order of the sequences", (out.data, last), roundings=256, matrix=True)
    lab.raises(
        "an unsorted batch", lambda: rnn.pack_padded_sequence(padded, torch.tensor([2, 4, 3])), match="sorted"
    )


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.LSTM.html")
def dropout_in_recurrent_modules(lab: Lab) -> None:
    """Dropout between layers applies in train mode only. With ``p=0`` it does not change the results. With
    ``p=1`` the later layers receive zeros.
    """
    for make in MODULES:
        module: Any = _with_small_weights(lab, make(3, 4, num_layers=2, dropout=0.5))
        x = lab.floats(5, 2, 3)
        still: Any = copy.deepcopy(module)
        still.dropout = 0.0
        lab.close(
            f"{make.__name__}: no dropout in eval mode", module.eval()(x)[0], roundings=256, matrix=True
        )
        lab.close(f"{make.__name__}: dropout with p=0", still(x)[0], roundings=256, matrix=True)
        module.train()
        module.dropout = 1.0
        cut = module(x)[0]
        lab.close(f"{make.__name__}: at one", cut, roundings=256, matrix=True)
        lab.close(f"{make.__name__}: whatever the input", module(x * 2)[0], roundings=256, matrix=True)
        module.dropout = 0.5
        torch.manual_seed(3)
        first = module(x)[0]
        torch.manual_seed(3)
        # The page says that results may differ from call to call. Small differences are therefore allowed.
        with lab.consistent("two calls after the same seed must drop the same elements"):
            lab.holds(
                f"{make.__name__}: the same seed gives the same dropout",
                are_close_in_float32(lab, first, module(x)[0]),
            )
        lab.holds(
            f"{make.__name__}: the next call drops other elements", not torch.equal(first, module(x)[0])
        )
    lab.warns("dropout with one layer", lambda: nn.LSTM(2, 2, dropout=0.5), match="(?i)num_layers")


@behaviour(
    "nn",
    must_detect=("error", "message"),
    page="generated/torch.nn.LSTM.html",
    basis="parity",
    ground="No page says that these sizes, options and dtypes raise an error",
)
def refusals_of_recurrent_modules(lab: Lab) -> None:
    """Recurrent modules raise an error for invalid options, for wrong sizes and dtypes of input and state,
    and for empty sequences.
    """
    for make in MODULES:
        for name, options in (
            ("a size of zero", {"hidden_size": 0}),
            ("a negative size", {"hidden_size": -1}),
            ("a size that is not an integer", {"hidden_size": 2.5}),
            ("no layers", {"num_layers": 0}),
            ("a number of layers that is not an integer", {"num_layers": 1.5}),
            ("dropout above one", {"dropout": 1.5}),
            ("dropout that is a string", {"dropout": "much"}),
        ):
            arguments = {"input_size": 2, "hidden_size": 3} | options
            lab.raises(f"{make.__name__} with {name}", lambda: make(**arguments), ValueError, TypeError)
        module = with_whole_number_state(lab, make(2, 3))
        x = lab.floats(4, 2, 2)
        lab.raises(f"{make.__name__}: another size of input", lambda: module(lab.floats(4, 2, 5)))
        lab.raises(
            f"{make.__name__}: four dimensions",
            lambda: module(lab.floats(1, 4, 2, 2)),
            ValueError,
            RuntimeError,
            AssertionError,
        )
        lab.raises(f"{make.__name__}: no steps", lambda: module(x[:0]), match="(?i)sequence length")
        for shape in ((1, 5, 3), (1, 2, 4), (2, 2, 3)):
            wrong = lab.floats(*shape)
            state = (wrong, wrong) if make is nn.LSTM else wrong
            lab.raises(
                f"{make.__name__}: a state of {shape}",
                lambda: module(x, state),
                match="(?i)expected hidden",
            )
        flat = (lab.floats(1, 3),) * 2 if make is nn.LSTM else lab.floats(1, 3)
        lab.raises(f"{make.__name__}: a state without a batch", lambda: module(x, flat))
        lab.raises(
            f"{make.__name__}: another dtype",
            lambda: module(x.to(torch.bfloat16)),
            ValueError,
            RuntimeError,
        )
    for make in (nn.RNN, nn.GRU):
        with lab.documented():
            lab.raises(
                f"projections in {make.__name__}",
                lambda: make(2, 3, proj_size=1),
                ValueError,
                match="(?i)proj_size",
            )
    with lab.documented():
        lab.raises(
            "a proj_size as large as the hidden size",
            lambda: nn.LSTM(2, 3, proj_size=3),
            ValueError,
            match="(?i)proj_size",
        )
    lab.raises(
        "a negative projection", lambda: nn.LSTM(2, 3, proj_size=-1), ValueError, match="(?i)proj_size"
    )
    short = with_whole_number_state(lab, nn.LSTM(2, 3, proj_size=2))
    lab.raises(
        "a state of the wrong projection size",
        lambda: short(lab.floats(4, 2, 2), (lab.floats(1, 2, 3), lab.floats(1, 2, 3))),
        match="(?i)expected hidden",
    )
    with lab.documented():
        lab.raises(
            "a nonlinearity that is unknown",
            lambda: nn.RNN(2, 3, nonlinearity="garbage"),
            ValueError,
            match="(?i)nonlinearity",
        )
        lab.raises(
            "no nonlinearity", lambda: nn.RNN(2, 3, nonlinearity=None), ValueError, match="(?i)nonlinearity"
        )
    for kind in (nn.RNNCell, nn.LSTMCell, nn.GRUCell):
        cell = with_whole_number_state(lab, kind(2, 3))
        lab.raises(f"{kind.__name__}: another size of input", lambda: cell(lab.floats(4, 5)))
        lab.raises(f"{kind.__name__}: three dimensions", lambda: cell(lab.floats(4, 2, 2)), ValueError)
        for size in ((1, 3), (5, 3), (4, 4)):
            wrong = lab.floats(*size)
            state = (wrong, wrong) if kind is nn.LSTMCell else wrong
            lab.raises(f"{kind.__name__}: a state of {size}", lambda: cell(lab.floats(4, 2), state))


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.LSTM.html",
    ground="The formula uses the weights that the module's attributes name",
)
def weights_of_recurrent_modules(lab: Lab) -> None:
    """Weights of recurrent modules can be replaced, shared and moved, and ``flatten_parameters`` may be
    omitted. A copy computes the same results and has separate weights.
    """
    module: Any = _with_small_weights(lab, nn.LSTM(2, 3, num_layers=2))
    x = lab.floats(4, 2, 2)
    y = module(x)[0]
    lab.close("result", y, roundings=256, matrix=True)
    module.weight_hh_l0 = nn.Parameter(module.weight_hh_l1.detach().clone())
    lab.close("a replaced weight counts", module(x)[0], roundings=256, matrix=True)
    module.weight_hh_l0 = module.weight_hh_l1
    shared = module(x)[0]
    lab.close("a shared weight", shared, roundings=256, matrix=True)
    lab.same("is listed once", [name for name, _ in module.named_parameters()])
    with torch.no_grad():
        module.weight_hh_l1.zero_()
    lab.close("and changes both", module(x)[0], roundings=256, matrix=True)
    copied: Any = copy.deepcopy(module)
    with lab.consistent("A copy must return the result of the original"):
        lab.close("a copy", copied(x)[0], roundings=256, matrix=True)
    with torch.no_grad():
        copied.bias_ih_l0.add_(1)
    with lab.consistent("The original must return the same result before and after its copy changes"):
        lab.close("is its own", module(x)[0], roundings=256, matrix=True)
    moved = module.to("cpu").to(lab.device)
    with lab.consistent("A module must return the same result before and after a move to the host and back"):
        lab.close("to the host and back", moved(x)[0], roundings=256, matrix=True)

    class LSTMWithoutFlattening(nn.LSTM):
        """An LSTM whose ``flatten_parameters`` does nothing."""

        def flatten_parameters(self) -> None:
            return None

    partial = LSTMWithoutFlattening(2, 3).to(lab.device)
    partial.load_state_dict(
        {name: value for name, value in module.state_dict().items() if name.endswith("l0")}
    )
    with lab.consistent(
        "A module with unflattened weights must return the result of a module with flattened weights"
    ):
        lab.close("a module without flattened weights", partial(x)[0], roundings=256, matrix=True)
