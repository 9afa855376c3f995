"""Check module hooks: before and after forward and backward, on one module and on all modules."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as registry

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state


def _two_linear_layers(lab: Lab) -> nn.Sequential:
    return nn.Sequential(
        with_whole_number_state(lab, nn.Linear(2, 2)), with_whole_number_state(lab, nn.Linear(2, 2))
    )


@behaviour("nn", level="core", must_detect=("value",), page="generated/torch.nn.Module.html")
def forward_hooks(lab: Lab) -> None:
    """Forward hooks run in order of registration, prepended hooks first. A hook receives the module, its
    input and its output. Hooks can replace the input and the output.
    """
    net, x = _two_linear_layers(lab), lab.integers(3, 2)
    order: list[Any] = []

    def recording_hook(label: str) -> Any:
        return lambda module, args, *rest: order.append((label, module is net[0], len(args), len(rest)))

    handles = [
        net[0].register_forward_hook(recording_hook("a")),
        net[0].register_forward_hook(recording_hook("b"), prepend=True),
        net[0].register_forward_hook(recording_hook("c")),
        net[0].register_forward_pre_hook(recording_hook("d")),
        net[0].register_forward_pre_hook(recording_hook("e"), prepend=True),
    ]
    lab.same("result with hooks that return nothing", net(x))
    lab.same("order", order)
    for handle in handles:
        handle.remove()
    order.clear()
    net(x)
    lab.same("removed", order)
    before = net[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    lab.same("a changed input", net(x))
    single = net[0].register_forward_pre_hook(lambda module, args: args[0] + 1)
    lab.same("an input changed again, returned as a single value", net(x))
    after = net[0].register_forward_hook(lambda module, args, output: -output)
    lab.same("a changed output", net(x))
    hook_arguments: list[torch.Tensor] = []
    last = net[0].register_forward_hook(lambda module, args, output: hook_arguments.extend((args[0], output)))
    net(x)
    lab.same("input and output that the last hook receives", hook_arguments)
    for handle in (before, single, after, last):
        handle.remove()
    with (
        net[0].register_forward_hook(lambda module, args, output: output * 5),
        lab.parity("No page says that a handle of a hook is a context manager"),
    ):
        lab.same("within a context", net(x))
    lab.same("after it", net(x))
    once: list[Any] = []

    def remove_itself(module: nn.Module, args: Any) -> None:
        once.pop().remove()

    once.append(net.register_forward_pre_hook(remove_itself))
    net(x)
    lab.same("a hook that removes itself", (len(once), net(x)))


class _ShiftModule(nn.Module):
    def forward(self, input: torch.Tensor, shift: torch.Tensor | None = None) -> torch.Tensor:
        return input if shift is None else input + shift


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.Module.html")
def hooks_with_keywords(lab: Lab) -> None:
    """Hooks with ``with_kwargs=True`` receive the keyword arguments and can change them. Hooks with
    ``always_call=True`` also run if ``forward`` fails.
    """
    module, x, shift = _ShiftModule(), lab.integers(3), lab.integers(3)
    calls_seen: list[Any] = []

    def double_shift(hooked: nn.Module, args: Any, kwargs: Any) -> Any:
        calls_seen.append((len(args), sorted(kwargs)))
        return args, {"shift": kwargs["shift"] * 2}

    def add_shift_to_output(hooked: nn.Module, args: Any, kwargs: Any, output: torch.Tensor) -> torch.Tensor:
        calls_seen.append((len(args), sorted(kwargs)))
        changed: torch.Tensor = output + kwargs["shift"]
        return changed

    first = module.register_forward_pre_hook(double_shift, with_kwargs=True)
    lab.same("changed before", module(x, shift=shift))
    second = module.register_forward_hook(add_shift_to_output, with_kwargs=True)
    lab.same("changed before and after", module(x, shift=shift))
    lab.same("seen", calls_seen)
    first.remove()
    lab.same("the first removed", module(x, shift=shift))
    second.remove()
    lab.same("both removed", module(x, shift=shift))
    calls: list[str] = []
    module.register_forward_hook(lambda *args: calls.append("always"), always_call=True)
    module.register_forward_hook(lambda *args: calls.append("else"))
    with lab.parity("No page says that adding a string to a tensor is an error"):
        lab.raises("a call that fails", lambda: module(x, shift="word"), TypeError, RuntimeError)
    lab.same("hooks that run in a failing call", calls)
    module(x)
    lab.same("hooks that run in a successful call after the failing call", calls)


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.Module.html",
)
def backward_hooks(lab: Lab) -> None:
    """Full backward hooks receive the gradients of inputs and outputs and can replace the input gradients.
    Backward pre-hooks can replace the output gradients.
    """
    net = _two_linear_layers(lab)
    x = lab.integers(3, 2, requires_grad=True)
    order: list[str] = []
    gradients_seen: list[Any] = []

    def recording_hook(label: str) -> Any:
        return lambda module, *rest: order.append(label)

    handles = [
        net.register_full_backward_hook(recording_hook("a")),
        net.register_full_backward_hook(recording_hook("b"), prepend=True),
        net.register_full_backward_pre_hook(recording_hook("c")),
        net.register_full_backward_pre_hook(recording_hook("d"), prepend=True),
        net.register_forward_hook(recording_hook("f")),
        net.register_forward_pre_hook(recording_hook("p")),
        net[0].register_full_backward_hook(
            lambda module, grad_input, grad_output: gradients_seen.append((grad_input[0], grad_output[0]))  # type: ignore[index]
        ),
    ]
    net(x).sum().backward()
    lab.same("order", order)
    lab.same("what a hook sees", gradients_seen)
    lab.same("gradient", x.grad)
    net(x).sum().backward()
    lab.same("once for each pass", (len(order), len(gradients_seen)))
    for handle in handles:
        handle.remove()
    x.grad = None
    with net[0].register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 2,)):  # type: ignore[index]
        net(x).sum().backward()
    lab.same("a replaced gradient", x.grad)
    x.grad = None
    before = net[1].register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))  # type: ignore[index]
    after = net[1].register_full_backward_hook(
        lambda module, grad_input, grad_output: gradients_seen.append(grad_output[0])  # type: ignore[index]
    )
    with before, after:
        net(x).sum().backward()
    lab.same("a changed output gradient", (x.grad, gradients_seen[-1]))
    out = net(x)
    counts: list[int] = []
    net[0].register_full_backward_hook(lambda *args: counts.append(1))
    out = net(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    lab.same("hook calls in two backward passes of a retained graph", len(counts))
    sizes: list[Any] = []
    module = _TwoInputModule()

    def record_gradient_sizes(module: Any, grad_input: Any, grad_output: Any) -> None:
        sizes.append(([list(g.shape) for g in grad_input], [list(g.shape) for g in grad_output]))

    with module.register_full_backward_hook(record_gradient_sizes):
        module(lab.integers(2, 2, requires_grad=True), lab.integers(5, requires_grad=True)).sum().backward()
    lab.same("sizes of several inputs", sizes)


class _TwoInputModule(nn.Module):
    def forward(self, plane: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
        return (plane.sum() * line + line.sum() * plane.sum()).sum().view(1).expand(8).contiguous()


class _TextModule(nn.Module):
    """A module that accepts and returns values that are not tensors."""

    def forward(self, text: str, tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
        return tensor.clone(), text


class _InPlaceModule(nn.Module):
    def forward(self, input: torch.Tensor, write: bool) -> torch.Tensor:
        if write:
            input += 1
        return input.clone()


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value", "error", "message"),
    page="generated/torch.nn.Module.html",
)
def corners_of_backward_hooks(lab: Lab) -> None:
    """With backward hooks, inputs keep ``requires_grad``. A hook receives None for arguments that are not
    tensors. A hook that returns a wrong number of gradients raises an error, and so does an in-place write to
    the input or output.
    """
    x = lab.integers(2, requires_grad=True)
    flags: list[Any] = []
    needs = _RequiresGradRecorder(flags)
    needs.register_full_backward_hook(lambda *args: None)
    needs(x, x.detach(), x)
    with lab.consistent("inputs must have the same requires_grad with and without hooks"):
        lab.same("requires_grad of each input", flags)
    with_text = _TextModule()
    gradients: list[Any] = []
    with_text.register_full_backward_hook(lambda module, inputs, outputs: gradients.append((inputs, outputs)))
    out, text = with_text("word", x)
    out.sum().backward()
    lab.same("None beside tensors", (gradients, text))
    linear = with_whole_number_state(lab, nn.Linear(2, 3))
    calls: list[Any] = []
    handle = linear.register_full_backward_hook(
        lambda module, inputs, outputs: calls.append((inputs, outputs))
    )
    linear(lab.integers(1, 2)).sum().backward()
    lab.same("gradients for an input that does not require grad", calls)
    handle.remove()
    with (
        linear.register_full_backward_hook(lambda module, inputs, outputs: lab.integers(1, 2)),
        lab.parity("No page says that a gradient for an input that does not require grad is an error"),
    ):
        lab.raises(
            "a gradient for an input that does not require grad",
            lambda: linear(lab.integers(1, 2)).sum().backward(),
        )
    loss = nn.L1Loss()
    last_gradients: list[Any] = []
    with loss.register_full_backward_hook(lambda module, inputs, outputs: last_gradients.append(inputs[1])):  # type: ignore[index]
        loss(x.detach() + 1, x).backward()
    lab.same("gradient of an input that requires grad next to an input that does not", last_gradients)
    act = nn.ReLU()
    for name, hook in (
        ("too few", lambda m, grad_output: ()),
        ("too many", lambda m, grad_output: (*grad_output, x)),
    ):
        with (
            act.register_full_backward_pre_hook(hook),
            lab.parity("No page says that a wrong number of gradients is an error"),
        ):
            lab.raises(f"{name} from a pre-hook", lambda: act(x).sum().backward(), match="expected 1")
    for name, after in (("too few", lambda m, i, o: ()), ("too many", lambda m, i, o: (*i, x))):
        with (
            act.register_full_backward_hook(after),
            lab.parity("No page says that a wrong number of gradients is an error"),
        ):
            lab.raises(f"{name} from a hook", lambda: act(x).sum().backward(), match="expected 1")
    writes = _InPlaceModule()
    for kind in ("full_backward_hook", "full_backward_pre_hook"):
        with getattr(writes, f"register_{kind}")(lambda *args: None):
            writes(x, False).sum().backward()
            lab.raises("a write to the input", lambda: writes(x.clone(), True), match="(?i)inplace")
            out = writes(x, False)
            with (
                lab.parity("The page of the pre-hook forbids only writes to inputs")
                if kind == "full_backward_pre_hook"
                else lab.documented()
            ):
                lab.raises("a write to the output", lambda: out.add_(1), match="(?i)inplace")
    lab.same("gradient at last", x.grad)
    with (
        act.register_full_backward_hook(lambda *args: None),
        lab.parity("No page says that both kinds of backward hooks exclude each other"),
    ):
        lab.raises(
            "two kinds at once", lambda: act.register_backward_hook(lambda *args: None), match="(?i)full"
        )
    table = _DictModule()
    table.register_full_backward_hook(lambda *args: calls.append("never"))
    lab.warns("a dict of tensors", lambda: table({"x": x}), match="(?i)tuple of Tensors")


class _RequiresGradRecorder(nn.Module):
    def __init__(self, flags: list[Any]) -> None:
        super().__init__()
        self.seen = flags

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        self.seen.append([argument.requires_grad for argument in args])
        return args[0].sum() + args[1].sum() + args[2].sum()


class _DictModule(nn.Module):
    def forward(self, table: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"x": table["x"] * 2}


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.modules.module.register_module_forward_hook.html",
)
def hooks_for_all_modules(lab: Lab) -> None:
    """Global hooks run for every module, before the module's own hooks. Registration hooks receive each
    registered object and can replace it.
    """
    net = _two_linear_layers(lab)
    x = lab.integers(3, 2, requires_grad=True)
    order: list[Any] = []
    handles = [
        registry.register_module_forward_pre_hook(lambda module, args: order.append(("pre", len(args)))),
        registry.register_module_forward_hook(lambda module, args, output: order.append(("post", len(args)))),
        registry.register_module_full_backward_pre_hook(
            lambda module, grad_output: order.append(("back pre", len(grad_output)))
        ),
        registry.register_module_full_backward_hook(
            lambda module, grad_input, grad_output: order.append(("back", len(grad_input)))
        ),
    ]
    local = net[0].register_forward_hook(lambda module, args, output: order.append("local"))
    try:
        net(x).sum().backward()
        lab.same("order", order)
        lab.same("gradient", x.grad)
    finally:
        local.remove()
        for handle in handles:
            handle.remove()
    order.clear()
    net(x)
    lab.same("removed", order)
    handle = registry.register_module_forward_hook(lambda module, args, output: -output)
    try:
        lab.same("output with a global hook that negates it", net(x))
    finally:
        handle.remove()
    handle = registry.register_module_full_backward_hook(
        lambda module, grad_input, grad_output: (grad_input[0] * 2,)  # type: ignore[index]
    )
    try:
        x.grad = None
        nn.ReLU()(x).sum().backward()
        lab.same("gradient changed by a global hook", x.grad)
    finally:
        handle.remove()
    handle = registry.register_module_full_backward_hook(lambda module, grad_input, grad_output: ())
    try:
        with lab.parity("No page says that a wrong number of gradients is an error"):
            lab.raises("too few gradients", lambda: nn.ReLU()(x).sum().backward())
    finally:
        handle.remove()
    names: list[str] = []
    handles = [
        registry.register_module_parameter_registration_hook(
            lambda module, name, value: names.append(f"parameter {name}")
        ),
        registry.register_module_buffer_registration_hook(
            lambda module, name, value: names.append(f"buffer {name}")
        ),
        registry.register_module_module_registration_hook(
            lambda module, name, value: names.append(f"module {name}")
        ),
    ]
    try:
        nn.Sequential(nn.BatchNorm1d(2, device=lab.device))
    finally:
        for handle in handles:
            handle.remove()
    lab.same("registrations", names)
    substitute = nn.Parameter(lab.integers(2))
    handle = registry.register_module_parameter_registration_hook(lambda module, name, value: substitute)  # type: ignore[arg-type]
    try:
        module = nn.Module()
        module.a = nn.Parameter(lab.integers(3))
    finally:
        handle.remove()
    lab.holds("a hook can replace a parameter", module.a is substitute)


def _double_output(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.Module.html",
    basis="consistency",
    ground="A copied or unpickled module must return the results of the original",
)
def hooks_of_copies(lab: Lab) -> None:
    """Copies of a module by ``deepcopy`` and ``pickle`` have the hooks of the module."""
    net, x = _two_linear_layers(lab), lab.integers(3, 2)
    net[0].register_forward_hook(_double_output)
    lab.same("the module", net(x))
    lab.same("a deep copy", copy.deepcopy(net)(x))
    lab.same("through pickle", pickle.loads(pickle.dumps(net))(x))
