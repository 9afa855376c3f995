"""Behaviours of ``vmap``: several results, calls of the autograd engine, strides, normalization, matrix
functions and chunks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from functorch.experimental import chunk_vmap
from torch.func import grad
from torch.utils.checkpoint import checkpoint

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.functorch.batched_operators import check_vmap
from conformance.properties.api.functorch.training import trees_agree

vmap = torch.vmap


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "double_backward"),
    must_detect=("value",),
    page="generated/torch.func.vmap.html",
    ground="The pages of vmap, checkpoint and detect_anomaly each state their part",
)
def batches_of_engine_calls(lab: Lab) -> None:
    """Inside checkpointing, ``vmap`` returns the same gradients as without checkpointing. Under anomaly
    detection, an error inside ``vmap`` names the operator whose backward pass returned NaN. ``vmap`` maps
    ``torch.autograd.grad`` over cotangents.
    """
    a = lab.floats(3, 4, 4) + 2 * torch.eye(4, device=lab.device)

    def sum_of_mapped_products(b: torch.Tensor) -> Any:
        return vmap(lambda m: (m @ m).sin().sum())(b).sum()

    first_leaf, checkpointed_leaf = a.clone().requires_grad_(), a.clone().requires_grad_()
    sum_of_mapped_products(first_leaf).backward()
    checkpoint(sum_of_mapped_products, checkpointed_leaf, use_reentrant=False).backward()
    lab.close("under checkpointing", checkpointed_leaf.grad, roundings=256, matrix=True)
    lab.holds("under checkpointing: as without", trees_agree(first_leaf.grad, checkpointed_leaf.grad))
    x = -lab.floats(3, low=0.5)
    with torch.autograd.set_detect_anomaly(True):
        lab.expect("under anomaly detection", vmap(grad(lambda b: b.sum()))(x), torch.ones(3))
        lab.raises("NaN", lambda: vmap(grad(lambda b: b.sqrt().sum()))(x), match="Sqrt.*nan")
    image, kernel = lab.integers(2, 3, 4, 5, requires_grad=True), lab.integers(3, 3, 1, 1)
    cotangents = lab.integers(5, 2, 3, 4, 5)

    def image_gradient(cotangent: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(F.conv2d(image, kernel), image, cotangent)[0]

    result = vmap(image_gradient)(cotangents)
    lab.same("a convolution without a bias", result.detach())
    each = torch.stack([image_gradient(v) for v in cotangents])
    lab.holds("a convolution without a bias: agrees with single calls", torch.equal(result, each))
    first = lab.integers(2, 3, 2, requires_grad=True)
    random = torch.autograd.grad((first * first * first).sum(), first, create_graph=True)[0]
    lab.same(
        "a second order",
        vmap(lambda v: torch.autograd.grad(random, first, v, retain_graph=True)[0])(lab.integers(4, 2, 3, 2)),
    )


class PairResult(NamedTuple):
    """A namedtuple result with two fields."""

    x: torch.Tensor
    y: torch.Tensor


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    must_detect=("value",),
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_several_results(lab: Lab) -> None:
    """Under one or several levels of ``vmap``, ``var_mean``, ``mode``, ``cross``, ``slogdet``, losses,
    ``silu``, ``group_norm`` and functions that return a namedtuple act on each element of a batch. With None
    in ``out_dims``, a result that is not mapped has no batch dimension.
    """
    x = lab.integers(2, 3, 4, low=-8, high=9)
    moments: Any = vmap(torch.var_mean)
    for levels, function in ((1, moments), (2, vmap(moments))):
        value = x if levels == 2 else x[0]
        result: Any = function(value)
        lab.close(f"var_mean, {levels} levels", result)
        lab.holds(
            f"var_mean, {levels} levels: agrees with the plain call",
            trees_agree(result, torch.var_mean(value, -1)),
        )
    repeated = lab.put([[1.0, 2, 2, 3], [4, 4, 5, 6], [7, 8, 9, 9]])
    check_vmap(lab, "mode", lambda a: torch.mode(a).values, repeated)
    check_vmap(lab, "mode of the other dimension", lambda a: torch.mode(a).values, repeated.T, in_dims=1)
    check_vmap(
        lab, "cross in a batch of three", torch.linalg.cross, lab.integers(3, 5, 3), lab.integers(3, 5, 3)
    )
    check_vmap(lab, "cross of vectors", torch.linalg.cross, lab.integers(3, 3), lab.integers(3, 3))
    with lab.parity("The page of vmap describes out_dims as integers, and does not mention None"):
        pair = vmap(lambda a, b: (a * 2, b.sum()), in_dims=(0, None), out_dims=(0, None))(x, x)  # type: ignore[arg-type]
        lab.expect("None among out_dims", pair[1], x.sum().cpu())
        lab.expect("the mapped result next to None in out_dims", pair[0], 2 * x.cpu())
        lab.raises(
            "None in out_dims for a mapped result",
            lambda: vmap(lambda a: (a, a), out_dims=(0, None))(x),  # type: ignore[arg-type]
            ValueError,
        )
    matrices = lab.floats(2, 3, 3) + 3 * torch.eye(3, device=lab.device)
    parts = vmap(torch.linalg.slogdet)(matrices)
    lab.close("slogdet", tuple(parts), roundings=256, matrix=True)
    lab.holds(
        "slogdet: agrees with the plain call",
        trees_agree(tuple(parts), tuple(torch.linalg.slogdet(matrices))),
    )
    mixed = vmap(vmap(torch.matmul, in_dims=(None, 0)))(
        y := lab.integers(5, 2, 2, 2), v := lab.integers(5, 7, 2)
    )
    lab.same("matmul with one matrix for the inner level", mixed)
    each = torch.stack([torch.stack([y[i] @ w for w in v[i]]) for i in range(5)])
    lab.holds("matmul with one matrix for the inner level: agrees with loops", torch.equal(mixed, each))
    named = vmap(lambda a, b: PairResult(a + 1, b))(x, x[:, 0])
    lab.same("names", (type(named).__name__, tuple(named)))
    lab.holds("the class of the result", isinstance(named, PairResult))
    logits, targets = lab.floats(2, 4, 3), lab.put([[0, 1, 2, 0], [2, 2, 1, 1]])
    weight = lab.floats(3, low=0.5, high=1.0)
    losses = vmap(lambda a, t: F.nll_loss(a, t, weight=weight))(logits, targets)
    lab.close("nll_loss", losses, roundings=64)
    lone = torch.stack([F.nll_loss(logits[n], targets[n], weight=weight) for n in range(2)])
    lab.holds("nll_loss: agrees with single calls", trees_agree(losses, lone))
    whole = vmap(lambda t: F.nll_loss(logits[0], t, reduction="none"))(targets)
    lab.expect(
        "nll_loss with an input that is not mapped",
        whole,
        F.nll_loss(logits[0].repeat(2, 1), targets.flatten(), reduction="none").view(2, 4).cpu(),
        roundings=16.0,
    )
    slopes = vmap(grad(lambda a: F.silu(a).sum()))(logits[0])
    lab.close("the gradient of silu", slopes, roundings=64)
    start = logits[0].clone().requires_grad_()
    lab.holds(
        "the gradient of silu: agrees with the engine",
        trees_agree(slopes, torch.autograd.grad(F.silu(start).sum(), start)[0]),
    )
    images = lab.floats(2, 3, 4, 2, 2)
    gain, bias = lab.floats(2, 4), lab.floats(2, 4)
    result = vmap(lambda a, w, b: F.group_norm(a, 2, w, b))(images, gain, bias)
    lab.close("group_norm", result, roundings=1024)
    single = torch.stack([F.group_norm(images[n], 2, gain[n], bias[n]) for n in range(2)])
    lab.holds("group_norm: agrees with single calls", trees_agree(result, single))
    single_gain = vmap(lambda a: F.group_norm(a, 2, gain[0], bias[0]))(images)
    lab.holds(
        "group_norm with a weight that is not mapped: agrees with single calls",
        trees_agree(single_gain, torch.stack([F.group_norm(i, 2, gain[0], bias[0]) for i in images])),
    )
    ones = vmap(torch.ones_like)(images)
    lab.expect("ones_like", ones, torch.ones(2, 3, 4, 2, 2))


@behaviour(
    "functorch",
    level="full",
    must_detect=("value",),
    capabilities=("strides",),
    page="func.ux_limitations.html",
    ground=(
        "vmap equals a loop over the batch, as the page shows; as_strided raises an error if the view needs "
        "memory after the end of the storage"
    ),
)
def batches_of_strides(lab: Lab) -> None:
    """Under ``vmap``, the offset of ``as_strided`` counts from the start of each element. ``as_strided``
    raises an error for memory outside of the element.
    """
    x = lab.integers(3, 4)
    lab.expect("pairs", vmap(lambda a: a.as_strided((3, 2), (1, 1)) * 2)(x), 2 * x.unfold(1, 2, 1).cpu())
    lab.expect(
        "an offset", vmap(lambda a: a.as_strided((2,), (1,), a.storage_offset() + 1))(x), x[:, 1:3].cpu()
    )
    lab.expect(
        "the first element of each row, repeated",
        vmap(lambda a: a.as_strided((2,), (0,)))(x),
        x[:, :1].expand(3, 2).cpu(),
    )
    lab.raises("outside of the element", lambda: vmap(lambda a: a.as_strided((2,), (5,)))(x))
    lab.raises("outside of the storage", lambda: vmap(lambda a: a.as_strided((2, 2), (40, 1)))(x))


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    must_detect=("value",),
    page="func.ux_limitations.html",
    ground="The UX limitations page defines vmap as a loop over elements with stacked results",
)
def batches_of_normalization(lab: Lab) -> None:
    """Under ``vmap``, ``batch_norm`` acts on each element of a batch, in training and in evaluation. The
    running statistics are mapped and updated, and the weights are shared.
    """
    images = lab.floats(2, 3, 2, 2, 2)
    weight, bias = lab.floats(2, low=0.5, high=1.0), lab.floats(2)
    for training in (True, False):
        for affine in (True, False):
            mean, var = lab.floats(2, 2), lab.floats(2, 2, low=0.5, high=1.0)
            due_mean, due_var = mean.clone(), var.clone()
            options = {"weight": weight, "bias": bias} if affine else {}

            def batch_norm_of_element(
                a: torch.Tensor, m: torch.Tensor, v: torch.Tensor, o: Any = options, t: Any = training
            ) -> Any:
                return F.batch_norm(a, m, v, training=t, **o)

            name = f"{'training' if training else 'evaluation'}{', affine' if affine else ''}"
            result = vmap(batch_norm_of_element)(images, mean, var)
            each = torch.stack([batch_norm_of_element(images[n], due_mean[n], due_var[n]) for n in range(2)])
            lab.close(name, result, roundings=1024)
            lab.holds(f"{name}: as without", trees_agree(result, each))
            lab.holds(f"{name}: the statistics", trees_agree((mean, var), (due_mean, due_var)))
    without_statistics = vmap(lambda a: F.batch_norm(a, None, None, training=True))(images)
    each = torch.stack([F.batch_norm(image, None, None, training=True) for image in images])
    lab.holds("without statistics", trees_agree(without_statistics, each))


@behaviour(
    "functorch",
    level="full",
    must_detect=("error",),
    page="func.ux_limitations.html",
    basis="consistency",
    ground="vmap of the function must agree with the single call on one vector, which raises an error",
)
def batches_of_vectors_are_no_matrices(lab: Lab) -> None:
    """Matrix functions of ``torch.linalg`` raise an error for a batch of vectors under ``vmap``, although the
    batch has the shape of a matrix.
    """
    x = lab.floats(3, 3) + 3 * torch.eye(3, device=lab.device)
    for name in ("cholesky", "det", "slogdet", "inv", "pinv", "qr", "svd", "eigh", "eig", "matrix_power"):
        function = getattr(torch.linalg, name)
        numbers = (2,) if name == "matrix_power" else ()
        with lab.parity("The page gives the expected shape, and does not say that other shapes are an error"):
            lab.raises(f"{name} of a vector", lambda: function(x[0], *numbers), match="dimension")
        lab.raises(
            f"{name} of a batch of vectors",
            lambda: vmap(lambda a: function(a, *numbers))(x),
            match="dimension",
        )
    with lab.documented():
        lab.raises(
            "a vector among three",
            lambda: vmap(torch.linalg.multi_dot)((x.expand(3, 3, 3), x, x.expand(3, 3, 3))),
            match="2D",
        )


@behaviour("functorch", level="full", must_detect=("value",), page="generated/torch.func.vmap.html")
def batches_in_several_chunks(lab: Lab) -> None:
    """``vmap`` with ``chunk_size``, and ``chunk_vmap``, return the result of ``vmap`` without chunks, also
    inside another chunked ``vmap`` and for any mapped dimension.
    """
    x, y = lab.integers(7, 3, 4), lab.integers(7, 3, 4)

    def product_plus_one(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b + 1

    for dim in (0, 1, 2):
        for size in (1, 2, 4, 7, 16):
            name = f"dimension {dim} in chunks of {size}"
            lab.holds(
                name,
                torch.equal(
                    vmap(product_plus_one, in_dims=dim, out_dims=dim, chunk_size=size)(x, y),
                    product_plus_one(x, y),
                ),
            )
    inner = vmap(product_plus_one, in_dims=1, chunk_size=2)
    nested = vmap(inner, chunk_size=3)(x, y)
    lab.same("nested", nested)
    lab.holds(
        "nested chunks: agree with vmap without chunks",
        torch.equal(nested, vmap(vmap(product_plus_one, in_dims=1))(x, y)),
    )
    for count in (1, 2, 3, 7, 9):
        result = chunk_vmap(product_plus_one, in_dims=1, out_dims=1, chunks=count)(x, y)
        with lab.consistent("chunk_vmap, which no current page describes, and the plain call must agree"):
            lab.holds(f"chunk_vmap, {count} chunks", torch.equal(result, product_plus_one(x, y)))
    partial = vmap(product_plus_one, in_dims=(0, None), chunk_size=3)(x, y[0])
    lab.expect("an operand that is not mapped, in chunks", partial, (x * y[0] + 1).cpu())
