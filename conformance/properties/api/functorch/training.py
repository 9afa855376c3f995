"""Behaviours of training with transforms: ensembles, learning rates, meta-learning, per-sample gradients and
forces (derivatives of a model with respect to its inputs).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, jacfwd, jacrev, stack_module_state, vjp, vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

Weights = dict[str, torch.Tensor]


def trees_agree(actual: Any, expected: Any) -> bool:
    """Return whether two trees of tensors agree except for rounding in float32."""
    pairs = list(zip(leaves(actual), leaves(expected), strict=True))
    return bool(pairs) and all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)


def with_fixed_parameters(lab: Lab, model: nn.Module) -> nn.Module:
    """Return the model on the device, with parameters that are the same on the CPU and on the device."""
    model = lab.to(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(lab.floats(*parameter.shape, low=-0.5, high=0.5))
    return model


def detached_parameters(model: nn.Module) -> Weights:
    """Return the parameters of a model by name, detached from their graph."""
    return {name: value.detach() for name, value in model.named_parameters()}


def gradients_by_autograd_grad(loss: Callable[[Weights], torch.Tensor], weights: Weights) -> Weights:
    """Return the gradient of a loss with respect to each weight, computed by ``torch.autograd.grad``."""
    starts = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    return dict(zip(starts, torch.autograd.grad(loss(starts), list(starts.values())), strict=True))


class _TokenClassifier(nn.Module):
    """A classifier of token sequences. It applies two linear layers to the mean of the embeddings of the
    tokens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, tokens: torch.Tensor) -> Any:
        mean = self.table(tokens).transpose(-1, -2).mean(-1)
        return self.second(F.relu(self.first(mean)))


