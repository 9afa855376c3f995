"""Behaviours of MultiheadAttention and transformers: masks, projections, fast paths and refusals."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import (
    are_close_in_float32,
    gradients_by_name,
    with_whole_number_state,
)


def _with_small_weights(lab: Lab, module: Any) -> Any:
    """Return a module after setting its parameters to multiples of 1/8, so that softmax does not saturate.
    Weights of normalization layers are set to values near one.
    """
    with_whole_number_state(lab, module)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.mul_(0.125)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    return module


@behaviour(
    "attention",
    level="core",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.MultiheadAttention.html",
)
def multihead_attention(lab: Lab) -> None:
    """Multihead attention projects its inputs, attends in each head and projects the result back. Options add
    biases, add zero attention (``add_zero_attn``), change the widths of keys and values, and put the batch
    first.
    """
    x, y = lab.floats(5, 2, 8, requires_grad=True), lab.floats(7, 2, 8)
    for options in (
        {},
        {"bias": False},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True},
    ):
        module = _with_small_weights(lab, nn.MultiheadAttention(8, 2, **options))
        for average in (True, False):
            out, weights = module(x, y, y, average_attn_weights=average)
            lab.close(f"{options}, average={average}", (out, weights), roundings=128, matrix=True)
        out.sum().backward()
        lab.close(f"gradients, {options}", (x.grad, gradients_by_name(module)), roundings=1024, matrix=True)
        x.grad = None
        lab.expect(
            f"weights add up to one, {options}", weights.sum(-1), torch.ones(weights.shape[:-1]), roundings=32
        )
    lab.holds(
        "bias=False removes the biases of both projections",
        _with_small_weights(lab, nn.MultiheadAttention(8, 2, bias=False)).out_proj.bias is None,
    )
    module = _with_small_weights(lab, nn.MultiheadAttention(8, 2))
    attended = module(x, y, y)[0]
    w, b = module.in_proj_weight, module.in_proj_bias
    q, k, v = (
        F.linear(sequence, w[i * 8 : i * 8 + 8], b[i * 8 : i * 8 + 8])
        .view(len(sequence), 2, 2, 4)
        .permute(1, 2, 0, 3)
        for i, sequence in enumerate((x, y, y))
    )
    by_hand = module.out_proj(F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).reshape(5, 2, 8))
    lab.close("by hand", (attended, by_hand), roundings=128, matrix=True)
    lab.close("without weights", module(x, y, y, need_weights=False)[0], roundings=128, matrix=True)
    lab.close("without a batch", module(x[:, 0], y[:, 0], y[:, 0])[0], roundings=128, matrix=True)
    narrow = _with_small_weights(lab, nn.MultiheadAttention(8, 2, kdim=3, vdim=6))
    lab.close(
        "keys and values of different widths",
        narrow(x, lab.floats(7, 2, 3), lab.floats(7, 2, 6))[0],
        roundings=128,
        matrix=True,
    )
    first = copy.deepcopy(module)
    first.batch_first = True
    lab.close(
        "batch first",
        first(x.transpose(0, 1), y.transpose(0, 1), y.transpose(0, 1))[0].transpose(0, 1),
        roundings=128,
        matrix=True,
    )
    saved = lab.floats(4, 7, 4)
    static = F.multi_head_attention_forward(
        x,
        y,
        y,
        8,
        2,
        w,
        b,
        None,
        None,
        False,
        0.0,
        module.out_proj.weight,
        module.out_proj.bias,
        static_k=saved,
        static_v=saved,
    )
    with lab.parity("No page describes multi_head_attention_forward and its static keys and values"):
        lab.close("static keys and values", static, roundings=128, matrix=True)


@behaviour(
    "attention", level="core", must_detect=("value",), page="generated/torch.nn.MultiheadAttention.html"
)
def masks_of_multihead_attention(lab: Lab) -> None:
    """True in a boolean mask forbids attention to a position. A float mask is added to the scores. Masks may
    apply to all heads, to each head or to padding. The fast path agrees with the slow path.
    """
    module = _with_small_weights(lab, nn.MultiheadAttention(8, 2, batch_first=True)).eval()
    x = lab.floats(3, 5, 8)
    forbid = torch.ones(5, 5, device=lab.device, dtype=torch.bool).triu(1)
    padding = lab.put([[False] * 5, [False] * 4 + [True], [False] * 2 + [True] * 3])
    added = torch.zeros(5, 5, device=lab.device).masked_fill(forbid, -math.inf)
    each = lab.integers(6, 5, 5, low=0, high=2, dtype=torch.bool) & ~torch.eye(
        5, device=lab.device, dtype=torch.bool
    )
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("none", {}),
        ("booleans", {"attn_mask": forbid}),
        ("floats", {"attn_mask": added}),
        ("for each head", {"attn_mask": each}),
        ("padding", {"key_padding_mask": padding}),
        ("both", {"attn_mask": forbid, "key_padding_mask": padding}),
        (
            "padding of floats",
            {"key_padding_mask": torch.zeros(3, 5, device=lab.device).masked_fill(padding, -math.inf)},
        ),
        ("causal", {"attn_mask": forbid, "is_causal": True}),
    )
    for case, options in cases:
        causal = "is_causal" in options
        slow, weights = module(x, x, x, need_weights=not causal, **options)
        lab.close(f"{case}", slow, roundings=128, matrix=True)
        if not causal:
            lab.close(f"weights, {case}", weights, roundings=128, matrix=True)
        with torch.no_grad():
            fast = module(x, x, x, need_weights=False, **options)[0]
        lab.close(f"without gradients, {case}", fast, roundings=128, matrix=True)
        with lab.consistent("The calls with and without gradients must agree"):
            lab.holds(f"both paths agree, {case}", are_close_in_float32(lab, slow, fast))
    for sample in range(3):
        alone = module(
            x[sample : sample + 1],
            x[sample : sample + 1],
            x[sample : sample + 1],
            attn_mask=each[2 * sample : 2 * sample + 2],
        )[0]
        lab.close(f"sample {sample} alone", alone, roundings=128, matrix=True)
    size = int((~padding[2]).sum())
    cut = module(x[2:, :size], x[2:, :size], x[2:, :size])[0]
    lab.holds(
        "padding has no effect on the other positions",
        are_close_in_float32(lab, cut, module(x, x, x, key_padding_mask=padding)[0][2:, :size]),
    )


@behaviour(
    "attention",
    dtypes=("float16", "bfloat16", "float64"),
    must_detect=("dtype",),
    page="generated/torch.nn.MultiheadAttention.html",
    ground="The dtype argument fixes the weights; products and softmax keep the dtype of their inputs",
)
def dtypes_of_multihead_attention(lab: Lab) -> None:
    """Multihead attention keeps the dtype of its input, in train and eval mode, with and without
    gradients.
    """
    for first in (True, False):
        module = nn.MultiheadAttention(16, 4, batch_first=first, device=lab.device, dtype=lab.dtype)
        x = lab.floats(4, 4, 16)
        for training in (True, False):
            module.train(training)
            with torch.set_grad_enabled(training):
                out, weights = module(x, x, x, need_weights=training)
            lab.same(
                f"first={first}, training={training}",
                (out.dtype, out.shape, None if weights is None else weights.dtype),
            )


@behaviour(
    "attention",
    must_detect=("error", "message"),
    page="generated/torch.nn.MultiheadAttention.html",
    basis="parity",
    ground="The page gives the shapes of the inputs, and does not say that other shapes are errors",
)
def refusals_of_multihead_attention(lab: Lab) -> None:
    """Multihead attention refuses keys, values and masks of wrong dimensions, in train and eval mode."""
    lab.raises(
        "heads that do not divide the width", lambda: nn.MultiheadAttention(8, 3), AssertionError, ValueError
    )
    lab.raises("no heads", lambda: nn.MultiheadAttention(8, 0), AssertionError, ValueError)
    for first in (True, False):
        for training in (True, False):
            module = _with_small_weights(lab, nn.MultiheadAttention(4, 2, batch_first=first)).train(training)
            batch, flat = lab.floats(4, 4, 4), lab.floats(4, 4)
            case = f"first={first}, training={training}"
            with torch.set_grad_enabled(training):
                lab.raises(
                    f"flat keys, {case}",
                    lambda: module(batch, flat, batch),
                    AssertionError,
                    match="3-D",
                )
                lab.raises(
                    f"flat values, {case}",
                    lambda: module(batch, batch, flat),
                    AssertionError,
                    match="3-D",
                )
                lab.raises(
                    f"batched keys, {case}",
                    lambda: module(flat, batch, flat),
                    AssertionError,
                    match="2-D",
                )
                lab.raises(
                    f"batched values, {case}",
                    lambda: module(flat, flat, batch),
                    AssertionError,
                    match="2-D",
                )
                row, square = lab.put([False] * 4), lab.put([[False] * 4] * 4)
                lab.raises(
                    f"flat padding, {case}",
                    lambda: module(batch, batch, batch, key_padding_mask=row),
                    AssertionError,
                    RuntimeError,
                )
                lab.raises(
                    f"batched padding, {case}",
                    lambda: module(flat, flat, flat, key_padding_mask=square),
                    AssertionError,
                    match="key_padding_mask",
                )
                with lab.documented():
                    lab.raises(
                        f"a flat mask, {case}",
                        lambda: module(batch, batch, batch, attn_mask=row),
                        AssertionError,
                        RuntimeError,
                    )
                    lab.raises(
                        f"masks for a wrong number of heads, {case}",
                        lambda: module(flat, flat, flat, attn_mask=square.expand(5, 4, 4)),
                        AssertionError,
                        match="attn_mask",
                    )
                lab.raises(
                    f"four dimensions, {case}",
                    lambda: module(batch[None], batch[None], batch[None]),
                    AssertionError,
                )
    lab.raises("a bias for static keys", lambda: _attend_with_static_keys_and_bias(lab), AssertionError)


def _attend_with_static_keys_and_bias(lab: Lab) -> Any:
    module = _with_small_weights(lab, nn.MultiheadAttention(4, 2, add_bias_kv=True))
    x, saved = lab.floats(3, 1, 4), lab.floats(2, 3, 2)
    return F.multi_head_attention_forward(
        x, x, x, 4, 2, module.in_proj_weight, module.in_proj_bias, module.bias_k, module.bias_v, False, 0.0,
        module.out_proj.weight, module.out_proj.bias, static_k=saved, static_v=saved,
    )  # fmt: skip


@behaviour(
    "attention",
    level="core",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.TransformerEncoderLayer.html",
)
def transformer_layers(lab: Lab) -> None:
    """Encoder and decoder layers compute the documented result, with normalization first or last and with the
    batch first or second. The encoder's fast path, which runs without gradients, agrees with the path with
    gradients.
    """
    for first in (True, False):
        for norm_first in (True, False):
            for activation in ("relu", "gelu"):
                options: dict[str, Any] = {
                    "dropout": 0.0,
                    "batch_first": first,
                    "norm_first": norm_first,
                    "activation": activation,
                }
                case = f"{first}, {norm_first}, {activation}"
                encoder = _with_small_weights(lab, nn.TransformerEncoderLayer(8, 2, 6, **options))
                decoder = _with_small_weights(lab, nn.TransformerDecoderLayer(8, 2, 6, **options))
                x, memory = lab.floats(3, 4, 8, requires_grad=True), lab.floats(3, 4, 8)
                y = encoder(x)
                lab.close(f"encoder: {case}", y, roundings=256, matrix=True)
                lab.close(
                    f"gradient: {case}",
                    torch.autograd.grad(y.sum() + y.square().sum(), x),
                    roundings=4096,
                    matrix=True,
                )
                with torch.no_grad():
                    fast = encoder.eval()(x.detach())
                lab.close(f"fast: {case}", fast, roundings=256, matrix=True)
                with lab.consistent("The calls with and without gradients must agree"):
                    lab.holds(f"paths agree: {case}", are_close_in_float32(lab, fast, y, tolerance_factor=10))
                lab.close(f"decoder: {case}", decoder(x, memory), roundings=256, matrix=True)
                lab.close(
                    f"without a batch: {case}",
                    encoder(x[0]) if first else encoder(x[:, 0]),
                    roundings=256,
                    matrix=True,
                )
    bare = _with_small_weights(lab, nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, bias=False))
    lab.close("without biases", bare(lab.floats(3, 2, 8)), roundings=256, matrix=True)
    lab.same("biases are none", [name for name, _ in bare.named_parameters() if "bias" in name])
    called = _with_small_weights(lab, nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, activation=F.silu))
    lab.close("a function as the activation", called(lab.floats(3, 2, 8)), roundings=256, matrix=True)
    with lab.parity("The page names two strings, and does not say that another string is an error"):
        lab.raises(
            "an unknown activation",
            lambda: nn.TransformerEncoderLayer(8, 2, activation="other"),
            RuntimeError,
        )
        lab.raises(
            "an unknown activation of the decoder layer",
            lambda: nn.TransformerDecoderLayer(8, 2, activation="other"),
            RuntimeError,
        )


@behaviour("attention", level="core", must_detect=("value",), page="generated/torch.nn.Transformer.html")
def masks_of_transformers(lab: Lab) -> None:
    """Encoders and decoders apply boolean and float masks, padding and causality, in train and eval mode."""
    encoder = nn.TransformerEncoder(
        _with_small_weights(lab, nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True)),
        2,
        enable_nested_tensor=lab.target.capable("nested"),
    )
    decoder = nn.TransformerDecoder(
        _with_small_weights(lab, nn.TransformerDecoderLayer(8, 2, 6, dropout=0.0, batch_first=True)), 2
    )
    encoder.to(lab.device)
    x, memory = lab.floats(3, 5, 8), lab.floats(3, 4, 8)
    padding = lab.put([[False] * 5, [False] * 4 + [True], [False] * 2 + [True] * 3])
    forbid = torch.ones(5, 5, device=lab.device, dtype=torch.bool).triu(1)
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("none", {}),
        ("causal", {"mask": forbid, "is_causal": True}),
        ("a mask", {"mask": forbid}),
        ("a mask of floats", {"mask": torch.zeros(5, 5, device=lab.device).masked_fill(forbid, -math.inf)}),
        ("padding", {"src_key_padding_mask": padding}),
        ("padding and a mask", {"mask": forbid, "src_key_padding_mask": padding}),
    )
    for case, options in cases:
        slow = encoder.train()(x, **options)
        with torch.no_grad():
            fast = encoder.eval()(x, **options)
        not_padded = ~options.get("src_key_padding_mask", torch.zeros_like(padding))
        lab.close(f"encoder, {case}", slow[not_padded], roundings=512, matrix=True)
        lab.close(f"fast, {case}", fast[not_padded], roundings=512, matrix=True)
        with lab.consistent("train mode without dropout and eval mode must agree"):
            lab.holds(
                f"paths agree, {case}",
                are_close_in_float32(lab, slow[not_padded], fast[not_padded], tolerance_factor=10),
            )
        named = {
            {
                "mask": "tgt_mask",
                "is_causal": "tgt_is_causal",
                "src_key_padding_mask": "tgt_key_padding_mask",
            }[key]: value
            for key, value in options.items()
        }
        lab.close(f"decoder, {case}", decoder(x, memory, **named)[not_padded], roundings=512, matrix=True)
    lab.close(
        "a mask for the memory",
        decoder(x, memory, memory_mask=lab.put([[False, False, True, True]] * 5)),
        roundings=512,
        matrix=True,
    )
    lab.close(
        "padding of the memory",
        decoder(x, memory, memory_key_padding_mask=padding[:, :4]),
        roundings=512,
        matrix=True,
    )
    model = _with_small_weights(lab, nn.Transformer(8, 2, 1, 1, 6, dropout=0.0, batch_first=True))
    lab.close(
        "encoder and decoder",
        model(memory, x, tgt_mask=forbid, tgt_is_causal=True),
        roundings=512,
        matrix=True,
    )
    lab.expect(
        "the causal mask",
        nn.Transformer.generate_square_subsequent_mask(3, device=lab.device),
        [[0.0, -math.inf, -math.inf], [0.0, 0.0, -math.inf], [0.0, 0.0, 0.0]],
    )
    for empty in ((0, 5, 8),):
        with lab.parity("No page says that a batch of size zero is accepted"):
            lab.same(
                f"of {empty}",
                (
                    encoder(lab.integers(*empty)).shape,
                    decoder(lab.integers(*empty), lab.integers(*empty)).shape,
                    model(lab.integers(*empty), lab.integers(*empty)).shape,
                ),
            )


@behaviour(
    "attention",
    must_detect=("error",),
    page="generated/torch.nn.Transformer.html",
    basis="parity",
    ground="The page gives the shapes of inputs and masks, and does not say that other shapes are errors",
)
def refusals_of_transformers(lab: Lab) -> None:
    """Transformers refuse inputs with a wrong width, batch size or number of dimensions. Transformers also
    refuse masks whose shape does not fit or whose dtype is an integer dtype.
    """
    model = _with_small_weights(lab, nn.Transformer(8, 2, 1, 1, 6))
    x, y = lab.floats(4, 2, 8), lab.floats(3, 2, 8)
    lab.raises("another batch", lambda: model(x, lab.floats(3, 5, 8)))
    lab.raises("another width", lambda: model(lab.floats(4, 2, 7), y))
    lab.raises("a target of a wrong width", lambda: model(x, lab.floats(3, 2, 7)))
    lab.raises("four dimensions", lambda: model(x[None], y[None]), RuntimeError, AssertionError)
    for name in ("src_mask", "tgt_mask", "memory_mask"):
        lab.raises(
            f"a wrong {name}",
            lambda: model(x, y, **{name: torch.zeros(9, 9, device=lab.device)}),
            RuntimeError,
            AssertionError,
        )
        lab.raises(
            f"a {name} of integers",
            lambda: model(x, y, **{name: torch.zeros(4, 4, device=lab.device, dtype=torch.int64)}),
            RuntimeError,
            AssertionError,
        )
    for name in ("src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask"):
        lab.raises(
            f"a wrong {name}",
            lambda: model(x, y, **{name: torch.zeros(9, 9, device=lab.device, dtype=torch.bool)}),
            RuntimeError,
            AssertionError,
        )
    layer = _with_small_weights(lab, nn.TransformerEncoderLayer(8, 2, 6, batch_first=True))
    lab.raises("a layer: another width", lambda: layer(lab.floats(2, 3, 7)), AssertionError, RuntimeError)
    lab.raises(
        "a layer: padding of a wrong size",
        lambda: layer(lab.floats(2, 3, 8), src_key_padding_mask=lab.put([[False] * 9] * 2)),
        AssertionError,
        RuntimeError,
    )
    lab.raises("heads that do not divide the width", lambda: nn.Transformer(8, 3), AssertionError, ValueError)
