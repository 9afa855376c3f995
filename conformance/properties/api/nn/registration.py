"""Check the registration of parameters, buffers and submodules in a module, and their names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state


@behaviour("nn", level="core", must_detect=("value", "error"), page="generated/torch.nn.Module.html")
def registering_parameters(lab: Lab) -> None:
    """Parameters can be registered by assignment and by name, replaced, and set to None. Invalid names and
    values raise an error.
    """
    module: Any = nn.Module()
    first, second = nn.Parameter(lab.integers(2)), nn.Parameter(lab.integers(3))
    module.register_parameter("a", first)
    module.b = second
    module.register_parameter("none", None)
    lab.same("names", ([n for n, _ in module.named_parameters()], module.none))
    module.register_parameter("a", second)
    lab.holds("a parameter can be registered again under its name", module.a is second)
    module.a = first
    lab.same("assigned", module.a * 2)
    module.a = None
    lab.same("without", [n for n, _ in module.named_parameters()])
    module.none = first
    lab.same("in place of None", module.none + 1)
    lab.holds("get_parameter returns a parameter by name", module.get_parameter("b") is second)
    outer = nn.Module()
    outer.add_module("inner", module)
    lab.holds("get_parameter returns a parameter of a submodule", outer.get_parameter("inner.b") is second)
    del module.b
    lab.same("after a deletion", [n for n, _ in outer.named_parameters()])
    module.plain = 3
    with lab.parity("No page says that the call is an error"):
        lab.raises("a name that is not a string", lambda: module.register_parameter(5, first), TypeError)
        lab.raises(
            "a name that an attribute already has",
            lambda: module.register_parameter("plain", first),
            KeyError,
        )
        lab.raises("a name with a dot", lambda: module.register_parameter("x.y", first), KeyError)
        lab.raises("an empty name", lambda: module.register_parameter("", first), KeyError)
        lab.raises("a tensor", lambda: module.register_parameter("t", lab.integers(2)), TypeError)
        lab.raises("a result", lambda: module.register_parameter("r", first * 2), TypeError, ValueError)
        lab.raises(
            "a tensor in place of a parameter", lambda: setattr(module, "none", lab.integers(2)), TypeError
        )
        lab.raises("a number in place of a parameter", lambda: setattr(module, "none", 5), TypeError)
    lab.raises(
        "a parameter that does not exist",
        lambda: outer.get_parameter("inner.zz"),
        AttributeError,
        type_is_documented=True,
    )


@behaviour("nn", level="core", must_detect=("value", "error"), page="generated/torch.nn.Module.html")
def registering_buffers(lab: Lab) -> None:
    """Buffers can be registered and looked up by name. They are in the state dict unless
    ``persistent=False``.
    """
    module: Any = nn.Module()
    first, second = lab.integers(2), lab.integers(3)
    module.register_buffer("a", first)
    module.register_buffer("b", second, persistent=False)
    module.register_buffer("none", None)
    lab.same("names", ([n for n, _ in module.named_buffers()], list(module.state_dict())))
    lab.same("values", list(module.buffers()))
    module.register_buffer("a", second)
    lab.holds("a buffer can be registered again under its name", module.get_buffer("a") is second)
    module.a = first
    lab.same("assigned", (module.a * 3, list(module.state_dict())))
    module.b = first
    lab.same("state after assignment to a buffer that is not persistent", list(module.state_dict()))
    module.register_buffer("b", second)
    lab.same("state after the buffer was registered again", list(module.state_dict()))
    module.register_buffer("b", second, persistent=False)
    del module.b
    module.register_buffer("b", second)
    lab.same("state after the buffer was deleted and registered", list(module.state_dict()))
    module.b = None
    lab.same("None is left out", (list(module.state_dict()), [n for n, _ in module.named_buffers()]))
    outer = nn.Module()
    outer.inner = module
    lab.holds("get_buffer returns a buffer of a submodule", outer.get_buffer("inner.a") is first)
    module.register_buffer("late", first, persistent=False)
    report = outer.load_state_dict({"inner.a": second[:2]}, strict=True)
    lab.same(
        "a state without buffers that are not persistent",
        (report.missing_keys, report.unexpected_keys, module.a),
    )
    holder = nn.Module()
    holder.held = nn.Buffer(first, persistent=False)
    lab.same(
        "a Buffer registers by assignment",
        ([n for n, _ in holder.named_buffers()], list(holder.state_dict())),
    )
    module.plain = 3
    with lab.parity("No page says that the call is an error"):
        lab.raises("a name that is not a string", lambda: module.register_buffer(5, first), TypeError)
        lab.raises(
            "a name that an attribute already has", lambda: module.register_buffer("plain", first), KeyError
        )
        lab.raises("a name with a dot", lambda: module.register_buffer("x.y", first), KeyError)
        lab.raises("a word", lambda: module.register_buffer("w", "word"), TypeError)
    lab.raises(
        "a buffer that does not exist",
        lambda: module.get_buffer("zz"),
        AttributeError,
        type_is_documented=True,
    )
    lab.raises(
        "a parameter is not a buffer",
        lambda: with_whole_number_state(lab, nn.Linear(1, 1)).get_buffer("weight"),
        AttributeError,
        type_is_documented=True,
    )


@behaviour("nn", must_detect=("value", "error"), page="generated/torch.nn.Module.html")
def registering_modules(lab: Lab) -> None:
    """Modules can be registered by assignment and by name, replaced, set to None, and looked up by path."""
    first, second = (
        with_whole_number_state(lab, nn.Linear(2, 2)),
        with_whole_number_state(lab, nn.Linear(2, 2)),
    )
    outer: Any = nn.Module()
    outer.add_module("a", first)
    outer.register_module("b", second)
    outer.add_module("none", None)
    x = lab.integers(1, 2)
    lab.same("children", ([n for n, _ in outer.named_children()], outer.a(x), outer.none))
    outer.add_module("a", second)
    lab.holds("a module can be registered again under its name", outer.a is second)
    with lab.parity("No page says that named_children lists a shared child once"):
        lab.same("each child once", [n for n, _ in outer.named_children()])
    outer.a = nn.Sequential(first)
    lab.holds(
        "get_submodule returns the module at a path",
        outer.get_submodule("a.0") is first and outer.get_submodule("") is outer,
    )
    outer.set_submodule("a.0", second)
    lab.same("set by a path", outer.a(x))
    outer.plain = 3
    with lab.parity("No page says that the call is an error"):
        lab.raises("a name that is not a string", lambda: outer.add_module(5, first), TypeError)
        lab.raises("a name that an attribute already has", lambda: outer.add_module("plain", first), KeyError)
        lab.raises("a name with a dot", lambda: outer.add_module("x.y", first), KeyError)
        lab.raises("an empty name", lambda: outer.add_module("", first), KeyError)
        lab.raises("a number", lambda: outer.add_module("n", 5), TypeError)
    lab.raises(
        "a path that does not exist",
        lambda: outer.get_submodule("a.7"),
        AttributeError,
        type_is_documented=True,
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("an attribute that does not exist", lambda: outer.zz, AttributeError)
    lab.raises("a module without super().__init__()", lambda: _ModuleWithoutSuperInit(), AttributeError)
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "a property that fails", lambda: _ModuleWithFailingProperty().failing_property, AttributeError
        )
    lab.same("a property that works", _ModuleWithFailingProperty().working_property)


class _ModuleWithoutSuperInit(nn.Module):
    def __init__(self) -> None:
        self.layer = nn.Linear(1, 1)


class _ModuleWithFailingProperty(nn.Module):
    @property
    def failing_property(self) -> Any:
        return self.other

    @property
    def working_property(self) -> int:
        return 3


class _SharedLayerNet(nn.Module):
    """A module with a shared submodule under two names."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.shared = with_whole_number_state(lab, nn.Linear(2, 2))
        self.again = self.shared
        self.norm = with_whole_number_state(lab, nn.BatchNorm1d(2))
        self.deep = nn.Sequential(self.shared, nn.ReLU())