@behaviour("functorch", level="full", capabilities=("autograd",), page="generated/torch.func.grad.html")
def per_sample_gradients_of_models(lab: Lab) -> None:
    """``vmap`` of ``grad`` returns, for each sample, the gradient that the autograd engine returns for this
    sample alone. The models are embeddings, residual convolutions with group norm, and batch norm without
    running statistics.
    """
    tokens, labels = lab.integers(4, 5, low=0, high=10, dtype=torch.int64), lab.put([0, 1, 1, 0])
    images = lab.floats(4, 2, 6, 6)

    class ResidualModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(2, 4, 3, padding=1)
            self.norm = nn.GroupNorm(2, 4)
            self.second = nn.Conv2d(4, 2, 3, padding=1)
            self.last = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> Any:
            inner = F.relu(self.norm(self.first(x)))
            outer = F.relu(x + self.second(inner))
            return self.last(F.adaptive_avg_pool2d(outer, 1).flatten(1))

    normalized = nn.Sequential(
        nn.Conv2d(2, 3, 3, bias=False),
        nn.BatchNorm2d(3, track_running_stats=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 2),
    )
    models: dict[str, tuple[nn.Module, torch.Tensor, bool]] = {
        "embeddings": (_TokenClassifier(), tokens, False),
        "residual convolutions": (ResidualModel(), images, True),
        "batch norm": (normalized, images, True),
    }
    for name, (bare, inputs, wide) in models.items():
        model = with_fixed_parameters(lab, bare)

        def loss_of_sample(
            w: Weights, sample: torch.Tensor, label: torch.Tensor, model: Any = model, wide: Any = wide
        ) -> Any:
            out = functional_call(model, w, (sample.unsqueeze(0) if wide else sample,))
            return F.cross_entropy(out, label.unsqueeze(0) if wide else label)

        each = vmap(grad(loss_of_sample), in_dims=(None, 0, 0))(detached_parameters(model), inputs, labels)
        singles = [
            gradients_by_autograd_grad(
                functools.partial(loss_of_sample, sample=inputs[row], label=labels[row]),
                detached_parameters(model),
            )
            for row in range(4)
        ]
        for key, value in each.items():
            lab.close(f"{name}: {key}", value, roundings=2048, matrix=True)
            expected = torch.stack([single[key] for single in singles])
            lab.holds(f"{name}: {key} agrees with the engine's gradient", trees_agree(value, expected))


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "random"),
    page="generated/torch.func.stack_module_state.html",
)
def ensembles_that_train(lab: Lab) -> None:
    """A training step of stacked models under ``vmap`` gives the losses and weights of separate training
    steps. With ``randomness="same"``, models that differ only in their learning rates have the same loss.
    """
    points, labels = lab.floats(6, 2), lab.put([0, 1, 1, 0, 1, 0])

    def make_model() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2), nn.LogSoftmax(-1))

    base = with_fixed_parameters(lab, make_model())

    def loss_and_updated_weights(w: Weights, rate: Any = 0.25) -> Any:
        gradients, value = grad_and_value(lambda p: F.nll_loss(functional_call(base, p, (points,)), labels))(
            w
        )
        return value, {name: w[name] - rate * gradients[name] for name in w}

    models = [with_fixed_parameters(lab, make_model()) for _ in range(2)]
    stacked, _ = stack_module_state(models)
    stacked = {name: value.detach() for name, value in stacked.items()}
    losses, weights = vmap(loss_and_updated_weights)(stacked)
    lab.close("losses", losses, roundings=256, matrix=True)
    for number, single in enumerate(models):
        gradients = gradients_by_autograd_grad(
            lambda p: F.nll_loss(functional_call(base, p, (points,)), labels), detached_parameters(single)
        )
        expected = {
            name: value - 0.25 * gradients[name] for name, value in detached_parameters(single).items()
        }
        lab.holds(
            f"model {number}: agrees with the engine's step",
            trees_agree({k: v[number] for k, v in weights.items()}, expected),
        )
        lab.close(
            f"model {number}: a step", {k: v[number] for k, v in weights.items()}, roundings=1024, matrix=True
        )

    for name, layer in {
        "dropout": nn.Dropout(),
        "alpha dropout": nn.AlphaDropout(),
        "feature alpha dropout": nn.FeatureAlphaDropout(),
    }.items():
        noisy = with_fixed_parameters(
            lab, nn.Sequential(layer, nn.Flatten(), nn.Linear(16, 2), nn.LogSoftmax(-1))
        )
        twice, _ = stack_module_state([noisy, copy.deepcopy(noisy)])
        twice = {key: value.detach() for key, value in twice.items()}
        volumes = lab.floats(6, 2, 2, 2, 2)

        def loss_and_weights_with_dropout(
            w: Weights, rate: torch.Tensor, noisy: Any = noisy, volumes: Any = volumes
        ) -> Any:
            gradients, value = grad_and_value(
                lambda p: F.nll_loss(functional_call(noisy, p, (volumes,)), labels)
            )(w)
            return value, {key: w[key] - rate * gradients[key] for key in w}

        losses, weights = vmap(loss_and_weights_with_dropout, randomness="same")(twice, lab.put([0.25, 0.5]))
        lab.holds(
            f"{name}: both models have the same loss", torch.allclose(losses[0], losses[1], rtol=1e-5, atol=0)
        )
        moved = weights["2.weight"] - twice["2.weight"]
        lab.holds(
            f"{name}: twice the learning rate gives twice the step", trees_agree(2 * moved[0], moved[1])
        )
        lab.holds(
            f"{name}: the weights differ", not torch.equal(weights["2.weight"][0], weights["2.weight"][1])
        )


