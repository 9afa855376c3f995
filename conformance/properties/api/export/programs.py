"""Behaviours of ``torch.export``: results, devices, saved files, dynamic shapes and decompositions of
exported programs.
"""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class TwoLayers(nn.Module):
    """A module with two linear layers, a buffer that counts calls, and a constant tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)
        self.register_buffer("calls", torch.zeros(()))
        self.shift = torch.tensor([1.0, -1.0])

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        # Module._apply does not move plain attributes such as this constant.
        self.shift = args[0](self.shift)
        return super()._apply(*args, **kwargs)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        """Count the call and return the output and the hidden layer."""
        self.calls.add_(1)  # type: ignore[operator]
        hidden = torch.relu(self.first(x)) * scale
        return {"out": self.second(hidden) + self.shift, "hidden": hidden}


def two_layer_module(lab: Lab) -> TwoLayers:
    """Return a ``TwoLayers`` module on the Lab's device. Its parameters are whole numbers, equal on the CPU
    and on the device.
    """
    model = lab.to(TwoLayers())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(lab.integers(*parameter.shape))
    return model


def device_types_in(graph: torch.fx.Graph) -> list[str]:
    """Return the sorted device types of the tensors in a graph, each once."""
    devices = {
        value.device.type
        for node in graph.nodes
        for value in [node.meta.get("val")]
        if isinstance(value, torch.Tensor)
    }
    return sorted(devices)


@behaviour("export", ground="The device of values in the graph follows from the page of the IR")
def exported_programs_run(lab: Lab) -> None:
    """An exported program computes the results of its module, names the module's state as the module does,
    and writes the module's buffers.
    """
    model, x, scale = two_layer_module(lab), lab.integers(5, 3), lab.integers(4)
    program = export(model, (x, scale))
    lab.same("the result", program.module()(x, scale))
    second_module = program.module()
    second = lab.integers(5, 3)
    lab.same("the result for inputs that were not exported", second_module(second, scale))
    lab.same("the result of a second call", second_module(second, scale))
    lab.same("the buffer was written", dict(second_module.named_buffers())["calls"])
    with lab.parity("No page says that running a module leaves the program's own state unchanged"):
        lab.same("the state of the program after the calls", program.state_dict["calls"])
    lab.same("the names of the program's state", sorted(program.state_dict))
    lab.same("parameters", {name: value.detach() for name, value in program.named_parameters()})
    lab.holds("every value is on the device", device_types_in(program.graph) == [lab.device.type])
    module_results = {key: value.detach() for key, value in model(second, scale).items()}
    program_results = {key: value.detach() for key, value in program.module()(second, scale).items()}
    lab.holds(
        "the program and the module give the same results",
        all(torch.equal(program_results[key], module_results[key]) for key in module_results),
    )


@behaviour("export")
def exported_sizes(lab: Lab) -> None:
    """A dimension that is declared dynamic may have any size within its range. Any other size raises an
    error.
    """
    model, x, scale = two_layer_module(lab), lab.integers(5, 3), lab.integers(4)
    rows = Dim("rows", min=2, max=64)
    program = export(model, (x, scale), dynamic_shapes={"x": {0: rows}, "scale": None})
    for size in (2, 7, 64):
        lab.same(f"{size} rows", program.module()(lab.integers(size, 3), scale))
    fixed = export(model, (x, scale)).module()
    lab.raises("another size", lambda: fixed(lab.integers(6, 3), scale), RuntimeError, AssertionError)
    lab.raises(
        "beyond the range", lambda: program.module()(lab.integers(65, 3), scale), RuntimeError, AssertionError
    )
    lab.raises(
        "another number of inputs", lambda: fixed(x), TypeError, RuntimeError, ValueError, AssertionError
    )


@behaviour(
    "export",
    page="user_guide/torch_compiler/export/api_reference.html",
    ground="The page says that load returns the saved program; it does not mention device, state or sizes",
)
def exported_programs_are_saved(lab: Lab) -> None:
    """A program that is saved and loaded keeps its device, its state and its dynamic shapes."""
    model, x, scale = two_layer_module(lab), lab.integers(5, 3), lab.integers(4)
    program = export(model, (x, scale), dynamic_shapes={"x": {0: Dim.AUTO}, "scale": None})
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    lab.same("the result", loaded.module()(x, scale))
    lab.same("of another size", loaded.module()(lab.integers(9, 3), scale))
    lab.same("state", dict(loaded.state_dict))
    lab.holds(
        "the values of the loaded program are on the device",
        device_types_in(loaded.graph) == [lab.device.type],
    )


@behaviour("export")
def exported_programs_decompose(lab: Lab) -> None:
    """A decomposed program gives the results of the original program and calls only core operators."""
    model, x, scale = two_layer_module(lab), lab.integers(5, 3), lab.integers(4)
    program = export(model, (x, scale)).run_decompositions()
    lab.same("the result", program.module()(x, scale))
    calls = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    with lab.parity("The page names the set of core operators, but not the operators of a decomposed module"):
        lab.same("operators of the decomposed program", sorted(calls))
    lab.holds("no linear operator remains", not any(".linear." in call for call in calls))
