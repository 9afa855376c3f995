"""Check lazy modules, whose parameters are uninitialized until the first input."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state

#: Each case contains a lazy class and its arguments, the class that the lazy module becomes and the arguments
#: of that class, and the shape of the input.
CASES: tuple[tuple[Any, tuple[Any, ...], Any, tuple[Any, ...], tuple[int, ...]], ...] = (
    (nn.LazyLinear, (3,), nn.Linear, (4, 3), (2, 4)),
    (nn.LazyConv1d, (3, 2), nn.Conv1d, (4, 3, 2), (2, 4, 5)),
    (nn.LazyConv2d, (3, 2), nn.Conv2d, (4, 3, 2), (2, 4, 5, 3)),
    (nn.LazyConv3d, (3, 2), nn.Conv3d, (4, 3, 2), (2, 4, 3, 3, 2)),
    (nn.LazyConvTranspose1d, (3, 2), nn.ConvTranspose1d, (4, 3, 2), (2, 4, 5)),
    (nn.LazyConvTranspose2d, (3, 2), nn.ConvTranspose2d, (4, 3, 2), (2, 4, 5, 3)),
    (nn.LazyConvTranspose3d, (3, 2), nn.ConvTranspose3d, (4, 3, 2), (2, 4, 3, 3, 2)),
    (nn.LazyBatchNorm1d, (), nn.BatchNorm1d, (4,), (3, 4)),
    (nn.LazyBatchNorm2d, (), nn.BatchNorm2d, (4,), (3, 4, 2, 2)),
    (nn.LazyBatchNorm3d, (), nn.BatchNorm3d, (4,), (3, 4, 2, 2, 2)),
    (nn.LazyInstanceNorm1d, (), nn.InstanceNorm1d, (4,), (3, 4, 5)),
    (nn.LazyInstanceNorm2d, (), nn.InstanceNorm2d, (4,), (3, 4, 2, 3)),
    (nn.LazyInstanceNorm3d, (), nn.InstanceNorm3d, (4,), (3, 4, 2, 3, 2)),
)


def _make_lazy(lab: Lab, module_class: Any, arguments: tuple[Any, ...], **options: Any) -> Any:
    """Return a lazy module with its parameters on the lab's device."""
    return module_class(*arguments, device=lab.device, **options)


def _is_normalization(module_class: Any) -> bool:
    return "Norm" in module_class.__name__


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.modules.lazy.LazyModuleMixin.html")
def lazy_modules_become_real(lab: Lab) -> None:
    """The first input determines the sizes of a lazy module's parameters. The parameters are initialized on
    the device, and the module changes its class. Afterwards, the module computes like any module of its new
    class.
    """
    for make, few, real, _, shape in CASES:
        module = _make_lazy(lab, make, few, **({"affine": True} if _is_normalization(make) else {}))
        lab.holds(
            f"{make.__name__} is uninitialized before the first input", module.has_uninitialized_params()
        )
        lab.holds(
            f"{make.__name__} has no values before the first input",
            isinstance(module.weight, UninitializedParameter),
        )
        x = lab.integers(*shape)
        module(x)
        lab.holds(f"{make.__name__} has become {real.__name__}", type(module) is real)
        names = {
            name: (list(entry.shape), entry.device.type == lab.device.type)
            for name, entry in module.state_dict().items()
        }
        lab.same(f"{make.__name__}: sizes", names)
        if not _is_normalization(make):
            lab.holds(f"{make.__name__} has random values", bool((module.weight != 0).any()))
        with_whole_number_state(lab, module, low=0)
        lab.close(f"{make.__name__}: result", module(x), roundings=64, matrix=True)
        if "Transpose" in make.__name__:
            size = tuple(side + 1 for side in shape[2:])
            second = _make_lazy(lab, make, few)
            lab.same(f"{make.__name__}: with output_size", second(x, output_size=size).shape)
    for affine in (True, False):
        for track in (True, False):
            for make in (nn.LazyBatchNorm1d, nn.LazyInstanceNorm1d):
                module = _make_lazy(lab, make, (), affine=affine, track_running_stats=track)
                y = module(lab.integers(3, 4, 5))
                lab.close(f"{make.__name__}, affine={affine}, track_running_stats={track}", y, roundings=64)
                lab.same(
                    f"state of {make.__name__}, affine={affine}, track_running_stats={track}",
                    sorted(module.state_dict()),
                )
    named = _make_lazy(lab, nn.LazyBatchNorm1d, ())
    with lab.parity("No page says that the first input may be passed by keyword"):
        lab.close("called with a keyword", named(input=lab.integers(3, 4)), roundings=64)
    chain = nn.Sequential(_make_lazy(lab, nn.LazyLinear, (5,)), _make_lazy(lab, nn.LazyLinear, (2,)))
    chain(lab.integers(3, 4))
    lab.same("one after another", [list(parameter.shape) for parameter in chain.parameters()])