@behaviour("nn", level="core", must_detect=("value",), page="generated/torch.nn.Module.html")
def names_and_iteration(lab: Lab) -> None:
    """Parameters, buffers, children and modules are listed by path. A shared object is listed once, unless
    ``remove_duplicate=False``.
    """
    net = _SharedLayerNet(lab)
    lab.same("parameters", [n for n, _ in net.named_parameters()])
    lab.same("all of them", [n for n, _ in net.named_parameters(remove_duplicate=False)])
    lab.same("with a prefix", [n for n, _ in net.named_parameters(prefix="net")])
    lab.same("own ones", [n for n, _ in net.named_parameters(recurse=False)])
    lab.same("buffers", [n for n, _ in net.named_buffers()])
    lab.same("own buffers", [n for n, _ in net.norm.named_buffers(prefix="p", recurse=False)])
    with lab.parity("No page says that the children list a shared module once"):
        lab.same("children", [n for n, _ in net.named_children()])
        lab.same("count of children", len(list(net.children())))
    lab.same("modules", [n for n, _ in net.named_modules()])
    lab.same("all modules", [n for n, _ in net.named_modules(remove_duplicate=False)])
    lab.holds("modules() starts with the module itself", next(net.modules()) is net)
    lab.same("sum over parameters", torch.stack([tensor.sum() for tensor in net.parameters()]))
    lab.same("sum over buffers", torch.stack([tensor.sum().to(lab.dtype) for tensor in net.buffers()]))
    names = dir(net)
    with lab.parity("No page says what dir of a module lists"):
        lab.holds(
            "dir lists parameters, modules and methods", {"shared", "norm", "deep", "forward"} <= set(names)
        )
        lab.holds("dir omits numbers", not any(name.isdigit() for name in dir(nn.Sequential(nn.ReLU()))))
    lab.holds(
        "the text of a module contains the names of submodules",
        "(shared): Linear(in_features=2, out_features=2, bias=True)" in repr(net),
    )
    class_names: list[str] = []
    lab.holds(
        "apply returns the module", net.apply(lambda child: class_names.append(type(child).__name__)) is net
    )
    lab.same("apply visits submodules before their parents", class_names)


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.nn.Module.html",
)
def switches_of_modules(lab: Lab) -> None:
    """``train``, ``eval``, ``requires_grad_`` and ``zero_grad`` apply to every submodule. ``train``, ``eval``
    and ``requires_grad_`` return the module.
    """
    net: Any = nn.Sequential(
        with_whole_number_state(lab, nn.Linear(2, 2)),
        nn.Sequential(nn.Dropout(0.5), with_whole_number_state(lab, nn.Linear(2, 1))),
    )
    lab.holds("eval returns the module", net.eval() is net)
    lab.same("flags after eval", [child.training for child in net.modules()])
    x = lab.integers(4, 2)
    lab.same("result in eval mode", net(x))
    lab.holds("train returns the module", net.train() is net)
    lab.same("flags after train", [child.training for child in net.modules()])
    net.train(False)
    lab.same("flags after train(False)", [child.training for child in net.modules()])
    with lab.parity("No page says that the call is an error"):
        lab.raises("train with a word", lambda: net.train("yes"), ValueError)
    lab.holds("requires_grad_ returns the module", net[0].requires_grad_(False) is net[0])
    lab.same("which need gradients", [parameter.requires_grad for parameter in net.parameters()])
    net(x).sum().backward()
    lab.same("gradients", [parameter.grad for parameter in net.parameters()])
    net(x).sum().backward()
    lab.same("added up", [parameter.grad for parameter in net.parameters()])
    gradient = net[1][1].weight.grad
    net.zero_grad(set_to_none=False)
    with lab.parity("No page says that zeroing keeps the same gradient tensor"):
        lab.holds(
            "zero_grad keeps the gradient tensor",
            net[1][1].weight.grad is gradient and net[0].weight.grad is None,
        )
    lab.expect("zeros", net[1][1].weight.grad, [[0.0, 0.0]])
    net.zero_grad()
    lab.same("cleared", [parameter.grad is None for parameter in net.parameters()])
    with torch.no_grad():
        lab.holds("a call under no_grad records no graph", not net(x).requires_grad)
    net.requires_grad_(True)
    lab.holds("a call records a graph if parameters require grad", net(x).requires_grad)


class _DictModule(nn.Module):
    def forward(self, input: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"twice": input * 2, "same": input}


@behaviour(
    "nn", capabilities=("autograd",), must_detect=("value", "error"), page="generated/torch.nn.Module.html"
)
def calls_of_modules(lab: Lab) -> None:
    """Calling a module returns the result of ``forward``. Calling a module without a ``forward`` method
    raises an error.
    """
    x = lab.integers(3, requires_grad=True)
    result = _DictModule()(x)
    lab.same("a dict", result)
    result["twice"].sum().backward()
    lab.expect("its gradient", x.grad, [2.0, 2.0, 2.0])
    with lab.parity("No page says that the call is an error"):
        lab.raises("no forward", lambda: nn.Module()(x), NotImplementedError)
        lab.raises("an argument too many", lambda: _DictModule()(x, x), TypeError)
        lab.raises("an argument of another name", lambda: _DictModule()(y=x), TypeError)
        lab.raises("an argument of the constructor", lambda: nn.Module(5), TypeError)
