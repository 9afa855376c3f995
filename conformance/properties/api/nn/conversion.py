"""Check modules that are moved, cast or allocated from the meta device."""

from __future__ import annotations

import torch
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import gradients_by_name, with_whole_number_state


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.nn.Module.html",
)
def casting_modules(lab: Lab) -> None:
    """``to``, ``float``, ``half`` and ``bfloat16`` cast the floating-point parameters and buffers of a module
    in place; ``type`` casts all of them. They return the module.
    """
    net = with_whole_number_state(lab, nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    net.register_buffer("index", lab.integers(2, dtype=torch.int32))
    casts = {
        "half": lambda: net.half(),
        "bfloat16": lambda: net.bfloat16(),
        "float": lambda: net.float(),
        "to(dtype)": lambda: net.to(torch.float16),
        "to(device, dtype)": lambda: net.to(lab.device, torch.float32),
        "to(tensor)": lambda: net.to(lab.integers(1, dtype=torch.bfloat16)),
        "to(dtype=)": lambda: net.to(dtype=torch.float32, non_blocking=True),
        "type": lambda: net.type(torch.float16),
        "back": lambda: net.type(torch.float32),
    }
    for name, cast in casts.items():
        lab.holds(f"{name} returns the module", cast() is net)
        lab.same(f"state after {name}", dict(net.state_dict()))
    x = lab.integers(2, 2)
    lab.same("still runs", net[0](x))
    net[0](x).sum().backward()
    net.half()
    with lab.parity("No page says that gradients are cast with their parameters"):
        lab.same("gradients are cast too", gradients_by_name(net[0]))
    net.float()
    lab.raises("to an integer", lambda: net.to(torch.int64), TypeError)
    with lab.parity("No page says that this call is an error"):
        lab.raises("to two dtypes", lambda: net.to(torch.float32, torch.float16), TypeError)  # type: ignore[call-overload]
        lab.raises(
            "to() with a number as second positional argument",
            lambda: net.to(lab.device, 1),  # type: ignore[call-overload]
            TypeError,
        )
    with lab.parity("No page says that an unknown device name is an error"):
        lab.raises("to a string that is not a device", lambda: net.to("nowhere"), RuntimeError)


@behaviour(
    "nn",
    capabilities=("autograd",),
    dtypes=("complex64",),
    must_detect=("value",),
    page="generated/torch.nn.Module.html",
)
def complex_modules(lab: Lab) -> None:
    """A module with complex parameters can be called. Casting a real module to a complex dtype issues a
    warning.
    """
    net = with_whole_number_state(lab, nn.Linear(2, 3))
    x = lab.integers(4, 2)
    lab.same("result", net(x))
    real = nn.Linear(2, 2)
    complex_module = lab.warns(
        "to(complex)", lambda: real.to(lab.device, torch.complex64), match="(?i)complex"
    )
    lab.same("dtypes", [parameter.dtype for parameter in complex_module.parameters()])
    y = net(x)
    (y * y.conj()).real.sum().backward()
    lab.same("gradient", net.weight.grad)


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="future_mod.html",
    ground="The page says that conversion changes the existing parameters in place by default",
)
def parameters_keep_their_identity(lab: Lab) -> None:
    """Moving or casting a module keeps its Parameter objects, so that optimizers still update them. The
    parameters are still leaves.
    """
    net = with_whole_number_state(lab, nn.Linear(2, 2))
    before = [id(parameter) for parameter in net.parameters()]
    net.to(lab.device).half().float()
    lab.same("the same objects", [id(parameter) for parameter in net.parameters()] == before)
    lab.same(
        "leaves that need gradients",
        [(parameter.is_leaf, parameter.requires_grad) for parameter in net.parameters()],
    )
    frozen = with_whole_number_state(lab, nn.Linear(2, 2)).requires_grad_(False).half().float()
    lab.same("frozen ones stay frozen", [parameter.requires_grad for parameter in frozen.parameters()])
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net.to(torch.float64).to(torch.float32) if lab.target.declares("float64") else net.half().float()
    net(lab.integers(3, 2)).sum().backward()
    optimizer.step()
    lab.same("moved by the optimizer", dict(net.state_dict()))
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        old_weight = net.weight
        net.half()
        lab.holds(
            "conversion replaces parameters if the future flag is set",
            net.weight is not old_weight and old_weight.dtype == torch.float32,
        )
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="notes/autograd.html",
    ground="The note describes version counters; the page of Module.apply shows writes to parameters",
)
def views_in_modules(lab: Lab) -> None:
    """In-place writes to parameters in ``Module.apply`` change the values and the version counters of the
    parameters.
    """
    net = with_whole_number_state(lab, nn.Linear(3, 2))
    version = net.weight._version
    with torch.no_grad():
        net.apply(lambda child: child.weight.mul_(2))  # type: ignore[arg-type,operator]
    lab.same("doubled", net.weight)
    with lab.parity("_version is private; the note only describes the counter"):
        lab.holds("a write increases the version", net.weight._version > version)
    row = net.weight.view(-1)
    net.half()
    with lab.parity("No page says what happens to older views of a converted parameter"):
        lab.holds("a view made before the conversion keeps its dtype", row.dtype == torch.float32)
    net.float()
    x = lab.integers(2, 3, requires_grad=True)
    y = net(x)
    with torch.no_grad():
        net.weight.add_(1)
    lab.raises("backward after a write", lambda: torch.autograd.grad(y.sum(), x), match="(?i)inplace")


@behaviour("nn", level="core", must_detect=("shape", "error"), page="meta.html")
def modules_from_meta(lab: Lab) -> None:
    """``to_empty`` allocates the memory of a meta module, and of its submodules if ``recurse`` is set.
    ``skip_init`` creates a module without initialization.
    """
    net = nn.Sequential(nn.Linear(2, 3, device="meta"), nn.BatchNorm1d(3, device="meta"))
    lab.raises(
        "to(device) from meta",
        lambda: net.to(lab.device),
        NotImplementedError,
        match="(?i)to_empty",
        type_is_documented=True,
    )
    lab.holds("to_empty returns the module", net.to_empty(device=lab.device) is net)
    lab.same("places", [parameter.device.type == lab.device.type for parameter in net.parameters()])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1)
    lab.expect("filled", net[0](lab.put([[1.0, 2.0]])), [[4.0, 4.0, 4.0]])
    outer = nn.Module()
    outer.own = nn.Parameter(torch.empty(2, device="meta"))
    outer.inner = nn.Linear(2, 2, device="meta")
    outer.to_empty(device=lab.device, recurse=False)
    lab.holds(
        "to_empty with recurse=False does not change submodules",
        outer.own.device.type == lab.device.type and outer.inner.weight.is_meta,
    )
    module = torch.nn.utils.skip_init(nn.Linear, 3, 2, device=lab.device, dtype=lab.dtype)
    lab.same(
        "made without values",
        [
            (list(parameter.shape), parameter.device.type == lab.device.type)
            for parameter in module.parameters()
        ],
    )
    with torch.no_grad():
        module.weight.fill_(2)
        module.bias.fill_(1)
    lab.expect("usable", module(lab.put([[1.0, 1.0, 1.0]])), [[7.0, 7.0]])
    with lab.parity("The page demands a module class, but does not say that another class is an error"):
        lab.raises("skip_init of no module", lambda: torch.nn.utils.skip_init(dict, 3), RuntimeError)
