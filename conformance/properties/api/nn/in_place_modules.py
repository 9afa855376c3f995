"""Modules of torch's database that can work in place."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("nn", dtypes=("float32", "float64"), capabilities=("autograd",), sees=("value",))
def modules_in_place(lab: Lab) -> None:
    """Each module of the database that can work in place gives in place the results and gradients that it
    gives otherwise, and writes into its input then and only then.
    """
    infos = [
        op
        for op in torch_testing_internals.module_db()
        if "inplace" in inspect.signature(op.module_cls).parameters
    ]
    lab.same("modules", [info.name for info in infos])

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return lab.to(leaf.detach()).requires_grad_(leaf.requires_grad)
        return leaf

    for info in infos:
        seed = torch_testing_internals.seed_for(info.name, str(lab.dtype))
        found = torch_testing_internals.module_inputs(info, lab.dtype, training=False, seed=seed)
        for number, given in enumerate(found):
            name = f"{info.name} [{number}]"
            made, called = given.constructor_input, given.forward_input
            if called is None or len(called.args) != 1 or called.kwargs:
                continue
            rest = {word: value for word, value in made.kwargs.items() if word != "inplace"}
            apart, within = (
                info.module_cls(*made.args, **rest, inplace=flag).to(lab.device, lab.dtype).eval()
                for flag in (False, True)
            )
            within.load_state_dict(apart.state_dict())
            leaf, other = moved(called.args[0]), moved(called.args[0])
            version = leaf._version
            result = apart(leaf)
            lab.holds(f"{name} leaves its input", leaf._version == version)
            copy = other.clone()
            version = copy._version
            in_place = within(copy)
            lab.holds(f"{name} in place writes into its input", copy._version > version)
            lab.close(name, result)
            lab.holds(
                f"{name} in place gives the same", torch.allclose(result, in_place, rtol=1e-4, atol=1e-5)
            )
            weights = torch.ones_like(result)
            gradients = [
                torch.autograd.grad(y, x, weights)[0] for y, x in ((result, leaf), (in_place, other))
            ]
            lab.close(f"gradient of {name}", gradients[0])
            near = torch.allclose(
                gradients[0], gradients[1], rtol=1e-4, atol=1e-5
            )  # some are computed from the result
            lab.holds(f"gradient of {name} in place is the same", near)