@behaviour(
    "functorch",
    level="full",
    capabilities=("double_backward", "autograd"),
    page="func.html",
    ground="transforms compose, and vmap equals a loop over the tasks",
)
def gradients_through_training(lab: Lab) -> None:
    """Under ``vmap`` over tasks, gradients flow through the training steps of each task, for linear layers
    and for convolutions with group norm. The gradients equal the gradients that the autograd engine computes
    for each task alone.
    """
    lines = with_fixed_parameters(lab, nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)))
    pictures = with_fixed_parameters(
        lab,
        nn.Sequential(
            nn.Conv2d(1, 2, 3, bias=False),
            nn.GroupNorm(2, 2),
            nn.Tanh(),
            nn.AvgPool2d(2, 2),  # average, because other pooling kernels need not have a second derivative
            nn.Flatten(),
            nn.Linear(8, 2),
        ),
    )
    tasks: dict[str, tuple[nn.Module, Callable[..., torch.Tensor], tuple[torch.Tensor, ...], int]] = {
        "lines": (lines, F.mse_loss, tuple(lab.floats(3, 5, 1) for _ in range(4)), 2),
        "pictures": (
            pictures,
            F.cross_entropy,
            (
                lab.floats(2, 4, 1, 6, 6),
                lab.integers(2, 4, low=0, high=2, dtype=torch.int64),
                lab.floats(2, 4, 1, 6, 6),
                lab.integers(2, 4, low=0, high=2, dtype=torch.int64),
            ),
            1,
        ),
    }
    for name, (model, criterion, data, steps) in tasks.items():

        def loss_after_training_steps(w: Weights, *task: torch.Tensor, gradient: Any) -> torch.Tensor:
            x1, y1, x2, y2 = task
            new = w
            for _ in range(steps):
                slopes = gradient(lambda p: criterion(functional_call(model, p, (x1,)), y1), new)
                new = {key: new[key] - 0.25 * slopes[key] for key in new}
            return criterion(functional_call(model, new, (x2,)), y2)

        def gradients_by_engine(loss: Callable[[Weights], torch.Tensor], w: Weights) -> Weights:
            slopes = torch.autograd.grad(loss(w), list(w.values()), create_graph=True)
            return dict(zip(w, slopes, strict=True))

        def gradients_by_transform(loss: Callable[[Weights], torch.Tensor], w: Weights) -> Any:
            return grad(loss)(w)

        def mean_loss_by_vmap(w: Weights) -> torch.Tensor:
            return vmap(lambda *task: loss_after_training_steps(w, *task, gradient=gradients_by_transform))(
                *data
            ).mean()

        def mean_loss_by_loop(w: Weights) -> torch.Tensor:
            count = len(data[0])
            return torch.stack(
                [
                    loss_after_training_steps(w, *(d[n] for d in data), gradient=gradients_by_engine)
                    for n in range(count)
                ]
            ).mean()

        result = gradients_by_autograd_grad(mean_loss_by_vmap, detached_parameters(model))
        lab.close(f"{name}: gradients through steps", list(result.values()), roundings=8192, matrix=True)
        lab.holds(
            f"{name}: the engine's",
            trees_agree(result, gradients_by_autograd_grad(mean_loss_by_loop, detached_parameters(model))),
        )


