"""Check losses of distributions, vectors and sequences: KL divergence, margins, Gaussian NLL, distances, CTC
and adaptive softmax.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: ``F`` as an untyped object: ``ctc_loss`` also accepts tuples of lengths, which its annotations do not list.
untyped_functional: Any = F

REDUCTIONS = ("none", "mean", "sum")


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "warning"),
    page="generated/torch.nn.KLDivLoss.html",
)
def kl_divergence(lab: Lab) -> None:
    """``kl_div`` accepts probabilities or, with ``log_target=True``, logarithms as targets, in any
    floating-point dtype. ``reduction="batchmean"`` divides the sum by the batch size.
    """
    log = lab.put([[0.5, 0.5], [0.25, 0.75]], dtype=lab.dtype).log()
    target = lab.put([[1.0, 0.0], [0.25, 0.75]], dtype=lab.dtype)
    with lab.parity("The formula multiplies zero by the logarithm of zero; no page names the result"):
        lab.expect(
            "known", F.kl_div(log, target, reduction="none").sum(1), [math.log(2.0), 0.0], roundings=16
        )
    x, t = lab.floats(4, 3).log_softmax(1), lab.floats(4, 3).softmax(1)
    for reduction in REDUCTIONS:
        lab.close(
            f"probabilities, {reduction}",
            F.kl_div(x, t, reduction=reduction)
            if reduction != "mean"
            else F.kl_div(x, t, reduction="sum") / 12,
            roundings=64,
        )
        result = F.kl_div(x, t.log(), reduction=reduction, log_target=True) if reduction != "mean" else None
        if result is not None:
            lab.close(f"logarithms, {reduction}", result, roundings=64)
    lab.close(
        "batchmean",
        (F.kl_div(x, t, reduction="batchmean"), F.kl_div(x, t, reduction="sum") / 4),
        roundings=64,
    )
    lab.close(
        "batchmean of logarithms", F.kl_div(x, t.log(), reduction="batchmean", log_target=True), roundings=64
    )
    lab.warns("mean", lambda: F.kl_div(x, t, reduction="mean"), match="(?i)batchmean")
    if lab.target.declares("float64"):
        with lab.parity("No page says that input and target may have different dtypes"):
            lab.same("a target of another dtype", F.kl_div(x, t.double(), reduction="none").dtype)
    with lab.parity("No page says that input and target may have different dtypes"):
        lab.close(
            "a target of half", F.kl_div(x, t.half(), reduction="none"), roundings=64, dtype=torch.float16
        )
    needs = t.clone().requires_grad_()
    F.kl_div(x, needs, reduction="sum").backward()
    lab.close("gradient of the target", needs.grad, roundings=64)


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.CosineEmbeddingLoss.html",
)
def losses_between_vectors(lab: Lab) -> None:
    """Cosine embedding, margin ranking and triplet losses agree with their definitions for each reduction and
    margin.
    """
    a = lab.put([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], dtype=lab.dtype, requires_grad=True)
    b = lab.put([[2.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=lab.dtype)
    sign = lab.put([1.0, -1.0, 1.0])
    lab.expect(
        "cosine embedding",
        F.cosine_embedding_loss(a, b, sign, reduction="none"),
        [0.0, 1.0, 1.0],
        roundings=16,
    )
    lab.expect(
        "with a margin",
        F.cosine_embedding_loss(a, b, sign, margin=0.5, reduction="none"),
        [0.0, 0.5, 1.0],
        roundings=16,
    )
    lab.expect("one pair", F.cosine_embedding_loss(a.detach()[1], b[1], lab.put(-1.0)), 1.0, roundings=16)
    for dtype in (torch.int8, torch.int32, torch.int64, torch.float16):
        with lab.parity("No page says that the signs may have another dtype than the vectors"):
            lab.close(
                f"signs of {dtype}",
                F.cosine_embedding_loss(a, b, sign.to(dtype), reduction="none"),
                roundings=16,
            )
    x, y = lab.put([1.0, 2.0, 3.0], dtype=lab.dtype), lab.put([2.0, 0.0, 3.0], dtype=lab.dtype)
    lab.expect("margin ranking", F.margin_ranking_loss(x, y, sign, reduction="none"), [1.0, 2.0, 0.0])
    lab.expect(
        "margin ranking with a margin of two",
        F.margin_ranking_loss(x, y, sign, margin=2.0, reduction="none"),
        [3.0, 4.0, 2.0],
    )
    lab.expect("its sum", nn.MarginRankingLoss(2.0, reduction="sum")(x, y, sign), 9.0)
    anchor = lab.put([[0.0, 0.0], [0.0, 0.0]], dtype=lab.dtype, requires_grad=True)
    positive, negative = (
        lab.put([[3.0, 4.0], [0.0, 1.0]], dtype=lab.dtype),
        lab.put([[0.0, 2.0], [6.0, 8.0]], dtype=lab.dtype),
    )
    lab.expect(
        "triplets",
        F.triplet_margin_loss(anchor, positive, negative, reduction="none"),
        [4.0, 0.0],
        roundings=32,
    )
    swapped = F.triplet_margin_loss(anchor, positive, negative, swap=True, reduction="none")
    lab.close("with the closer negative", swapped, roundings=32)
    for reduction in REDUCTIONS:
        by_function = F.triplet_margin_with_distance_loss(anchor, positive, negative, reduction=reduction)
        lab.close(f"triplet loss with the default distance, {reduction}", by_function, roundings=32)
        with_distance = F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=lambda p, q: (p - q).abs().sum(1),
            margin=2.0,
            reduction=reduction,
        )
        lab.same(f"triplet loss with a custom distance, {reduction}", with_distance)
        with_swap = F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=lambda p, q: (p - q).abs().sum(1),
            swap=True,
            reduction=reduction,
        )
        lab.same(f"triplet loss with a custom distance and swap, {reduction}", with_swap)
    with_distance.backward()
    lab.same("gradient of the anchor", anchor.grad)
    F.cosine_embedding_loss(a, b, sign, reduction="sum").backward()
    lab.close("gradient of cosine embedding", a.grad, roundings=64)
    lab.expect(
        "one triplet", F.triplet_margin_loss(anchor.detach()[0], positive[0], negative[0]), 4.0, roundings=32
    )


@behaviour("nn", must_detect=("value",), page="generated/torch.nn.GaussianNLLLoss.html")
def gaussian_losses(lab: Lab) -> None:
    """``gaussian_nll_loss`` accepts one variance per element or per row. Variances below ``eps`` are replaced
    by ``eps``.
    """
    x, t = lab.floats(4, 3), lab.floats(4, 3)
    each = lab.floats(4, 1, low=0.5, high=2)
    full = each.expand(4, 3)
    for reduction in REDUCTIONS:
        lab.close(
            f"for each row, {reduction}", F.gaussian_nll_loss(x, t, each, reduction=reduction), roundings=64
        )
        lab.close(
            f"a variance without the last dimension, {reduction}",
            F.gaussian_nll_loss(x, t, each[:, 0], reduction=reduction),
            roundings=64,
        )
        lab.close(
            f"for each element, {reduction}",
            F.gaussian_nll_loss(x, t, full, reduction=reduction),
            roundings=64,
        )
    lab.close("in full", F.gaussian_nll_loss(x, t, full, full=True), roundings=64)
    lab.expect("of equal values", F.gaussian_nll_loss(x, x, torch.ones_like(x), reduction="sum"), 0.0)
    lab.expect(
        "a difference of two",
        F.gaussian_nll_loss(x + 2, x + 0, torch.ones_like(x), reduction="none"),
        [[2.0] * 3] * 4,
        roundings=32,
    )
    lab.close(
        "a variance of zero is clamped", F.gaussian_nll_loss(x, t, torch.zeros_like(x), eps=0.5), roundings=64
    )


@behaviour(
    "nn", capabilities=("autograd",), must_detect=("value",), page="generated/torch.nn.functional.pdist.html"
)
def distances(lab: Lab) -> None:
    """``pairwise_distance``, ``cosine_similarity`` and ``pdist`` agree with their definitions and accept
    empty inputs. ``pairwise_distance`` and ``cosine_similarity`` broadcast.
    """
    a = lab.put([[0.0, 0.0], [3.0, 4.0]], dtype=lab.dtype)
    lab.expect("pairwise", F.pairwise_distance(a, a.flip(0), eps=0.0), [5.0, 5.0], roundings=8)
    lab.expect("by the sum", F.pairwise_distance(a, a.flip(0), p=1.0, eps=0.0), [7.0, 7.0])
    lab.expect(
        "kept dimension",
        F.pairwise_distance(a, a.flip(0), eps=0.0, keepdim=True),
        [[5.0], [5.0]],
        roundings=8,
    )
    with lab.parity("The page of PairwiseDistance asks for equal shapes; broadcasting is undocumented"):
        lab.expect("broadcast", F.pairwise_distance(a, a[:1], eps=0.0), [0.0, 5.0], roundings=8)
    lab.expect("one pair", F.pairwise_distance(a[0], a[1], eps=0.0), 5.0, roundings=8)
    x: Any = lab.put([[1.0, 0.0], [0.0, 0.0], [3.0, 4.0]], dtype=lab.dtype, requires_grad=True)
    y = lab.put([[2.0, 0.0], [1.0, 1.0], [-3.0, -4.0]], dtype=lab.dtype)
    lab.expect("cosine similarity", F.cosine_similarity(x, y), [1.0, 0.0, -1.0], roundings=16)
    lab.expect(
        "of all pairs", F.cosine_similarity(x[:1, None], y[None, :2], dim=-1).shape, torch.Size([1, 2])
    )
    F.cosine_similarity(x, y).sum().backward()
    lab.holds("the gradient of cosine_similarity at zero is finite", x.grad.isfinite().all())
    lab.close("of small vectors", F.cosine_similarity(x.detach() * 1e-4, y * 1e-4), roundings=64)
    lab.close("along the first dimension", F.cosine_similarity(x.detach(), y, dim=0), roundings=64)
    points = lab.put([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]], dtype=lab.dtype, requires_grad=True)
    lab.expect("pdist", F.pdist(points), [5.0, 4.0, 3.0], roundings=8)
    lab.expect("pdist by the sum", F.pdist(points, p=1.0), [7.0, 4.0, 3.0])
    lab.expect("pdist by the count", F.pdist(points, p=0.0), [2.0, 1.0, 1.0])
    lab.expect("pdist by the largest", F.pdist(points, p=float("inf")), [4.0, 4.0, 3.0])
    for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf")):
        points.grad = None
        F.pdist(points, p=p).sum().backward()
        lab.close(f"gradient, p={p}", points.grad, roundings=64)
        equal = torch.ones(3, 2, device=lab.device, dtype=lab.dtype, requires_grad=True)
        F.pdist(equal, p=p).sum().backward()
        lab.expect(f"gradient of pdist of equal points, p={p}", equal.grad, [[0.0, 0.0]] * 3)
    lab.expect("no points", F.pdist(lab.integers(0, 3)), [])
    lab.expect("one point", F.pdist(lab.integers(1, 3)), [])
    lab.expect("no coordinates", F.pdist(lab.integers(3, 0)), [0.0, 0.0, 0.0])
    many = lab.floats(200, 3)
    lab.close("many points", F.pdist(many), roundings=16)
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("pdist of three dimensions", lambda: F.pdist(lab.floats(2, 3, 4)))


@behaviour(
    "nn", capabilities=("autograd",), must_detect=("value", "error"), page="generated/torch.nn.CTCLoss.html"
)
def connectionist_temporal_classification(lab: Lab) -> None:
    """``ctc_loss`` returns equal results for padded and concatenated targets, and for lengths in tuples and
    tensors. The loss is infinite if no alignment of the target exists. Invalid lengths raise an error.
    """
    # Kernels may return a gradient that is correct only behind the backward pass of log_softmax. The gradient
    # is therefore computed with respect to the input of log_softmax.
    logits: Any = lab.floats(6, 2, 4, requires_grad=True)
    log = logits.log_softmax(2)
    targets = lab.put([[1, 2, 3], [2, 2, 1]])
    flat = lab.put([1, 2, 3, 2, 2])
    for reduction in REDUCTIONS:
        lab.close(
            f"padded, {reduction}",
            untyped_functional.ctc_loss(log, targets, (6, 6), (3, 2), reduction=reduction),
            roundings=256,
        )
        lab.close(
            f"in a row, {reduction}",
            untyped_functional.ctc_loss(log, flat, (6, 6), (3, 2), reduction=reduction),
            roundings=256,
        )
        tensors = untyped_functional.ctc_loss(
            log, targets, lab.put([6, 5]), lab.put([3, 2]), reduction=reduction
        )
        lab.close(f"lengths in tensors, {reduction}", tensors, roundings=256)
    untyped_functional.ctc_loss(log, targets, (6, 5), (3, 2), reduction="sum").backward(retain_graph=True)
    lab.close("gradient", logits.grad, roundings=512)
    lab.close(
        "a target without labels",
        untyped_functional.ctc_loss(log, targets, (6, 6), (0, 2), reduction="none"),
        roundings=256,
    )
    lab.close("its only path", -log[:, 0, 0].sum(), roundings=64)
    lab.close(
        "no labels at all",
        untyped_functional.ctc_loss(
            log, lab.put(torch.empty(0, dtype=torch.int64)), (6, 6), (0, 0), reduction="none"
        ),
        roundings=256,
    )
    single = untyped_functional.ctc_loss(log[:, 0], targets[0], lab.put(6), lab.put(3), reduction="none")
    lab.close("without a batch", single, roundings=256)
    lab.close(
        "another blank",
        untyped_functional.ctc_loss(log, targets - 1, (6, 6), (3, 2), blank=3, reduction="none"),
        roundings=256,
    )
    short = untyped_functional.ctc_loss(log, targets, (2, 6), (3, 2), reduction="none")
    lab.holds("the loss of a too short input is infinite", short[0].isinf() and short[1].isfinite())
    cut = untyped_functional.ctc_loss(log, targets, (2, 6), (3, 2), reduction="none", zero_infinity=True)
    lab.expect("zero_infinity replaces an infinite loss by zero", cut[:1], [0.0])
    logits.grad = None
    untyped_functional.ctc_loss(log, targets, (2, 6), (3, 2), reduction="sum", zero_infinity=True).backward()
    lab.expect("gradient of a loss that zero_infinity replaced", logits.grad[:, 0].abs().sum(), 0.0)
    lab.holds("all gradients are finite with zero_infinity", logits.grad.isfinite().all())
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("too few input lengths", lambda: untyped_functional.ctc_loss(log, targets, (6,), (3, 2)))
        lab.raises("too few target lengths", lambda: untyped_functional.ctc_loss(log, targets, (6, 6), (3,)))
    with lab.parity("No page says that lengths of a floating-point dtype are an error"):
        lab.raises(
            "lengths that are floats",
            lambda: untyped_functional.ctc_loss(log, targets, lab.put([6.0, 6.0]), lab.put([3, 2])),
        )
        lab.raises(
            "target lengths that are floats",
            lambda: untyped_functional.ctc_loss(log, targets, lab.put([6, 6]), lab.put([3.0, 2.0])),
        )
    lab.raises(
        "an input length larger than the input",
        lambda: untyped_functional.ctc_loss(log, targets, (7, 6), (3, 2)),
    )
    lab.raises(
        "a target length larger than the target",
        lambda: untyped_functional.ctc_loss(log, targets, (6, 6), (4, 2)),
    )


@behaviour("nn", must_detect=("value", "error"), page="generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html")
def adaptive_log_softmax(lab: Lab) -> None:
    """``AdaptiveLogSoftmaxWithLoss`` returns log probabilities whose exponentials add up to one. Invalid
    cutoffs and targets raise an error.
    """
    from conformance.properties.api._exact_modules import with_whole_number_state

    module = with_whole_number_state(
        lab, nn.AdaptiveLogSoftmaxWithLoss(4, 8, [2, 5], div_value=2.0), low=-1, high=2
    )
    x = lab.floats(5, 4)
    target = lab.put([0, 1, 3, 6, 7])
    log = module.log_prob(x)
    lab.close("log probabilities", log, roundings=64, matrix=True)
    lab.expect(
        "exponentials of the log probabilities add up to one",
        log.exp().sum(1),
        [1.0] * 5,
        roundings=64,
        matrix=True,
    )
    output, loss = module(x, target)
    lab.close("log probabilities of the targets", output, roundings=64, matrix=True)
    lab.close(
        "log probabilities of the targets, from log_prob",
        log.gather(1, target[:, None]).squeeze(1),
        roundings=64,
        matrix=True,
    )
    lab.close("loss", loss, roundings=64, matrix=True)
    predicted = module.predict(x)
    lab.same("predictions", (predicted.dtype, predicted.shape))
    # Several classes may have the largest probability, because the weights are whole numbers.
    lab.close(
        "have the largest probability",
        (log.gather(1, predicted[:, None]).squeeze(1), log.amax(1)),
        roundings=64,
        matrix=True,
    )
    lab.close("without a batch", module(x[0], target[0])[0], roundings=64, matrix=True)
    with lab.parity("The page states the range of targets, but not that another target is an error"):
        lab.raises("a target out of range", lambda: module(x, target + 5))
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises("targets of another batch", lambda: module(x, target[:3]))
        lab.raises("an input of one dimension and several targets", lambda: module(x[0], target))
    for cutoffs in ([5, 2], [2, 2], [0, 2], [2, 8], [2.5]):
        with lab.parity(
            "The page demands ordered integers as cutoffs; it does not mention repeated, zero or too large "
            "cutoffs"
        ):
            lab.raises(
                f"cutoffs {cutoffs}",
                lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 8, cutoffs),  # type: ignore[arg-type]
                ValueError,
                TypeError,
            )
