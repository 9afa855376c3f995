"""Check parameter vectors, clipped gradients, weight and spectral norms, pruning, and fused layers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import gradients_by_name, with_whole_number_state


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.utils.parameters_to_vector.html",
)
def vectors_of_parameters(lab: Lab) -> None:
    """``parameters_to_vector`` joins parameters to one vector in their order. ``vector_to_parameters`` sets
    parameters from a vector.
    """
    net = nn.Sequential(
        with_whole_number_state(lab, nn.Conv2d(1, 2, 2)), with_whole_number_state(lab, nn.Linear(2, 2))
    )
    vector = nn.utils.parameters_to_vector(net.parameters())
    lab.same("the vector", vector)
    values = lab.integers(len(vector))
    nn.utils.vector_to_parameters(values, net.parameters())
    lab.same("back", [parameter.detach() for parameter in net.parameters()])
    lab.same("a vector again", nn.utils.parameters_to_vector(net.parameters()).detach() == values)
    with lab.parity("No page says that the call is an error"):
        lab.raises("no tensor", lambda: nn.utils.vector_to_parameters([1.0], net.parameters()), TypeError)  # type: ignore[arg-type]
    vector = nn.utils.parameters_to_vector(net.parameters())
    vector.sum().backward()
    lab.expect("gradient of a sum of the parameter vector", net[1].bias.grad, [1.0, 1.0])


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.utils.clip_grad_norm_.html",
)
def clipped_gradients(lab: Lab) -> None:
    """``clip_grad_norm_`` scales gradients in place to a norm of any order and returns the norm before
    clipping. ``clip_grad_value_`` limits gradients to a range.
    """
    for order, total in ((1.0, 18.0), (2.0, 10.0), (float("inf"), 8.0)):
        for foreach in (None, False, True) if lab.target.capable("foreach") else (None, False):
            first, second = (
                nn.Parameter(torch.zeros(2, device=lab.device, dtype=lab.dtype)) for _ in range(2)
            )
            first.grad, second.grad = (
                lab.put([0.0, -6.0], dtype=lab.dtype),
                lab.put([8.0, 0.0], dtype=lab.dtype),
            )
            if order == 1.0:
                second.grad = lab.put([8.0, 4.0], dtype=lab.dtype)
            gradient_object = first.grad
            norm = nn.utils.clip_grad_norm_([first, second], total / 2, norm_type=order, foreach=foreach)
            lab.expect(f"norm {order}, {foreach}", norm, total, roundings=8)
            lab.close(f"gradients {order}, {foreach}", (first.grad, second.grad), roundings=16)
            lab.expect(f"halved gradients {order}, {foreach}", first.grad, [0.0, -3.0], roundings=64)
            lab.holds(f"gradients are clipped in place, {order}, {foreach}", first.grad is gradient_object)
            later_norm = nn.utils.clip_grad_norm_(
                [first, second], total * 2, norm_type=order, foreach=foreach
            )
            lab.close(
                f"gradients below the maximum norm, {order}, {foreach}",
                (later_norm, first.grad),
                roundings=16,
            )
    single = nn.Parameter(torch.zeros(2, device=lab.device, dtype=lab.dtype))
    for bad in (float("nan"), float("inf")):
        single.grad = lab.put([bad, 1.0], dtype=lab.dtype)
        lab.raises(
            f"a norm of {bad}",
            lambda: nn.utils.clip_grad_norm_(single, 1.0, error_if_nonfinite=True),
            match="(?i)non-finite",
        )
        with lab.consistent("the gradient must be equal before and after the failed call"):
            lab.same("gradient after the failed call", single.grad)
        nn.utils.clip_grad_norm_(single, 1.0)
    single.grad = lab.put([-5.0, 5.0], dtype=lab.dtype)
    nn.utils.clip_grad_value_(single, 2.0)
    lab.expect("cut to a range", single.grad, [-2.0, 2.0])
    several = [nn.Parameter(torch.zeros(2, device=lab.device, dtype=lab.dtype)) for _ in range(2)]
    several[0].grad = lab.put([-5.0, 1.0], dtype=lab.dtype)
    nn.utils.clip_grad_value_(several, 2.0)
    lab.same("one of two", (several[0].grad, several[1].grad))
    lab.close("get_total_norm", nn.utils.get_total_norm([lab.put([3.0, 4.0], dtype=lab.dtype)]), roundings=8)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.utils.parametrizations.weight_norm.html",
)
def weight_normalization(lab: Lab) -> None:
    """Weight norm stores the length and the direction of a weight as parameters. Their product is the
    original weight, and both receive gradients. It can be removed and copied.
    """
    x = lab.floats(3, 4)
    for dim in (0, 1, None, -1):
        unnormalized = with_whole_number_state(lab, nn.Linear(4, 2), low=1)
        before = unnormalized(x)
        for api_name, wrap in (("old", nn.utils.weight_norm), ("new", parametrizations.weight_norm)):
            module = wrap(copy.deepcopy(unnormalized), dim=dim)  # type: ignore[arg-type]
            lab.close(f"result, {api_name}, {dim}", (module(x), before), roundings=64, matrix=True)
            lab.same(
                f"names, {api_name}, {dim}",
                sorted((name, list(parameter.shape)) for name, parameter in module.named_parameters()),
            )
            module(x).sum().backward()
            lab.close(f"gradients, {api_name}, {dim}", gradients_by_name(module), roundings=512, matrix=True)
            copied = copy.deepcopy(module) if api_name == "new" else None
            if copied is not None:
                lab.close(f"a copy, {dim}", copied(x), roundings=64, matrix=True)
                parametrize.remove_parametrizations(module, "weight")
            else:
                nn.utils.remove_weight_norm(module)
            lab.close(f"removed, {api_name}, {dim}", module(x), roundings=64, matrix=True)
            lab.same(
                f"names after removal, {api_name}, {dim}",
                sorted(name for name, _ in module.named_parameters()),
            )
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "removing weight norm from a module without weight norm",
            lambda: nn.utils.remove_weight_norm(with_whole_number_state(lab, nn.Linear(2, 2))),
            ValueError,
        )
    twice = nn.utils.weight_norm(with_whole_number_state(lab, nn.Linear(2, 2), low=1))
    with lab.parity("No page says that the call is an error"):
        lab.raises("twice", lambda: nn.utils.weight_norm(twice))
    recurrent = with_whole_number_state(lab, nn.LSTM(2, 3), low=1)
    with torch.no_grad():
        for parameter in recurrent.parameters():
            parameter.mul_(0.1)
    y = lab.floats(4, 1, 2)
    before = recurrent(y)[0]
    normed = nn.utils.weight_norm(recurrent, name="weight_hh_l0")
    lab.close("of a recurrent module", (normed(y)[0], before), roundings=256, matrix=True)
    by_pickle = pickle.loads(
        pickle.dumps(
            parametrizations.weight_norm(with_whole_number_state(lab, nn.Linear(2, 2), low=1)).state_dict()
        )
    )
    lab.close("its state, pickled", dict(by_pickle), roundings=16)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.utils.parametrizations.spectral_norm.html",
)
def spectral_normalization(lab: Lab) -> None:
    """Spectral norm divides a weight by its largest singular value, which power iteration approximates. Only
    train mode iterates.
    """
    diagonal = torch.diag(torch.tensor([4.0, 2.0, 1.0]))
    for api_name, wrap in (("old", nn.utils.spectral_norm), ("new", parametrizations.spectral_norm)):
        module: Any = nn.Linear(3, 3, bias=False)
        with torch.no_grad():
            module.weight.copy_(diagonal)
        module = wrap(module.to(lab.device), n_power_iterations=40)
        x = lab.put(torch.eye(3))
        y = module(x)
        lab.expect(f"{api_name}: of a diagonal", y, (diagonal / 4).tolist(), roundings=256, matrix=True)
        y.sum().backward()
        lab.holds(
            f"{api_name}: gradients are finite",
            all(parameter.grad.isfinite().all() for parameter in module.parameters()),
        )
        # The iteration for three close singular values needs many steps, so that each step changes the
        # vectors.
        slow: Any = nn.Linear(3, 3, bias=False)
        with torch.no_grad():
            slow.weight.copy_(torch.diag(torch.tensor([4.0, 3.75, 3.5])))
        slow = wrap(slow.to(lab.device))
        with lab.parity("No page names the buffers that hold the vectors of the iteration"):
            before = [buffer.clone() for buffer in slow.buffers()]
            slow.eval()(x)
            rests = all(map(torch.equal, slow.buffers(), before))
            lab.holds(f"{api_name}: eval mode does not iterate", rests)
            slow.train()(x)
            iterates = not all(map(torch.equal, slow.buffers(), before))
            lab.holds(f"{api_name}: train mode iterates", iterates)
        module.eval()
        with lab.parity("No page names these parameters and buffers, such as weight_orig or _u"):
            lab.same(f"{api_name}: names", sorted(name for name, _ in module.named_parameters()))
            lab.same(
                f"{api_name}: buffers",
                sorted((name, list(buffer.shape)) for name, buffer in module.named_buffers()),
            )
        square = wrap(nn.Linear(3, 3, bias=False, device=lab.device), n_power_iterations=40)
        square.load_state_dict(module.state_dict())
        square.eval()
        lab.close(f"{api_name}: loaded", square(x), roundings=256, matrix=True)
        if api_name == "old":
            nn.utils.remove_spectral_norm(module)
            with lab.parity("No page says that the call is an error"):
                lab.raises(
                    "removing spectral norm from a module without spectral norm",
                    lambda: nn.utils.remove_spectral_norm(nn.Linear(2, 2)),
                    ValueError,
                )
        else:
            parametrize.remove_parametrizations(module, "weight")
        lab.close(f"{api_name}: removed", module(x), roundings=256, matrix=True)
        transposed = wrap(with_whole_number_state(lab, nn.ConvTranspose2d(2, 3, 2), low=1))
        vectors = sorted(list(buffer.shape) for name, buffer in transposed.named_buffers())
        with lab.parity("No page names these buffers"):
            lab.same(f"{api_name}: of a transposed convolution", vectors)
    with lab.parity("No page says that the call is an error"):
        lab.raises("old: twice", lambda: nn.utils.spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 2))))


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.nn.utils.prune.l1_unstructured.html",
)
def pruned_modules(lab: Lab) -> None:
    """Pruning masks the smallest entries, the smallest rows or given positions. The module keeps the original
    parameter. ``prune.remove`` makes the pruning permanent.
    """
    rows = [[1.0, 2.0, 3.0, 4.0], [-4.0, -3.0, -2.0, -1.0]]

    def make_linear() -> nn.Linear:
        return with_whole_number_state(lab, nn.Linear(4, 2))

    def linear_with_weight(values: Any) -> nn.Linear:
        module = make_linear()
        module.weight = nn.Parameter(lab.put(values))
        return module

    module = linear_with_weight(rows)
    parameter = module.weight
    prune.l1_unstructured(module, "weight", amount=2)
    lab.expect("the two smallest", module.weight + 0, [[0.0, 2.0, 3.0, 4.0], [-4.0, -3.0, -2.0, 0.0]])
    lab.holds(
        "the module keeps the original parameter", module.weight_orig is parameter and prune.is_pruned(module)
    )
    lab.same(
        "names", (sorted(n for n, _ in module.named_parameters()), [n for n, _ in module.named_buffers()])
    )
    prune.l1_unstructured(module, "weight", amount=2)
    lab.expect("and the next two", module.weight + 0, [[0.0, 0.0, 3.0, 4.0], [-4.0, -3.0, 0.0, 0.0]])
    x = lab.integers(3, 4)
    y = module(x)
    lab.same("result", y)
    y.sum().backward()
    lab.same("gradient of the original parameter", module.weight_orig.grad)
    lab.same("through pickle", pickle.loads(pickle.dumps(module.state_dict())))
    copied = copy.deepcopy(nn.Sequential(linear_with_weight(rows)))
    lab.same("a copy", copied(x))
    prune.remove(module, "weight")
    lab.same("made final", (module(x), sorted(n for n, _ in module.named_parameters())))
    with lab.parity("No page says that removal restores the original parameter object"):
        lab.holds(
            "remove restores the same parameter object",
            module.weight is parameter and not prune.is_pruned(module),
        )
    scored = linear_with_weight(rows)
    scores = lab.put([[4.0, 2.0, 1.0, 3.0], [-3.0, -1.0, -2.0, -4.0]])
    prune.l1_unstructured(scored, "weight", amount=2, importance_scores=scores)
    lab.expect("by scores", scored.weight + 0, [[1.0, 2.0, 0.0, 4.0], [-4.0, 0.0, -2.0, -1.0]])
    # This prunes the second and third column, which have the same norm.
    prune.ln_structured(scored, "weight", amount=2, n=1, dim=1)
    lab.same("then two columns", (scored.weight, scored.weight_mask))
    image = with_whole_number_state(lab, nn.Conv2d(3, 1, 2))
    with torch.no_grad():
        image.weight.copy_(
            torch.tensor([[[[1.0, 2.0], [1.0, 2.5]], [[0.5, 1.0], [0.1, 0.1]], [[-3.0, -5.0], [0.1, -1.0]]]])
        )
    prune.ln_structured(image, "weight", amount=1, n=2, dim=1)
    lab.same("mask of the channel with the smallest norm", image.weight_mask)
    prune.ln_structured(image, "weight", amount=1, n=1, dim=-1)
    lab.same("mask after pruning a column too", image.weight_mask)
    scored_image = with_whole_number_state(lab, nn.Conv2d(3, 1, 2))
    importance = lab.put([[[[10.0, 1.0]] * 2, [[30.0, 3.0]] * 2, [[-20.0, -2.0]] * 2]])
    prune.ln_structured(scored_image, "weight", amount=1, n=2, dim=1, importance_scores=importance)
    lab.same("a channel by scores", scored_image.weight_mask)
    first, second = (
        linear_with_weight(rows),
        linear_with_weight([[0.0, 0.125, -2.0, 9.0], [9.0, 9.0, 9.0, 9.0]]),
    )
    prune.global_unstructured(
        ((first, "weight"), (second, "weight")), pruning_method=prune.L1Unstructured, amount=4
    )
    lab.expect(
        "over two modules",
        torch.cat((first.weight, second.weight)),
        [[0.0, 2.0, 3.0, 4.0], [-4.0, -3.0, -2.0, 0.0], [0.0, 0.0, -2.0, 9.0], [9.0] * 4],
    )
    masked = linear_with_weight(rows)
    prune.custom_from_mask(masked, "weight", lab.put([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]]))
    lab.expect("by a mask", masked.weight + 0, [[0.0, 2.0, 3.0, 0.0], [0.0, 0.0, -2.0, -1.0]])
    container = prune.PruningContainer()
    values = lab.put([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    before = lab.put([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    lab.expect(
        "beside an earlier mask",
        prune.L1Unstructured(amount=2).prune(values, before),
        [[0.0, 0.0, 3.0, 0.0], [5.0, 6.0, 0.0, 8.0]],
    )
    with lab.parity("No page says that the call is an error"):
        lab.raises("adding no method", lambda: container.add_pruning_method(10), TypeError)
    equal = prune.L1Unstructured(amount=0.2).compute_mask(
        torch.ones(10, 7, device=lab.device), torch.ones(10, 7, device=lab.device)
    )
    lab.expect("number of pruned entries if all are equal", (equal == 0).sum(), 14)
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "removing pruning from a module that is not pruned",
            lambda: prune.remove(make_linear(), "weight"),
            ValueError,
        )
    for amount in (1.5, -1, 99):
        with lab.parity("The page bounds only fractions, and does not say that other amounts are an error"):
            lab.raises(
                f"an amount of {amount}",
                lambda: prune.l1_unstructured(make_linear(), "weight", amount),
                ValueError,
            )
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "an amount that is a string",
            lambda: prune.l1_unstructured(make_linear(), "weight", "some"),
            TypeError,
        )


@behaviour(
    "nn",
    capabilities=("random", "autograd"),
    must_detect=("value",),
    page="generated/torch.nn.utils.prune.random_unstructured.html",
)
def random_pruning(lab: Lab) -> None:
    """Random pruning masks the requested number of entries or rows and keeps the original parameter. Identity
    pruning does not change the weight.
    """
    x = lab.integers(3, 4)
    for make in (
        lambda: with_whole_number_state(lab, nn.Linear(4, 6)),
        lambda: with_whole_number_state(lab, nn.Conv1d(4, 6, 1)),
    ):
        for name in ("weight", "bias"):
            module = make()
            original = getattr(module, name)
            prune.random_unstructured(module, name, amount=3)
            mask = getattr(module, f"{name}_mask")
            lab.holds(f"three entries of {name} are pruned", int((mask == 0).sum()) == 3)
            lab.holds(
                f"the module keeps the original parameter of {name}",
                getattr(module, f"{name}_orig") is original,
            )
            lab.holds(f"{name} is masked", torch.equal(getattr(module, name), original * mask))
            lab.same(f"sizes of {name}", (mask.shape, getattr(module, name).shape))
    identity = with_whole_number_state(lab, nn.Linear(4, 2))
    before = identity(x)
    prune.identity(identity, "weight")
    lab.same("no pruning", (identity(x), before))
    identity(x).sum().backward()
    lab.same("its gradient", identity.weight_orig.grad)
    method = prune.RandomStructured(amount=0.6, dim=2)
    mask = method.compute_mask(lab.integers(5, 4, 2).float(), torch.ones(5, 4, 2, device=lab.device))
    with lab.parity("No page says how a fraction of the channels is rounded to a count"):
        lab.same("one column of two", sorted((mask == 0).sum((0, 1)).tolist()))
    recurrent = with_whole_number_state(lab, nn.LSTM(3, 2))
    prune.l1_unstructured(recurrent, "weight_ih_l0", 0.5)
    lab.same("a recurrent module", sorted(n for n, _ in recurrent.named_parameters()))
    prune.remove(recurrent, "weight_ih_l0")
    lab.same("and after removal", sorted(n for n, _ in recurrent.named_parameters()))


@behaviour(
    "nn",
    must_detect=("value",),
    page="generated/torch.nn.utils.fusion.fuse_conv_bn_eval.html",
    ground="a fused module must compute the result of both modules",
)
def fused_layers(lab: Lab) -> None:
    """A convolution or linear layer fused with its batch norm computes the same result as both layers. It
    preserves ``requires_grad``.
    """
    cases: tuple[tuple[Any, Any, Any, tuple[int, ...]], ...] = (
        (nn.utils.fusion.fuse_conv_bn_eval, nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), (2, 2, 5)),
        (nn.utils.fusion.fuse_conv_bn_eval, nn.Conv2d(2, 3, 2, bias=False), nn.BatchNorm2d(3), (2, 2, 5, 4)),
        (nn.utils.fusion.fuse_conv_bn_eval, nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3), (2, 2, 4, 3, 3)),
        (nn.utils.fusion.fuse_linear_bn_eval, nn.Linear(2, 3), nn.BatchNorm1d(3), (4, 2)),
    )
    for fuse, make, norm, shape in cases:
        first, second = with_whole_number_state(lab, make).eval(), with_whole_number_state(lab, norm).eval()
        first.weight.requires_grad_(False)
        x = lab.integers(*shape)
        fused = fuse(first, second)
        label = f"{type(make).__name__}, {getattr(make, 'bias', None) is not None}"
        lab.close(f"{label}: both", second(first(x)), roundings=128, matrix=True)
        lab.close(f"{label}: fused", fused(x), roundings=128, matrix=True)
        with lab.parity("No page says that the fused layer keeps requires_grad"):
            lab.same(
                f"{label}: what needs gradients",
                [parameter.requires_grad for parameter in fused.parameters()],
            )