@behaviour(
    "functorch",
    level="full",
    capabilities=("double_backward", "forward_ad", "autograd"),
    page="generated/torch.func.jacrev.html",
)
def gradients_of_forces(lab: Lab) -> None:
    """A loss may contain the batched Jacobian of a model, computed by ``jacrev`` or ``jacfwd``. The gradients
    of the loss equal the gradients for Jacobians that the autograd engine computes one by one.
    """
    model = with_fixed_parameters(
        lab, nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    )
    radii, energies, forces = lab.floats(6, 1, low=0.5, high=1.0), lab.floats(6, 1), lab.floats(6, 1)

    def loss_of_energies_and_forces(predicted: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(predicted, energies) + 0.25 * F.mse_loss(-slopes, forces)

    parameters = list(model.parameters())
    one_by_one = torch.cat(
        [torch.autograd.functional.jacobian(model, radius, create_graph=True) for radius in radii]
    )
    expected = torch.autograd.grad(loss_of_energies_and_forces(model(radii), one_by_one), parameters)
    for transform_name, jacobian in (("jacrev", jacrev), ("jacfwd", jacfwd)):
        slopes = vmap(jacobian(model))(radii).squeeze(-1)
        result = torch.autograd.grad(loss_of_energies_and_forces(model(radii), slopes), parameters)
        lab.close(transform_name, list(result), roundings=4096, matrix=True)
        lab.holds(f"{transform_name}: the engine's", trees_agree(list(result), list(expected)))


@behaviour("functorch", level="full", capabilities=("autograd",), page="generated/torch.func.grad.html")
def gradients_of_many_functions(lab: Lab) -> None:
    """``grad`` and ``vjp`` return zeros for unused inputs, also in dicts. Both differentiate matrix products,
    batched softmax, and writes into new memory.
    """
    x, y, t = lab.integers(3), lab.integers(3), lab.integers(3)
    slopes = grad(lambda d: (d["a"] * d["a"]).sum())({"a": x, "b": y})
    lab.expect("used", slopes["a"], 2 * x.cpu())
    lab.expect("not used", slopes["b"], torch.zeros(3))
    value, pull = vjp(lambda a, b: (t, t, b), x, y)  # type: ignore[misc]
    lab.same("outputs that depend on one input", value)
    first, second = pull((t, t, t))
    lab.expect("gradient of an input without an output", first, torch.zeros(3))
    lab.expect("used by the last", second, t.cpu())
    matrix = lab.integers(3, 5)
    lab.expect("a product", grad(lambda a, m: (a @ m).sum())(x, matrix), matrix.sum(1).cpu())
    rows = lab.integers(4, 3)
    written = vmap(grad(lambda a, b: b.new_empty((3,)).copy_(a).sum()))(rows, lab.integers(4))
    lab.expect("new memory that is written", written, torch.ones(4, 3))
    starts = lab.floats(4, 3)

    def vjp_of_log_softmax(a: torch.Tensor, weight: torch.Tensor) -> Any:
        return vjp(lambda b: torch.log_softmax(b, -1), a)[1](weight)[0]

    result = vmap(vjp_of_log_softmax, (0, None))(starts, t)
    lab.close("log_softmax in a batch", result, roundings=64, matrix=True)
    leaf = starts.clone().requires_grad_()
    torch.log_softmax(leaf, -1).backward(t.expand(4, 3))
    lab.holds("log_softmax in a batch: agrees with the engine", trees_agree(result, leaf.grad))
    escaped: list[torch.Tensor] = []
    grad(lambda a: (escaped.append(a * a), (a * a).sum())[1])(x)  # type: ignore[func-returns-value]
    with lab.parity(
        "The UX limitations page advises against values that escape, and promises nothing for such values"
    ):
        lab.expect("a value that escaped from grad", escaped[0].sum(), (x * x).sum().cpu())
    texts: list[str] = []
    vjp(lambda a: (texts.append(repr(x)), a)[1], t)  # type: ignore[func-returns-value]
    with lab.consistent("the printed texts of a tensor inside and outside of a transform must agree"):
        lab.holds("a captured tensor prints equal text inside and outside", texts == [repr(x)])


@behaviour(
    "functorch",
    dtypes=("complex64",),
    level="full",
    capabilities=("autograd",),
    page="notes/autograd.html",
    ground=(
        "The note defines complex gradients; the UX limitations page says that grad does not refuse to read "
        "values"
    ),
)
def transforms_of_complex_functions(lab: Lab) -> None:
    """Inside ``grad``, ``is_conj`` and ``tolist`` of a complex tensor return the same values as outside.
    Gradients are conjugate Wirtinger derivatives.
    """
    z = lab.put([3.0 + 4.0j, 1.0 - 2.0j], dtype=lab.dtype)
    bits: list[Any] = []

    def sum_of_magnitudes(a: torch.Tensor) -> torch.Tensor:
        conjugate = a.conj()
        bits.append((a.is_conj(), conjugate.is_conj()))
        bits.append((a.tolist(), conjugate.tolist()))
        return conjugate.abs().sum()

    slopes = grad(sum_of_magnitudes)(z)
    lab.expect("bits and lists", bits, [(False, True), (z.tolist(), z.conj().tolist())])
    lab.expect("the gradient of the absolute value", slopes, torch.sgn(z.cpu()), roundings=16.0)
    lab.expect("the gradient of the square", grad(lambda a: (a * a.conj()).real.sum())(z), 2 * z.cpu())


@behaviour(
    "functorch",
    level="full",
    capabilities=("sparse", "autograd"),
    page="generated/torch.func.grad.html",
    basis="parity",
    ground="No page gives the layout of the gradient of a sparse input",
)
def grad_of_sparse_inputs(lab: Lab) -> None:
    """``grad`` accepts a COO tensor and returns a COO gradient. Inside ``grad``, the tensor reports its
    layout.
    """
    where, values = lab.put([[0, 1, 1], [2, 0, 2]]), lab.integers(3)
    x = torch.sparse_coo_tensor(where, values, (2, 3), check_invariants=True)
    layouts: list[torch.layout] = []

    def record_layout_and_sum(a: torch.Tensor) -> torch.Tensor:
        layouts.append(a.layout)
        return a.coalesce().values().sum()

    slopes = grad(record_layout_and_sum)(x)
    lab.same("layouts", [str(layout) for layout in (*layouts, slopes.layout)])
    with lab.documented():
        lab.expect("the gradient", slopes.to_dense(), [[0.0, 0, 1], [1, 0, 1]])
