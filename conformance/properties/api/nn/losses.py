"""Check loss functions: known values, reductions, weights, and errors."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

REDUCTIONS = ("none", "mean", "sum")


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.SmoothL1Loss.html",
)
def losses_of_differences(lab: Lab) -> None:
    """L1, MSE, Huber and smooth L1 losses of integers equal their definitions, for each reduction and with
    gradients.
    """
    x = lab.put([0.0, 2.0, -4.0, 8.0], dtype=lab.dtype, requires_grad=True)
    target = lab.put([0.0, 1.0, 0.0, 4.0], dtype=lab.dtype)
    lab.expect("L1", F.l1_loss(x, target, reduction="none"), [0.0, 1.0, 4.0, 4.0])
    lab.expect("L1 mean", F.l1_loss(x, target), 2.25)
    lab.expect("MSE", F.mse_loss(x, target, reduction="none"), [0.0, 1.0, 16.0, 16.0])
    lab.expect("MSE mean", nn.MSELoss()(x, target), 8.25)
    lab.expect("Huber", F.huber_loss(x, target, reduction="none", delta=2.0), [0.0, 0.5, 6.0, 6.0])
    lab.expect("smooth L1", F.smooth_l1_loss(x, target, reduction="none", beta=2.0), [0.0, 0.25, 3.0, 3.0])
    lab.expect("smooth L1 with beta=0", F.smooth_l1_loss(x, target, reduction="sum", beta=0.0), 9.0)
    for beta in (0.5, 1.0, 4.0):
        for reduction in REDUCTIONS:
            huber = F.huber_loss(x, target, reduction=reduction, delta=beta)
            lab.same(
                f"Huber, and smooth L1 times {beta}, {reduction}",
                (huber, F.smooth_l1_loss(x, target, reduction=reduction, beta=beta) * beta),
            )
    for call in (F.l1_loss, F.mse_loss, F.huber_loss, F.smooth_l1_loss):
        for reduction in REDUCTIONS:
            x.grad = None
            call(x, target, reduction=reduction).sum().backward()
            lab.same(f"gradient of {call.__name__}, {reduction}", x.grad)
        needs = target.clone().requires_grad_()
        lab.same(
            f"gradient of the target of {call.__name__}",
            torch.autograd.grad(call(x, needs, reduction="sum"), needs),
        )
    x.grad = None
    F.smooth_l1_loss(x, target, reduction="sum", beta=0.0).backward()
    lab.expect("gradient without a bend", x.grad, [0.0, 1.0, -1.0, 1.0])
    whole = lab.put([0, 1, 0, 4], dtype=torch.int64)
    with lab.parity("No page says that the target may have an integer dtype"):
        lab.same("a target of integers", F.smooth_l1_loss(x.detach(), whole, reduction="none"))


@behaviour(
    "nn",
    must_detect=("warning", "error", "message"),
    page="generated/torch.nn.HuberLoss.html",
    ground="The pages list the reductions and the ranges of beta, delta and margin",
)
def refusals_of_losses(lab: Lab) -> None:
    """Losses raise an error for invalid reductions, parameters and sizes. They issue a warning for a target
    of another size and for deprecated arguments.
    """
    x, target = lab.floats(4), lab.floats(4)
    for call in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss):
        lab.raises(f"a reduction of {call.__name__}", lambda: call(x, target, reduction="total"), ValueError)
    lab.raises(
        "a reduction of NLL",
        lambda: F.nll_loss(lab.floats(2, 3), lab.put([0, 1]), reduction="total"),
        ValueError,
    )
    lab.raises(
        "a reduction of CTC",
        lambda: F.ctc_loss(lab.floats(3, 1, 2), lab.put([[1]]), (3,), (1,), reduction="x"),  # type: ignore[arg-type]
        ValueError,
    )
    lab.raises("a negative beta", lambda: F.smooth_l1_loss(x, target, beta=-1.0), match="(?i)negative")
    lab.raises("a delta of zero", lambda: F.huber_loss(x, target, delta=0.0), match="(?i)delta")
    lab.raises("a negative delta", lambda: F.huber_loss(x, target, delta=-1.0), match="(?i)delta")
    for call in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        with lab.parity("The pages ask for a target of the input's shape; no page mentions broadcasting"):
            lab.warns(
                f"a broadcast target of {call.__name__}",
                lambda: call(x.view(4, 1), target.view(1, 4)),
                match="(?i)size",
            )
    lab.silent("equal sizes", lambda: F.mse_loss(x, target))
    for name in ("soft_margin_loss", "mse_loss", "l1_loss"):
        lab.warns(
            f"size_average of {name}",
            lambda: getattr(F, name)(x, target, size_average=True),
            match="(?i)deprecated",
        )
    probabilities = torch.sigmoid(x)
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "BCE of two sizes",
            lambda: F.binary_cross_entropy(probabilities, lab.floats(3)),
            ValueError,
            match="(?i)size",
        )
        lab.raises(
            "BCE with logits and targets of two sizes",
            lambda: F.binary_cross_entropy_with_logits(x, lab.floats(2, 2)),
            ValueError,
            match="(?i)size",
        )
    a, b, sign = lab.floats(3, 2), lab.floats(3, 2), lab.put([1.0, -1.0, 1.0])
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "cosine embedding with signs of a wrong shape",
            lambda: F.cosine_embedding_loss(a, b, sign.view(1, 3).expand(2, 3)),
        )
        lab.raises(
            "cosine embedding with too many signs",
            lambda: F.cosine_embedding_loss(a, b, lab.put([1.0, 1.0, 1.0, 1.0])),
        )
        lab.raises(
            "cosine embedding of vectors of two sizes",
            lambda: F.cosine_embedding_loss(a, lab.floats(3, 5), sign),
        )
    lab.raises(
        "Gaussian NLL with a variance of a wrong size",
        lambda: F.gaussian_nll_loss(a, b, lab.floats(3, 7).abs()),
        ValueError,
    )
    with lab.parity(
        "The page describes positive variances, but does not say that other variances are an error"
    ):
        lab.raises(
            "Gaussian NLL with a negative variance",
            lambda: F.gaussian_nll_loss(a, b, -torch.ones_like(a)),
            ValueError,
        )
    lab.raises(
        "Gaussian NLL with an unknown reduction",
        lambda: F.gaussian_nll_loss(a, b, b.abs(), reduction="total"),
        ValueError,
    )
    lab.raises("triplet loss with a negative margin", lambda: nn.TripletMarginLoss(margin=-1.0), ValueError)


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.NLLLoss.html",
)
def negative_log_likelihood(lab: Lab) -> None:
    """``nll_loss`` negates the input at the target class and multiplies it by the class weight. Targets equal
    to ``ignore_index`` are omitted. For the mean, the sum of the losses is divided by the sum of the weights.
    """
    x = lab.put(
        [[-1.0, -2.0, -4.0], [-8.0, -16.0, -32.0], [-3.0, -5.0, -7.0]], dtype=lab.dtype, requires_grad=True
    )
    target = lab.put([0, 2, 1])
    weight = lab.put([1.0, 2.0, 4.0])
    lab.expect("plain", F.nll_loss(x, target, reduction="none"), [1.0, 32.0, 5.0])
    lab.expect("weighed", F.nll_loss(x, target, weight, reduction="none"), [1.0, 128.0, 10.0])
    lab.expect("sum", F.nll_loss(x, target, weight, reduction="sum"), 139.0)
    lab.expect("mean", F.nll_loss(x, target, weight), 139.0 / 7.0, roundings=4)
    lab.expect("one ignored", F.nll_loss(x, target, ignore_index=2, reduction="none"), [1.0, 0.0, 5.0])
    lab.expect("mean of the others", F.nll_loss(x, target, ignore_index=2), 3.0)
    for ignored in (-100, 255, -1):
        target_with_ignored = lab.put([0, ignored, 1])
        lab.expect(
            f"ignoring {ignored}",
            F.nll_loss(x, target_with_ignored, ignore_index=ignored, reduction="sum"),
            6.0,
        )
    F.nll_loss(x, target, weight, reduction="sum").backward()
    lab.expect("gradient", x.grad, [[-1.0, 0.0, 0.0], [0.0, 0.0, -4.0], [0.0, -2.0, 0.0]])
    nothing = lab.put([2, 2, 2])
    lab.expect("all ignored, sum", F.nll_loss(x, nothing, ignore_index=2, reduction="sum"), 0.0)
    lab.expect("all ignored, none", F.nll_loss(x, nothing, ignore_index=2, reduction="none"), [0.0, 0.0, 0.0])
    with lab.parity("The formula divides zero by zero here, and no page names the result"):
        lab.holds("the mean over ignored targets only is NaN", F.nll_loss(x, nothing, ignore_index=2).isnan())
    zero = lab.put([0.0, 0.0, 0.0])
    with lab.parity("The formula divides zero by zero here, and no page names the result"):
        lab.holds("the mean with weights of zero is NaN", F.nll_loss(x, target, zero).isnan())
    lab.expect("weights of zero, sum", F.nll_loss(x, target, zero, reduction="sum"), 0.0)
    empty, none = lab.integers(0, 3), lab.put(torch.empty(0, dtype=torch.int64))
    lab.expect("no samples, none", F.nll_loss(empty, none, reduction="none"), [])
    lab.expect("no samples, sum", F.nll_loss(empty, none, reduction="sum"), 0.0)
    with lab.parity("The formula divides zero by zero here, and no page names the result"):
        lab.holds("the mean over no samples is NaN", F.nll_loss(empty, none).isnan())
    images = lab.integers(2, 3, 2, 2)
    labels = lab.integers(2, 2, 2, low=0, high=3, dtype=torch.int64)
    for reduction in ("none", "sum"):
        lab.same(f"of images, {reduction}", F.nll_loss(images, labels, weight, reduction=reduction))
    with lab.parity("No page says that targets may have the dtype uint8"):
        lab.same("targets of bytes", F.nll_loss(x.detach(), target.to(torch.uint8), reduction="none"))
    lab.expect("one sample", F.nll_loss(x.detach()[1], target[1]), 32.0)


@behaviour(
    "nn",
    must_detect=("error", "message"),
    page="generated/torch.nn.NLLLoss.html",
    basis="parity",
    ground="The page states the shapes, but not that other targets are an error",
)
def refusals_of_nll(lab: Lab) -> None:
    """``nll_loss`` raises an error for targets of another batch size, for targets with too many dimensions,
    and if the number of weights differs from the number of classes.
    """
    x = lab.floats(4, 3)
    target = lab.put([0, 1, 2, 0])
    lab.raises("another batch", lambda: F.nll_loss(x, target[:3]), ValueError, match="(?i)batch")
    lab.raises(
        "a target of two dimensions", lambda: F.nll_loss(x, target.view(2, 2)), ValueError, RuntimeError
    )
    lab.raises(
        "a target of the input's shape",
        lambda: F.nll_loss(x, lab.integers(4, 3, low=0, high=3, dtype=torch.int64)),
        match="(?i)target|multi",
    )
    with lab.documented():
        lab.raises("too few weights", lambda: F.nll_loss(x, target, lab.floats(2)), match="(?i)weight")
        lab.raises(
            "weights of two dimensions", lambda: F.nll_loss(x, target, lab.floats(3, 1)), match="(?i)weight"
        )
    lab.raises("a target of floats", lambda: F.nll_loss(x, lab.floats(4)))
    lab.raises("images and flat targets", lambda: F.nll_loss(lab.floats(2, 3, 2, 2), lab.put([0, 1])))


@behaviour("nn", level="core", must_detect=("value",), page="generated/torch.nn.CrossEntropyLoss.html")
def cross_entropy_of_targets(lab: Lab) -> None:
    """``cross_entropy`` accepts class indices or probabilities. It returns the same loss for indices and for
    equivalent one-hot probabilities, also with label smoothing, weights and ignored targets.
    """
    x = lab.floats(4, 5, low=-2, high=2)
    index = lab.put([0, 3, 1, 4])
    hot = F.one_hot(index, 5).to(lab.dtype)
    weight = lab.floats(5, low=0.5, high=2)
    lab.expect(
        "of equal logits",
        F.cross_entropy(torch.zeros_like(x), index),
        torch.tensor(5.0).double().log(),
        roundings=8,
    )
    for reduction in REDUCTIONS:
        from_indices = F.cross_entropy(x, index, reduction=reduction)
        lab.close(f"indices, {reduction}", from_indices, roundings=64)
        lab.close(
            f"NLL of log softmax, {reduction}",
            F.nll_loss(F.log_softmax(x, 1), index, reduction=reduction),
            roundings=64,
        )
        for label, loss in (
            ("one-hot", F.cross_entropy(x, hot, reduction=reduction)),
            ("weights of one", F.cross_entropy(x, index, torch.ones_like(weight), reduction=reduction)),
            (
                "probabilities, weights of one",
                F.cross_entropy(x, hot, torch.ones_like(weight), reduction=reduction),
            ),
        ):
            lab.holds(
                f"{label} give the loss of the class indices, {reduction}",
                torch.allclose(from_indices, loss, rtol=1e-5, atol=1e-5),
            )
        for smooth in (0.1, 0.5, 1.0):
            result = F.cross_entropy(x, index, label_smoothing=smooth, reduction=reduction)
            soft = hot * (1 - smooth) + smooth / 5
            lab.close(f"smoothed by {smooth}, {reduction}", result, roundings=64)
            by_probability = F.cross_entropy(x, soft, reduction=reduction)
            lab.holds(
                f"label_smoothing {smooth} gives the loss of smoothed targets, {reduction}",
                torch.allclose(result, by_probability, rtol=1e-5, atol=1e-5),
            )
            smoothed_probabilities = F.cross_entropy(x, hot, label_smoothing=smooth, reduction=reduction)
            lab.holds(
                f"label_smoothing {smooth} of probabilities gives the loss of smoothed targets, {reduction}",
                torch.allclose(result, smoothed_probabilities, rtol=1e-5, atol=1e-5),
            )
        with lab.parity("No page says how class weights and label smoothing combine"):
            lab.close(
                f"weighed and smoothed, {reduction}",
                F.cross_entropy(x, index, weight, label_smoothing=0.2, reduction=reduction),
                roundings=64,
            )
        ignoring = F.cross_entropy(x, index, weight, ignore_index=3, label_smoothing=0.2, reduction=reduction)
        with lab.parity("No page says how class weights and label smoothing combine"):
            lab.close(f"ignoring one, {reduction}", ignoring, roundings=64)
    remaining = torch.tensor([0, 2, 3], device=lab.device)
    part = F.cross_entropy(x[remaining], index[remaining], weight, label_smoothing=0.2)
    lab.holds(
        "the mean omits an ignored sample",
        torch.allclose(
            F.cross_entropy(x, index, weight, ignore_index=3, label_smoothing=0.2), part, rtol=1e-5
        ),
    )
    lab.close("one sample", F.cross_entropy(x[0], index[0]), roundings=64)
    lab.close("one sample of probabilities", F.cross_entropy(x[0], hot[0]), roundings=64)
    images = lab.floats(2, 3, 2, 2, low=-2, high=2)
    labels = lab.integers(2, 2, 2, low=0, high=3, dtype=torch.int64)
    lab.close("of images", F.cross_entropy(images, labels, reduction="none"), roundings=64)
    probabilities = images.softmax(1)
    lab.close(
        "of images of probabilities", F.cross_entropy(images, probabilities, reduction="none"), roundings=64
    )
    lab.expect(
        "no samples",
        F.cross_entropy(lab.floats(0, 3), lab.put(torch.empty(0, dtype=torch.int64)), reduction="sum"),
        0.0,
    )


@behaviour("nn", must_detect=("error", "message"), page="generated/torch.nn.CrossEntropyLoss.html")
def refusals_of_cross_entropy(lab: Lab) -> None:
    """``cross_entropy`` raises an error for a label smoothing above 1, for probabilities of an integer dtype,
    and for ``ignore_index`` with probabilities.
    """
    x, index = lab.floats(2, 3), lab.put([0, 1])
    for smooth in (1.5, 2.0):
        lab.raises(
            f"smoothing by {smooth}",
            lambda: F.cross_entropy(x, index, label_smoothing=smooth),
            match="(?i)smoothing",
        )
    with lab.parity("The page says where ignore_index applies, but not that it is an error elsewhere"):
        lab.raises(
            "probabilities with ignore_index",
            lambda: F.cross_entropy(x, x.softmax(1), ignore_index=1),
            match="(?i)ignore",
        )
    lab.raises(
        "integers for probabilities",
        lambda: F.cross_entropy(x, lab.integers(2, 3, low=0, high=2, dtype=torch.int64)),
        match="(?i)floating|integral",
    )
    lab.raises("too few weights", lambda: F.cross_entropy(x, index, lab.floats(2)), match="(?i)weight")
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "another batch", lambda: F.cross_entropy(x, lab.put([0, 1, 2])), ValueError, match="(?i)batch"
        )


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.BCEWithLogitsLoss.html",
)
def binary_cross_entropy(lab: Lab) -> None:
    """Binary cross entropy is never negative and has the documented values at 0 and 1. The variant with
    logits is stable for large logits. Weights broadcast.
    """
    p = lab.put([0.0, 1.0, 0.5, 0.0, 1.0], dtype=lab.dtype)
    lab.expect(
        "at the ends",
        F.binary_cross_entropy(p, lab.put([0.0, 1.0, 1.0, 1.0, 0.0]), reduction="none"),
        [0.0, 0.0, math.log(2), 100.0, 100.0],
        roundings=4,
    )
    big = lab.put([100.0, -100.0, 1e4, -1e4], dtype=lab.dtype, requires_grad=True)
    target = lab.put([0.0, 1.0, 1.0, 0.0])
    loss = F.binary_cross_entropy_with_logits(big, target, reduction="none")
    lab.expect("large logits", loss, [100.0, 100.0, 0.0, 0.0], roundings=4)
    loss.sum().backward()
    lab.expect("their gradient", big.grad, [1.0, -1.0, 0.0, 0.0], roundings=4)
    zero = torch.zeros(3, 2, device=lab.device, dtype=lab.dtype, requires_grad=True)
    F.binary_cross_entropy_with_logits(zero, torch.zeros_like(zero), reduction="sum").backward()
    lab.expect("gradient at zero", zero.grad, [[0.5, 0.5]] * 3, roundings=4)
    zero.grad = None
    F.binary_cross_entropy_with_logits(
        zero, torch.ones_like(zero), pos_weight=lab.put([2.0, 4.0]), reduction="sum"
    ).backward()
    lab.expect("weighed gradient at zero", zero.grad, [[-1.0, -2.0]] * 3, roundings=4)
    x, aim = lab.floats(4, 3, low=-3, high=3), lab.floats(4, 3, low=0)
    weight, positive = lab.floats(3, low=0.5, high=2), lab.floats(3, low=0.5, high=2)
    unreduced = F.binary_cross_entropy_with_logits(x, aim, reduction="none")
    lab.close("with logits", unreduced, roundings=32)
    lab.holds(
        "BCE with logits is BCE of the sigmoid",
        torch.allclose(
            unreduced, F.binary_cross_entropy(torch.sigmoid(x), aim, reduction="none"), rtol=1e-4, atol=1e-5
        ),
    )
    lab.holds("BCE with logits is never negative", (unreduced >= 0).all())
    for reduction in REDUCTIONS:
        result = F.binary_cross_entropy_with_logits(x, aim, weight, pos_weight=positive, reduction=reduction)
        full = F.binary_cross_entropy_with_logits(
            x, aim, weight.expand(4, 3), pos_weight=positive.expand(4, 3), reduction=reduction
        )
        lab.close(f"broadcast weights, {reduction}", (result, full), roundings=64)
        ones = F.binary_cross_entropy_with_logits(
            x, aim, pos_weight=torch.ones_like(positive), reduction=reduction
        )
        lab.close(f"positive weights of one, {reduction}", ones, roundings=64)
        lab.close(
            f"weights of BCE, {reduction}",
            F.binary_cross_entropy(torch.sigmoid(x), aim, weight, reduction=reduction),
            roundings=64,
        )
    half = torch.sigmoid(x).requires_grad_()
    F.binary_cross_entropy(half, aim, weight.view(1, 3), reduction="sum").backward()
    lab.close("gradient of BCE", half.grad, roundings=64)


@behaviour(
    "nn",
    must_detect=("error", "message"),
    page="generated/torch.nn.BCEWithLogitsLoss.html",
    ground="The pages demand weights that broadcast with the input",
)
def ranges_of_probabilities(lab: Lab) -> None:
    """Binary cross entropy raises an error for targets of another size and for weights that do not
    broadcast.
    """
    target = lab.put([1.0, 0.0])
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "BCE of two sizes",
            lambda: nn.BCELoss()(lab.put([0.5, 0.5]), lab.put([[1.0, 0.0]])),
            ValueError,
            match="(?i)size",
        )
    lab.raises(
        "weights that do not broadcast",
        lambda: F.binary_cross_entropy(target, target, lab.put([1.0, 1.0, 1.0])),
    )
    lab.raises(
        "logits with weights that do not broadcast",
        lambda: F.binary_cross_entropy_with_logits(target, target, lab.put([1.0, 1.0, 1.0])),
    )
    lab.raises(
        "logits with a pos_weight that does not broadcast",
        lambda: F.binary_cross_entropy_with_logits(target, target, pos_weight=lab.put([1.0] * 3)),
    )
