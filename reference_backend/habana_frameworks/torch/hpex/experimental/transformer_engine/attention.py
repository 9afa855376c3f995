"""An attention module that computes in fp8."""

from __future__ import annotations

import math
from typing import Any

from habana_frameworks.torch.hpex.kernels import FusedSDPA

import torch
from torch.autograd.function import once_differentiable

from .base import Fp8Module
from .cpp_extensions import cast_to_fp8
from .fp8 import (
    FP8GlobalStateManager,
    get_fp8_te_dtype,
    get_fp8_te_sr,
    is_amax_measurement_enabled,
    update_scales_and_history,
)
from .recipe import DelayedScaling

_Q, _K, _V = range(3)


class _Fp8Attention(torch.autograd.Function):
    """Autograd function of attention in fp8.

    ``low_q``, ``low_k`` and ``low_v`` are q, k and v, rounded to fp8 by the caller. The backward pass rounds
    the gradient of the output to fp8.
    """

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        low_q: torch.Tensor, low_k: torch.Tensor, low_v: torch.Tensor, back: torch.Tensor,
        mask: torch.Tensor | None, is_causal: bool, softmax_mode: str,
        module: FusedAttention, recipe: DelayedScaling, group: Any,
    ) -> torch.Tensor:  # fmt: skip
        low = (low_q, low_k, low_v)
        scale = 1 / math.sqrt(q.size(-1)) if module.scale is None else module.scale
        out, matrix, dropout_mask, _ = torch.ops.hpu.fp8_sdpa_fwd(
            *low, mask, module.attention_dropout if module.training else 0.0, scale, is_causal, softmax_mode,
            back[_Q], back[_K], back[_V], None, None, None, False, None, "left",
        )  # fmt: skip
        ctx.save_for_backward(*low, back, matrix, dropout_mask, out)
        ctx.measures = is_amax_measurement_enabled()
        ctx.about = module, recipe, group, is_causal, scale, (q.dtype, k.dtype, v.dtype)
        ctx.p = module.attention_dropout if module.training else 0.0
        result: torch.Tensor = out.to(q.dtype)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        q, k, v, back, matrix, dropout_mask, out = ctx.saved_tensors
        module, recipe, group, is_causal, scale, dtypes = ctx.about
        meta = module.fp8_meta["scaling_bwd"]
        measures = module.training and ctx.measures
        if measures:
            update_scales_and_history(meta, recipe, False, group)
        kind, at_random = get_fp8_te_dtype(recipe, False), get_fp8_te_sr(recipe, False)
        gradient = cast_to_fp8(grads[0], meta, 0, kind, at_random, measures)
        gradients = torch.ops.hpu.fp8_sdpa_bwd(
            gradient, q, k, v, matrix, dropout_mask, is_causal, ctx.p, scale, back[_Q], back[_K], back[_V],
            None, meta.scale_inv[0].clone(), None, None, None, False, out,
        )  # fmt: skip
        return (
            *(input_gradient.to(dtype) for input_gradient, dtype in zip(gradients[:3], dtypes, strict=True)),
            *[None] * 10,
        )


class FusedAttention(Fp8Module):
    """Module for scaled dot product attention (`hpex.kernels.FusedSDPA`), in fp8 within `fp8_autocast`."""

    SCALED_TENSOR_COUNTS = (3, 1)

    def __init__(
        self,
        scale: float | None = None,
        attention_dropout: float = 0.0,
        enable_recompute: bool = False,
    ) -> None:
        """Create a module.

        Args:
            scale: factor of the attention scores; None for 1 / sqrt(number of features).
            attention_dropout: probability of dropout in training.
            enable_recompute: recompute the attention matrix in the backward pass. Not used in fp8: there the
                matrix is always saved.
        """
        super().__init__()
        self.scale, self.attention_dropout, self.enable_recompute = scale, attention_dropout, enable_recompute

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        is_causal: bool = False,
        softmax_mode: str = "None",
    ) -> torch.Tensor:
        """Return the attention of query, key and value, with the arguments of `hpex.kernels.FusedSDPA`."""
        if not FP8GlobalStateManager.is_fp8_enabled():
            p = self.attention_dropout if self.training else 0.0
            unrounded_result = FusedSDPA.apply(
                query, key, value, attn_mask, p, is_causal, self.scale, softmax_mode, self.enable_recompute
            )
            assert isinstance(unrounded_result, torch.Tensor)
            return unrounded_result
        if query.dim() == 4 and key.size(1) not in (1, query.size(1)):
            key, value = (t.repeat_interleave(query.size(1) // t.size(1), 1) for t in (key, value))
        recipe, group = FP8GlobalStateManager.get_fp8_recipe(), FP8GlobalStateManager.get_fp8_group()
        low = self.round_to_fp8(recipe, group, query, key, value)
        # If an autograd function receives the same tensor twice, Dynamo breaks the graph. So pass views.
        key = key.view_as(key) if key is query else key
        value = value.view_as(value) if value is query or value is key else value
        result: torch.Tensor = _Fp8Attention.apply(  # type: ignore[no-untyped-call]
            query, key, value, *low, attn_mask, is_causal, softmax_mode, self, recipe, group
        )
        return result