@behaviour("nn", must_detect=("value", "error"), page="generated/torch.nn.modules.lazy.LazyModuleMixin.html")
def states_of_lazy_modules(lab: Lab) -> None:
    """Loading a state dict can determine the sizes of a lazy module's parameters. The state of an
    uninitialized module cannot be loaded into an initialized module.
    """
    for make, few, real, full, shape in CASES:
        options = {"affine": True, "track_running_stats": True} if _is_normalization(make) else {}
        source = with_whole_number_state(lab, real(*full, **options), low=0).eval()
        module = _make_lazy(lab, make, few, **options)
        module.load_state_dict(source.state_dict())
        module.eval()
        lab.same(f"{make.__name__}: loaded", dict(module.state_dict()))
        x = lab.integers(*shape)
        if "Instance" not in make.__name__:
            lab.close(f"{make.__name__}: result", (module(x), source(x)), roundings=64, matrix=True)
            lab.holds(f"{make.__name__} has become {real.__name__}", type(module) is real)
        waiting = _make_lazy(lab, make, few, **options)
        with lab.parity("No page says that an initialized module refuses an uninitialized state"):
            lab.raises(
                f"{make.__name__}: loading an uninitialized state into an initialized module",
                lambda: source.load_state_dict(waiting.state_dict()),
                match="(?i)uninitialized",
            )
        second = _make_lazy(lab, make, few, **options)
        second.load_state_dict(waiting.state_dict())
        with lab.consistent(
            "A module that loads an uninitialized state must be uninitialized like its source"
        ):
            lab.holds(
                f"{make.__name__} stays uninitialized after loading an uninitialized state",
                second.has_uninitialized_params(),
            )


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.modules.lazy.LazyModuleMixin.html",
    basis="consistency",
    ground="A copied or unpickled module must have the class and results of the original",
)
def copies_of_lazy_modules(lab: Lab) -> None:
    """Lazy modules can be pickled while they are uninitialized, and copied and pickled once they are
    initialized.
    """
    for make, few, real, _, shape in CASES:
        options = {"affine": True} if _is_normalization(make) else {}
        for method_name, copy_module in (
            ("pickle", lambda module: pickle.loads(pickle.dumps(module))),
            ("deepcopy", copy.deepcopy),
        ):
            module = _make_lazy(lab, make, few, **options)
            if method_name == "pickle":
                module = copy_module(module).to(lab.device)
                lab.holds(
                    f"{make.__name__} is uninitialized after {method_name}",
                    type(module) is make and module.has_uninitialized_params(),
                )
            x = lab.integers(*shape)
            module(x)
            with_whole_number_state(lab, module, low=0)
            copied = copy_module(module)
            lab.holds(f"{make.__name__} is an initialized class after {method_name}", type(copied) is real)
            lab.close(f"{make.__name__}: result after {method_name}", copied(x), roundings=64, matrix=True)


class _CustomLazyModule(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """A lazy module with an uninitialized parameter and buffer."""

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self.value = UninitializedParameter(device=device)  # type: ignore[call-arg]
        self.count = UninitializedBuffer(device=device)  # type: ignore[call-arg]

    def initialize_parameters(self, input: torch.Tensor) -> None:
        return None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input * 2


@behaviour(
    "nn", must_detect=("value", "error"), page="generated/torch.nn.parameter.UninitializedParameter.html"
)
def parameters_that_wait(lab: Lab) -> None:
    """Uninitialized parameters can be moved, cast and materialized in place. Computing with them or sharing
    them raises an error.
    """
    module = _CustomLazyModule()
    module.to(lab.device).half()
    module.value.materialize((2, 3))
    module.count.materialize((4,))
    lab.same(
        "parameters materialized on the device to which the module was moved",
        (module.value.shape, module.value.dtype, module.value.device.type == lab.device.type),
    )
    lab.same(
        "buffers too", (module.count.shape, module.count.dtype, module.count.device.type == lab.device.type)
    )
    value: Any = module.value
    lab.holds(
        "a materialized parameter is a Parameter",
        type(value) is nn.Parameter and not module.has_uninitialized_params(),
    )
    module = _CustomLazyModule(lab.device)
    optimizers = [
        make(module.parameters())
        for make in (
            torch.optim.SGD,
            torch.optim.Adam,
            torch.optim.AdamW,
            torch.optim.RMSprop,
            torch.optim.LBFGS,
        )
    ]
    with lab.parity("No page says that Adagrad refuses uninitialized parameters"):
        lab.raises(
            "Adagrad of uninitialized parameters",
            lambda: torch.optim.Adagrad(module.parameters()),
            ValueError,
        )
    module.value.materialize((3,))
    with torch.no_grad():
        module.value.fill_(1)
    for optimizer in optimizers[:1]:
        module.value.grad = torch.ones_like(module.value)
        optimizer.param_groups[0]["lr"] = 2.0
        optimizer.step()  # type: ignore[call-arg]
    with lab.parity(
        "The page creates the optimizer after the first input; no page describes the other order"
    ):
        lab.expect(
            "a parameter after a step of an optimizer created before the first input",
            module.value.detach() + 0,
            [-1.0, -1.0, -1.0],
        )
    waiting = UninitializedParameter(device=lab.device)  # type: ignore[call-arg]
    for operation, call in (
        ("+", lambda: waiting + 1),
        ("add", lambda: torch.add(waiting, waiting)),
        ("empty_like", lambda: torch.empty_like(waiting)),
        ("shape", lambda: waiting.shape),
    ):
        lab.raises(operation, call, ValueError, RuntimeError)
    lab.raises("sharing memory", lambda: _CustomLazyModule(lab.device).share_memory())
    lab.raises("weight norm", lambda: nn.utils.weight_norm(nn.LazyLinear(3, device=lab.device)), ValueError)
    lab.raises(
        "spectral norm", lambda: nn.utils.spectral_norm(nn.LazyLinear(3, device=lab.device)), ValueError
    )
    hooked = _CustomLazyModule(lab.device)
    hooked.register_forward_pre_hook(lambda hooked, args: (args[0] + 1,))
    hooked.register_forward_hook(lambda hooked, args, output: output + args[0])
    hooked.value.materialize((1,))
    hooked.count.materialize((1,))
    lab.expect("result with hooks of a lazy module", hooked(lab.put([0.0, 1.0])), [3.0, 6.0])
