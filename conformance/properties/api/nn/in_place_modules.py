"""Check the modules of torch's module database that have an option ``inplace``."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "nn",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.ELU.html",
    ground="The pages say that inplace does the same operation in place",
)
def modules_in_place(lab: Lab) -> None:
    """Each module of torch's module database that has an option ``inplace`` returns the same results and
    gradients with and without ``inplace``. It writes into its input only with ``inplace=True``.
    """
    infos = [
        op
        for op in torch_testing_internals.module_db()
        if "inplace" in inspect.signature(op.module_cls).parameters
    ]
    lab.same("modules", [info.name for info in infos])

    def detached_on_device(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return lab.to(leaf.detach()).requires_grad_(leaf.requires_grad)
        return leaf

    for info in infos:
        seed = torch_testing_internals.seed_for(info.name, str(lab.dtype))
        module_inputs = torch_testing_internals.module_inputs(info, lab.dtype, training=False, seed=seed)
        for number, module_input in enumerate(module_inputs):
            name = f"{info.name} [{number}]"
            constructor, forward_arguments = module_input.constructor_input, module_input.forward_input
            if forward_arguments is None or len(forward_arguments.args) != 1 or forward_arguments.kwargs:
                continue
            options = {name: value for name, value in constructor.kwargs.items() if name != "inplace"}
            out_of_place_module, in_place_module = (
                info.module_cls(*constructor.args, **options, inplace=flag).to(lab.device, lab.dtype).eval()
                for flag in (False, True)
            )
            in_place_module.load_state_dict(out_of_place_module.state_dict())
            leaf, in_place_leaf = (
                detached_on_device(forward_arguments.args[0]),
                detached_on_device(forward_arguments.args[0]),
            )
            before = leaf.detach().clone()
            result = out_of_place_module(leaf)
            lab.holds(f"{name} leaves its input", torch.equal(leaf.detach(), before))
            copy = in_place_leaf.clone()
            in_place = in_place_module(copy)
            lab.holds(f"{name} in place writes into its input", torch.equal(copy, in_place))
            lab.close(name, result)
            lab.holds(
                f"{name} in place returns the out-of-place result",
                torch.allclose(result, in_place, rtol=1e-4, atol=1e-5),
            )
            weights = torch.ones_like(result)
            gradients = [
                torch.autograd.grad(y, x, weights)[0] for y, x in ((result, leaf), (in_place, in_place_leaf))
            ]
            lab.close(f"gradient of {name}", gradients[0])
            # An in-place module may compute the gradient from its result and not from its input. The
            # tolerance allows for the additional rounding.
            agree = torch.allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)
            lab.holds(f"gradient of {name} in place is the out-of-place gradient", agree)
