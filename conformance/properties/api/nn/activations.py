"""Check activations (NaN, in-place calls on views, overlapping memory, errors), softmax of large and empty
input, and layers that receive empty batches.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import with_whole_number_state

NAN, INF = math.nan, math.inf


@behaviour(
    "nn",
    level="core",
    dtypes=("float32", "bfloat16"),
    must_detect=("value",),
    page="generated/torch.nn.ReLU.html",
    basis="parity",
    ground="No page says what an activation returns for NaN",
)
def activations_of_nan(lab: Lab) -> None:
    """Activations return NaN for NaN. For infinity, they return their limits."""
    x = lab.put([NAN, INF, -INF, 0.0], dtype=lab.dtype)
    limits: dict[str, tuple[float, float]] = {
        "relu": (INF, 0.0),
        "relu6": (6.0, 0.0),
        "elu": (INF, -1.0),
        "leaky_relu": (INF, -INF),
        "celu": (INF, -1.0),
        "hardtanh": (1.0, -1.0),
        "logsigmoid": (0.0, -INF),
        "hardswish": (INF, NAN),
        "sigmoid": (1.0, 0.0),
        "tanh": (1.0, -1.0),
        "softsign": (NAN, NAN),
        "softplus": (INF, 0.0),
        "hardsigmoid": (1.0, 0.0),
        "selu": (INF, -1.7581),
    }
    for name, (high, low) in limits.items():
        y = getattr(F, name)(x)
        lab.holds(f"{name} of NaN is NaN", bool(y[0].isnan()))
        if not (math.isnan(high) or math.isnan(low)):
            with lab.documented():
                lab.expect(f"{name} at infinity", y[1:3], [high, low], roundings=4, dtype=torch.bfloat16)
    weight = lab.put([0.25], dtype=lab.dtype)
    lab.same("prelu", F.prelu(x[:3], weight))
    lab.holds("prelu of NaN is NaN", bool(F.prelu(x[:1], weight).isnan()))
    with lab.documented():
        lab.same("clamped", F.threshold(lab.put([1.0, -1.0, 3.0], dtype=lab.dtype), 0.5, 9.0))
    with lab.documented():
        lab.expect(
            "softplus above its threshold is the identity",
            F.softplus(lab.put([30.0], dtype=lab.dtype)),
            [30.0],
        )
    with lab.documented():
        lab.expect(
            "softshrink", F.softshrink(lab.put([-2.0, 0.25, 2.0], dtype=lab.dtype), 0.5), [-1.5, 0.0, 1.5]
        )


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd", "inplace", "double_backward"),
    must_detect=("value", "error"),
    page="generated/torch.nn.ELU.html",
    ground="with inplace=True the operation works in place, and views share memory with their base",
)
def activations_in_place(lab: Lab) -> None:
    """In-place activations write into views, and the gradients are correct. In-place activations
    except ``relu`` and ``threshold`` raise an error for overlapping memory. For a negative slope or alpha,
    the backward pass raises an error, because the result does not determine the gradient.
    """
    calls: dict[str, Any] = {
        "relu": F.relu_,
        "elu": F.elu_,
        "hardtanh": F.hardtanh_,
        "leaky_relu": F.leaky_relu_,
        "threshold": lambda x: F.threshold_(x, 0.5, 0.5),  # type: ignore[attr-defined]
    }
    for name, call in calls.items():
        for view_name, make_view in (
            ("all", lambda t: t),
            ("a view", lambda t: t[1:]),
            ("a column", lambda t: t[:, 1]),
        ):
            leaf = lab.put([[-2.0, 1.0], [3.0, -4.0], [2.0, 5.0]], dtype=lab.dtype, requires_grad=True)
            base = leaf * 1
            # Keep the view alive. If it were deleted, the autograd engine would visit the view's node twice
            # and raise an error on every device that has its own thread (docs/torch-bugs.md#deleted-views).
            part = make_view(base)
            call(part)
            lab.close(f"{name} of {view_name}", base, roundings=8)
            (first,) = torch.autograd.grad(base.square().sum(), leaf, create_graph=True)
            lab.close(f"gradient of {name} of {view_name}", first, roundings=64)
            if name in ("elu", "hardtanh"):
                lab.close(
                    f"second gradient of {name} of {view_name}",
                    torch.autograd.grad(first.sum(), leaf),
                    roundings=128,
                )
    overlap = lab.floats(1, 6).expand(6, 6)
    for name, call in list(calls.items())[1:4]:  # not relu and threshold, which accept overlapping memory
        with lab.parity(
            "The page of expand warns that writes to expanded tensors may be wrong; no page names an error"
        ):
            lab.raises(
                f"{name} of overlapping memory", lambda: call(overlap), match="(?i)unsupported operation"
            )
    for name, module in (("hardswish", nn.Hardswish(True)), ("silu", nn.SiLU(True)), ("mish", nn.Mish(True))):
        with lab.parity(
            "The page of expand warns that writes to expanded tensors may be wrong; no page names an error"
        ):
            lab.raises(
                f"{name} of overlapping memory",
                lambda: module(overlap),
                match="(?i)unsupported operation",
            )
    x = lab.put([-1.0, 1.0], requires_grad=True)
    with lab.parity("No page says that the backward pass of a negative slope is an error"):
        lab.raises(
            "backward pass of leaky_relu_ with a negative slope",
            lambda: F.leaky_relu_(x * 1, -2.0).sum().backward(),
            match="(?i)negative slope|slope",
        )
    with lab.parity("No page says that the backward pass of a negative alpha is an error"):
        lab.raises(
            "backward pass of elu_ with a negative alpha",
            lambda: F.elu_(x * 1, -2.0).sum().backward(),
            match="(?i)alpha|negative",
        )
    zero = lab.put([-1.0, 2.0], requires_grad=True)
    F.leaky_relu_(zero * 1, 0.0).sum().backward()
    lab.expect("gradient of leaky_relu_ with a slope of zero", zero.grad, [0.0, 1.0])
    lab.raises("softshrink with a negative lambda", lambda: F.softshrink(x, -0.5), match="(?i)lambda")
    x.grad = None  # a device that raises no error above has accumulated a gradient
    frozen = nn.PReLU(device=lab.device).requires_grad_(False)
    frozen(x).sum().backward()
    lab.same("prelu with a frozen weight", (x.grad, frozen.weight.grad))


@behaviour(
    "nn",
    level="core",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.functional.log_softmax.html",
)
def softmax_of_large_input(lab: Lab) -> None:
    """Softmax and ``log_softmax`` are stable for large numbers. Softmax of a single element is 1, and of an
    empty tensor empty. Gradients are correct.
    """
    x = lab.put([[1e4, 1e4 - 1.0, -1e4], [0.0, 0.0, 0.0]], dtype=lab.dtype, requires_grad=True)
    log = F.log_softmax(x, 1)
    expected_logarithms = [
        [-math.log1p(math.exp(-1)), -1 - math.log1p(math.exp(-1)), -2e4 - math.log1p(math.exp(-1))],
        [-math.log(3)] * 3,
    ]
    lab.expect("logarithms of large ones", log, expected_logarithms, roundings=4)
    lab.expect("logarithms of equal ones", log[1], expected_logarithms[1], roundings=8)
    soft = F.softmax(x, 1)
    lab.expect("probabilities add up", soft.sum(1), [1.0, 1.0], roundings=8)
    lab.close("gradient", torch.autograd.grad(soft[:, 0].sum(), x, retain_graph=True), roundings=64)
    lab.expect("softmin is softmax of the negated input", F.softmin(-x, 1), soft.tolist(), roundings=8)
    lab.expect("of one", F.softmax(lab.put([[5.0]]), 1), [[1.0]], roundings=4)
    for shape in ((0, 3), (3, 0)):
        none = lab.integers(*shape, requires_grad=True)
        y = F.softmax(none, 1)
        y.sum().backward()
        lab.same(f"of {shape}", (y, none.grad, F.log_softmax(none, 1)))
    with lab.parity("The formula divides zero by zero here, and no page names the result"):
        lab.holds(
            "softmax of a row of minus infinity is NaN",
            bool(F.softmax(lab.put([[-INF, -INF]]), 1).isnan().all()),
        )
    lab.close("over dimensions", [F.softmax(lab.floats(3, 4, 5), dim) for dim in (0, 1, 2, -1)], roundings=16)
    lab.close(
        "in another dtype",
        F.softmax(lab.floats(3, 4, dtype=torch.float16), 1, dtype=torch.float32),
        roundings=16,
    )
    wide = lab.floats(2, 1500, low=-5, high=5)
    lab.close("of long rows", (F.softmax(wide, 1), F.log_softmax(wide, 1)), roundings=64)


@behaviour(
    "nn",
    capabilities=("random", "autograd"),
    must_detect=("value",),
    page="generated/torch.nn.functional.gumbel_softmax.html",
)
def gumbel_softmax(lab: Lab) -> None:
    """``gumbel_softmax`` returns probabilities or, with ``hard=True``, one-hot rows with the gradient of the
    probabilities. Classes occur with the frequencies that the logits determine.
    """
    logits = lab.put([[math.log(0.1), math.log(0.2), math.log(0.7)]]).expand(3000, 3).clone().requires_grad_()
    soft = F.gumbel_softmax(logits, tau=0.5)
    lab.holds("probabilities add up", bool(((soft.sum(1) - 1).abs() < 1e-5).all()))
    hard = F.gumbel_softmax(logits, hard=True)
    lab.expect("one-hot rows", hard.detach().max(1).values.sum() + 0, 3000.0, roundings=3000)
    share = hard.detach().mean(0)
    for class_index, p in enumerate((0.1, 0.2, 0.7)):
        lab.holds(
            f"the class with probability {p} has this share of the samples",
            abs(float(share[class_index]) - p) < 6 * math.sqrt(p * (1 - p) / 3000),
        )
    (hard * lab.put([1.0, 2.0, 3.0])).sum().backward()
    lab.holds("hard samples have gradients that are not zero", bool((logits.grad != 0).any()))  # type: ignore[union-attr]
    torch.manual_seed(2)
    first = F.gumbel_softmax(logits, dim=0)
    torch.manual_seed(2)
    with lab.consistent("two calls after the same seed must return the same samples"):
        lab.holds("the same seed gives the same samples", torch.equal(first, F.gumbel_softmax(logits, dim=0)))


@behaviour(
    "nn",
    level="core",
    capabilities=("autograd", "double_backward"),
    must_detect=("value",),
    page="notes/autograd.html",
    ground="derivatives follow from the documented formulas",
)
def second_gradients_of_activations(lab: Lab) -> None:
    """First and second gradients of activations are correct. Activations that are not differentiable at some
    points are tested at other points.
    """
    x = lab.put([-4.0, -0.75, 0.5, 2.0, 5.0], dtype=lab.dtype, requires_grad=True)
    sixth = [0.0, 1 / 6, 1 / 6, 1 / 6, 0.0]
    y = F.hardsigmoid(x)
    lab.expect(
        "hardsigmoid",
        torch.autograd.grad(y.sum(), x)[0],
        torch.tensor(sixth, dtype=torch.float64),
        roundings=4,
    )
    for call in (
        F.hardswish,
        F.silu,
        F.mish,
        F.gelu,
        F.elu,
        F.selu,
        F.softplus,
        F.logsigmoid,
        F.tanh,
        torch.sigmoid,
        F.hardtanh,
    ):
        (first,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
        lab.close(f"first of {call.__name__}", first, roundings=256)
        lab.close(f"second of {call.__name__}", torch.autograd.grad(first.sum(), x), roundings=1024)


@behaviour(
    "nn",
    level="core",
    capabilities=("autograd",),
    must_detect=("shape",),
    ground="The shape formulas hold for any batch size; no page mentions zero",
)
def layers_of_nothing(lab: Lab) -> None:
    """Linear, bilinear and other layers return results and gradients of the correct shapes for an empty
    batch.
    """
    for name, module, shapes in (
        ("linear", nn.Linear(3, 4), ((0, 3),)),
        ("linear of no features", nn.Linear(0, 4), ((2, 0),)),
        ("bilinear", nn.Bilinear(3, 2, 4), ((0, 3), (0, 2))),
        ("relu", nn.ReLU(), ((0, 3),)),
        ("prelu", nn.PReLU(), ((0, 3),)),
        ("unfold", nn.Unfold((2, 2)), ((0, 3, 4, 4),)),
        ("zero padding", nn.ZeroPad2d(1), ((0, 3, 4, 4),)),
        ("reflection", nn.ReflectionPad2d(1), ((0, 3, 4, 4),)),
        ("reflection of volumes", nn.ReflectionPad3d(1), ((0, 3, 4, 4, 4),)),
        ("replication", nn.ReplicationPad1d(2), ((0, 3, 4),)),
        ("replication of volumes", nn.ReplicationPad3d(1), ((0, 3, 4, 4, 4),)),
        ("multi margin loss", nn.MultiMarginLoss(reduction="none"), ((0, 3),)),
        ("multi label margin loss", nn.MultiLabelMarginLoss(reduction="none"), ((0, 3),)),
    ):
        with_whole_number_state(lab, module)
        inputs = [lab.integers(*shape, requires_grad=True) for shape in shapes]
        targets = []
        if "loss" in name:
            targets = [lab.put(torch.empty((0,) if "multi margin" in name else (0, 3), dtype=torch.int64))]
        y = module(*inputs, *targets)
        lab.same(f"{name}: shape", (y + 0).shape)
        y.sum().backward()
        lab.same(f"{name}: gradients", [leaf.grad for leaf in inputs])
