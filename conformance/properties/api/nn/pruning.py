"""Check pruning by containers, by importance scores and by custom methods, and saved pruned modules."""

from __future__ import annotations

import io
import pickle
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn.utils import prune

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.utils.prune.PruningContainer.html")
def masks_of_pruning_containers(lab: Lab) -> None:
    """A pruning container applies its latest method only to the entries that earlier masks did not remove. A
    structured method removes whole slices along its dimension.
    """
    values = lab.put([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    before = lab.put([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    container = prune.PruningContainer()
    container._tensor_name = "weight"
    for name, method, mask in (
        ("the two smallest", prune.L1Unstructured(amount=2), [[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]]),
        ("the smaller row", prune.LnStructured(amount=1, n=2, dim=0), [[0.0] * 4, [1.0, 1.0, 0.0, 1.0]]),
        (
            "the smallest column",
            prune.LnStructured(amount=1, n=2, dim=1),
            [[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]],
        ),
    ):
        method._tensor_name = "weight"
        container.add_pruning_method(method)
        lab.expect(name, container.compute_mask(values, before.clone()), mask)
    lab.same("how many methods", len(container))


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.utils.prune.global_unstructured.html")
def pruning_by_scores(lab: Lab) -> None:
    """Pruning by importance scores removes the entries with the lowest scores, in one module or in several.
    Scores equal to the values give the same masks as pruning without scores.
    """
    first, second = (
        with_whole_number_state(lab, nn.Linear(4, 2)),
        with_whole_number_state(lab, nn.Linear(3, 1)),
    )
    first.weight = nn.Parameter(lab.put([[1.0, 2.0, 3.0, 4.0], [-4.0, -3.0, -2.0, -1.0]]))
    second.weight = nn.Parameter(lab.put([[0.0, 0.125, -2.0]]))
    prune.global_unstructured(
        ((first, "weight"), (second, "weight")),
        pruning_method=prune.L1Unstructured,
        amount=4,
        importance_scores={
            (first, "weight"): lab.put([[4.0, 2.0, 1.0, 3.0], [-3.0, -1.0, -2.0, -4.0]]),
            (second, "weight"): lab.put([[0.0, 10.0, -0.25]]),
        },
    )
    lab.expect("the first of two", first.weight + 0, [[1.0, 2.0, 0.0, 4.0], [-4.0, 0.0, -2.0, -1.0]])
    lab.expect("the second", second.weight + 0, [[0.0, 0.125, 0.0]])
    values = lab.put([[1.0, 2.0, 3.0, 4.0], [-3.0, -1.0, -2.5, -5.0]])
    before = lab.put([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    scores = lab.put([[1.0, 3.0, 2.0, 4.0], [-9.0, -8.0, -7.0, -6.0]])
    method = prune.L1Unstructured(amount=2)
    method._tensor_name = "weight"
    lab.expect(
        "by other scores",
        method.prune(values, before, importance_scores=scores),
        [[0.0, 2.0, 0.0, 0.0], [-3.0, -1.0, 0.0, -5.0]],
    )
    lab.same(
        "masks by the values as scores, and without scores",
        [method.prune(values, before, importance_scores=values), method.prune(values, before)],
    )


@behaviour(
    "nn",
    capabilities=("serialization",),
    must_detect=("value", "error"),
    page="https://docs.pytorch.org/tutorials/intermediate/pruning_tutorial.html",
)
def pruned_modules_saved(lab: Lab) -> None:
    """Pickled and saved copies of a pruned module contain the original weight and the mask. The state dict of
    a pruned module can be loaded into another pruned module.
    """
    x = lab.integers(3, 4)
    model = nn.Sequential(
        with_whole_number_state(lab, nn.Linear(4, 3)),
        nn.ReLU(),
        with_whole_number_state(lab, nn.Linear(3, 1)),
    )
    lab.same("names before", sorted(model.state_dict()))
    values = torch.arange(-6.0, 6.0, device=lab.device).view(3, 4)
    model[0].weight = nn.Parameter(values)
    prune.l1_unstructured(model[0], "weight", amount=0.75)
    lab.same("names in the state of a pruned module", sorted(model.state_dict()))
    result = model(x)
    lab.same("result", result)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for name, copied in {"saved": loaded, "pickled": pickle.loads(pickle.dumps(model))}.items():
        lab.same(f"{name}: names", sorted(copied.state_dict()))
        with lab.consistent("A loaded or unpickled module must have the weight and result of the original"):
            lab.same(f"{name}: weight and result", [copied[0].weight, copied(x)])
    second_model = nn.Sequential(
        with_whole_number_state(lab, nn.Linear(4, 3)),
        nn.ReLU(),
        with_whole_number_state(lab, nn.Linear(3, 1)),
    )
    lab.raises(
        "loading a pruned state into a module that is not pruned",
        lambda: second_model.load_state_dict(model.state_dict()),
        match="weight_mask",
    )
    prune.identity(second_model[0], "weight")
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    second_model.load_state_dict(torch.load(buffer, weights_only=True))
    lab.same(
        "a pruned module after loading a state",
        [second_model[0].weight_orig, second_model[0].weight_mask, second_model(x)],
    )


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.utils.prune.BasePruningMethod.html",
    ground="A mask of ones leaves the product of weight and mask unchanged",
)
def pruning_methods_of_ones_own(lab: Lab) -> None:
    """A custom pruning method whose mask is all ones changes neither results nor gradients. If a pruning
    method raises an error, the module does not change.
    """
    x = lab.integers(2, 4)

    class PruneNothing(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
            return torch.ones_like(t)

    module = with_whole_number_state(lab, nn.Linear(4, 3))
    unpruned_result = module(x)
    unpruned_result.sum().backward()
    before: list[Any] = [unpruned_result.detach(), module.weight.grad, module.bias.grad]
    module.zero_grad()
    PruneNothing.apply(module, "weight")
    pruned = module(x)
    pruned.sum().backward()
    lab.same("results and gradients before", before)
    lab.same("results and gradients after", [pruned, module.weight_orig.grad, module.bias.grad])
    with lab.consistent("two calls of a pruned module must return the same result"):
        lab.holds("two calls of a pruned module return the same result", torch.equal(module(x), module(x)))
    for make in (
        lambda: with_whole_number_state(lab, nn.Linear(4, 3)),
        lambda: with_whole_number_state(lab, nn.Conv1d(2, 2, 2)),
    ):
        for name in ("weight", "bias"):
            unpruned_module = make()
            failing_method = mock.patch.object(
                prune.L1Unstructured, "compute_mask", side_effect=KeyError("no mask")
            )
            with (
                failing_method,
                lab.consistent("The caller must get the error that the method itself raises"),
            ):
                lab.raises(
                    f"a failing pruning method for {name}",
                    lambda: prune.l1_unstructured(unpruned_module, name, amount=0.5),
                    KeyError,
                    match="no mask",
                )
            with lab.consistent("The state of the module before and after the failed call must be equal"):
                lab.same(
                    f"names in the state after a failed pruning of {name}",
                    sorted(unpruned_module.state_dict()),
                )
            with lab.consistent("The parameter before and after the failed call must be a parameter"):
                lab.holds(f"{name} is a parameter", isinstance(getattr(unpruned_module, name), nn.Parameter))
