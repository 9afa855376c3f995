"""Behaviours of ``scaled_dot_product_attention``: definition, masks, layouts, dropout, gradients and
refusals.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import are_close_in_float32

attend = F.scaled_dot_product_attention


def _attention_by_definition(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Any = None, scale: float | None = None
) -> torch.Tensor:
    weights = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return (weights if bias is None else weights + bias).softmax(-1) @ v


@behaviour(
    "attention",
    level="core",
    dtypes=("float32", "float64"),
    capabilities=("autograd",),
    must_detect=("value",),
)
def attention_by_its_definition(lab: Lab) -> None:
    """Attention is the softmax of the scaled products of queries and keys, with a mask or bias added, times
    the values. The gradients follow from this definition.
    """
    for shape, length in (((2, 3, 5, 8), 7), ((1, 2, 9, 4), 9)):
        _compare_with_definition(lab, shape, length)
    single = attend(
        lab.put([[[[1.0, 0.0]]]], dtype=lab.dtype),
        lab.put([[[[0.0, 0.0], [0.0, 0.0]]]], dtype=lab.dtype),
        lab.put([[[[2.0, 4.0], [4.0, 8.0]]]], dtype=lab.dtype),
    )
    lab.expect("equal weights give the mean", single, [[[[3.0, 6.0]]]], roundings=8)
    q, k, v = (lab.floats(1, 1, 4, 2) for _ in range(3))
    causal = attend(q, k, v, is_causal=True)
    first_value = v[:, :, :1].cpu()
    lab.expect(
        "the first position attends only to itself", causal[:, :, :1], first_value, roundings=64, matrix=True
    )
    with lab.parity(
        "The page's inputs have a batch and a head dimension; no page says that these may be missing"
    ):
        _compare_with_definition(lab, (2, 6, 16), 4)
        _compare_with_definition(lab, (5, 8), 3)


def _compare_with_definition(lab: Lab, shape: tuple[int, ...], length: int) -> None:
    """Compare attention with its definition. ``shape`` is the shape of the queries, ``length`` the number of
    keys.
    """
    q = lab.floats(*shape, requires_grad=True)
    k, v = (lab.floats(*shape[:-2], length, shape[-1], requires_grad=True) for _ in range(2))
    mask = lab.integers(shape[-2], length, low=0, high=2, dtype=torch.bool)
    mask = mask | (torch.arange(length, device=lab.device) == 0)
    bias = lab.floats(shape[-2], length)
    cases: list[tuple[str, dict[str, Any], Any, float | None]] = [
        ("plain", {}, None, None),
        ("a scale", {"scale": 0.3}, None, 0.3),
        ("a negative scale", {"scale": -0.3}, None, -0.3),
        ("a mask", {"attn_mask": mask}, torch.zeros_like(bias).masked_fill(~mask, -math.inf), None),
        ("a bias", {"attn_mask": bias}, bias, None),
    ]
    if shape[-2] == length:
        lower = torch.ones(length, length, device=lab.device, dtype=torch.bool).tril()
        cases.append(
            ("causal", {"is_causal": True}, torch.zeros_like(bias).masked_fill(~lower, -math.inf), None)
        )
    for case, options, added, scale in cases:
        y = attend(q, k, v, **options)
        lab.close(f"{case}, {shape}", y, roundings=64, matrix=True)
        lab.holds(
            f"{case}, {shape}, agrees with the definition",
            are_close_in_float32(lab, y, _attention_by_definition(q, k, v, added, scale)),
        )
        push = lab.floats(*y.shape)
        lab.close(
            f"gradients, {case}, {shape}",
            torch.autograd.grad(y, (q, k, v), push),
            roundings=512,
            matrix=True,
        )


@behaviour(
    "attention",
    level="core",
    dtypes=("float32", "bfloat16", "float16"),
    must_detect=("value",),
    ground="The formula gives the values; strides of the inputs have no effect on them",
)
def attention_in_other_layouts(lab: Lab) -> None:
    """Attention of transposed, packed, expanded and odd-sized inputs, and of masks with strides, equals the
    attention of contiguous inputs.
    """
    packed = lab.floats(2, 5, 3, 4, 8)
    q, k, v = (packed[:, :, part].transpose(1, 2) for part in range(3))
    contiguous_result = attend(q.contiguous(), k.contiguous(), v.contiguous())
    lab.close("packed", (attend(q, k, v), contiguous_result), roundings=32, matrix=True)
    lab.close("one step", attend(q[:, :, :1], k, v), roundings=32, matrix=True)
    lab.close("one key", attend(q, k[:, :, :1], v[:, :, :1]), roundings=32, matrix=True)
    lab.close(
        "expanded keys", attend(q, k[:, :1].expand_as(k), v[:, :1].expand_as(v)), roundings=32, matrix=True
    )
    wide = lab.floats(2, 4, 5, 10)
    for case, mask in (
        ("with gaps", wide[..., ::2]),
        ("transposed", wide[..., :5].mT),
        ("for each batch", wide[:, :1, :, :5]),
        ("for each key", wide[:, :1, :1, :5]),
        ("for all", wide[0, 0, :, :5]),
    ):
        lab.close(f"a bias {case}", attend(q, k, v, attn_mask=mask), roundings=32, matrix=True)
        lab.close(f"a mask {case}", attend(q, k, v, attn_mask=mask > -0.9), roundings=32, matrix=True)
    for width in (1, 3, 7, 20):
        lab.close(
            f"heads of {width}",
            attend(lab.floats(1, 2, 6, width), lab.floats(1, 2, 6, width), lab.floats(1, 2, 6, width)),
            roundings=32,
            matrix=True,
        )
    lab.close("values of another width", attend(q, k, lab.floats(2, 4, 5, 6)), roundings=32, matrix=True)
    # The inputs are float32, because the CPU's bfloat16 kernel for long inputs raises an error if AVX-512 is
    # disabled.
    queries, keys, entries = (lab.floats(1, 1, 150, 8, dtype=torch.float32) for _ in range(3))
    lab.close("long", attend(queries, keys, entries, is_causal=True), roundings=64, matrix=True)
    masked = torch.zeros(5, 5, dtype=torch.bool, device=lab.device)
    lab.holds(
        "a query whose keys are all masked keeps the shape",
        attend(q, k, v, attn_mask=masked).shape == q.shape,
    )
    with (
        torch.no_grad(),
        lab.parity("The page limits enable_gqa, which is experimental, to two kernels on CUDA tensors"),
    ):
        lab.close(
            "grouped",
            attend(lab.floats(1, 4, 5, 8), lab.floats(1, 2, 5, 8), lab.floats(1, 2, 5, 8), enable_gqa=True),
            roundings=32,
            matrix=True,
        )


@behaviour(
    "attention",
    level="core",
    dtypes=("float32", "bfloat16", "float16"),
    capabilities=("autograd", "views"),
    must_detect=("value",),
    ground="The formula gives values and gradients; strides of the inputs have no effect on them",
)
def attention_of_packed_projections(lab: Lab) -> None:
    """Attention of queries, keys and values that are permuted views of one projection gives the values of
    contiguous inputs and the correct gradient of the projection. The heads have widths that models use.
    """
    for width, tokens in ((64, 33), (80, 17), (96, 20), (128, 18)):
        packed = lab.floats(2, tokens, 3, 2, width, requires_grad=True)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        contiguous = query.contiguous(), key.contiguous(), value.contiguous()
        for is_causal in (False, True):
            label = f"{'causal, ' * is_causal}heads of {width}, {tokens} tokens"
            result = attend(query, key, value, is_causal=is_causal)
            pair = result, attend(*contiguous, is_causal=is_causal)
            lab.close(label, pair, roundings=32, matrix=True)
            merged = result.transpose(1, 2).reshape(2, tokens, 2 * width)
            (gradient,) = torch.autograd.grad(merged, packed, merged.detach(), retain_graph=True)
            lab.close(f"the gradient, {label}", gradient, roundings=64, matrix=True)


@behaviour("attention", level="core", capabilities=("random",), must_detect=("value",))
def dropout_in_attention(lab: Lab) -> None:
    """Dropout of attention weights does nothing at probability zero, and preserves the mean of the result. An
    equal seed drops the same weights again.
    """
    q, k = lab.floats(1, 2, 6, 8), lab.floats(1, 2, 6, 8)
    ones = torch.ones(1, 2, 6, 8, device=lab.device)
    lab.close("at zero", attend(q, k, ones, dropout_p=0.0), roundings=64, matrix=True)
    torch.manual_seed(5)
    first = attend(q, k, ones, dropout_p=0.5)
    torch.manual_seed(5)
    with lab.consistent("two calls after the same seed must give the same result"):
        lab.holds("an equal seed repeats the result", torch.equal(first, attend(q, k, ones, dropout_p=0.5)))
    lab.holds("dropout changes the result", not torch.equal(first, ones))
    total = torch.stack([attend(q, k, ones, dropout_p=0.5).mean() for _ in range(40)]).mean()
    # The expected mean is 1. The standard deviation is less than 1 for the mean of one draw (12 rows), and
    # less than 1/6 for the mean of 40 draws.
    lab.holds("the mean is preserved", abs(float(total) - 1) < 0.5)


@behaviour(
    "attention",
    level="core",
    must_detect=("error", "message"),
    basis="parity",
    ground="The page gives the shapes of the inputs, and does not say that other shapes are errors",
)
def refusals_of_attention(lab: Lab) -> None:
    """Attention refuses one-dimensional inputs, inputs of different dtypes, integer masks, and sizes that do
    not fit.
    """
    q, k, v = (lab.floats(1, 2, 4, 8) for _ in range(3))
    lab.raises("one dimension", lambda: attend(lab.floats(4), lab.floats(4), lab.floats(4)), match="(?i)dim")
    lab.raises("dtypes that differ", lambda: attend(q, k.half(), v), match="(?i)dtype")
    with lab.documented():
        lab.raises(
            "a mask of integers",
            lambda: attend(q, k, v, attn_mask=lab.integers(4, 4, dtype=torch.int64)),
            match="(?i)mask",
        )
    lab.raises("widths that differ", lambda: attend(q, lab.floats(1, 2, 4, 7), v))
    with lab.documented():
        lab.raises(
            "a mask whose shape does not fit",
            lambda: attend(q, k, v, attn_mask=torch.ones(4, 5, device=lab.device)),
        )
    if not lab.target.is_cpu:
        lab.raises("another device", lambda: attend(q, k.cpu() if lab.on_target else k.to("meta"), v))
