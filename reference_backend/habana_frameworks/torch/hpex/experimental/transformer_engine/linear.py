"""A linear layer that computes in fp8."""

from __future__ import annotations

import math
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

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
from .utils import FP8BwdTensors, FP8FwdTensors

_INPUT, _WEIGHT, _GRAD = FP8FwdTensors.GEMM1_INPUT, FP8FwdTensors.GEMM1_WEIGHT, FP8BwdTensors.GRAD_OUTPUT1


class _Fp8Linear(torch.autograd.Function):
    """Autograd function that computes ``inp @ weight.T + bias`` and its gradients with products in fp8.

    ``x`` and ``w`` are ``inp`` and ``weight``, rounded to fp8 by the caller. This function cannot round them,
    because rounding changes the scales of the module. In a graph of Dynamo, the forward pass of an
    ``autograd.Function`` must not change the state of a module.
    """

    @staticmethod
    def forward(
        ctx: Any, inp: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, x: torch.Tensor,
        w: torch.Tensor, back: torch.Tensor, module: Linear, recipe: DelayedScaling, group: Any,
    ) -> torch.Tensor:  # fmt: skip
        out = torch.ops.hpu.fp8_gemm_v2(
            x, False, w, True, None, inp.dtype, back[_INPUT], back[_WEIGHT], bias, False
        )
        ctx.save_for_backward(x, w, back)
        ctx.measures = is_amax_measurement_enabled()
        ctx.about = module, recipe, group, inp.shape, inp.dtype, weight.dtype, bias is not None
        result: torch.Tensor = out.reshape(*inp.shape[:-1], weight.size(0))
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        x, w, back = ctx.saved_tensors
        module, recipe, group, shape, dtype, weight_dtype, has_bias = ctx.about
        meta = module.fp8_meta["scaling_bwd"]
        measures = module.training and ctx.measures
        if measures:
            update_scales_and_history(meta, recipe, False, group)
        flat = grads[0].reshape(-1, grads[0].size(-1))
        kind, at_random = get_fp8_te_dtype(recipe, False), get_fp8_te_sr(recipe, False)
        gradient = cast_to_fp8(flat, meta, _GRAD, kind, at_random, measures)
        scale = meta.scale_inv[_GRAD].clone()
        gemm = torch.ops.hpu.fp8_gemm_v2
        of_input = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_input = gemm(gradient, False, w, False, None, dtype, scale, back[_WEIGHT]).reshape(shape)
        if ctx.needs_input_grad[1]:
            of_weight = gemm(gradient, True, x, False, None, weight_dtype, scale, back[_INPUT])
        if has_bias and ctx.needs_input_grad[2]:
            of_bias = flat.sum(0).to(weight_dtype)
        return of_input, of_weight, of_bias, *[None] * 6


class Linear(Fp8Module):
    """`torch.nn.Linear` that computes in fp8 within `fp8_autocast`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        skip_weight_param_allocation: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        params_dtype: torch.dtype | None = None,
        minimize_memory: bool = False,
    ) -> None:
        """Create a layer.

        Args:
            in_features: number of input features.
            out_features: number of output features.
            bias: add a bias.
            skip_weight_param_allocation: create no parameters; each call then passes weight and bias.
            dtype: another name of ``params_dtype``.
            device: device of the parameters; None for hpu.
            params_dtype: dtype of the parameters; None for torch's default.
            minimize_memory: not used, because fp8 weights are not stored between steps.
        """
        super().__init__(device)
        self.in_features, self.out_features, self.use_bias = in_features, out_features, bias
        options: dict[str, Any] = {"dtype": params_dtype or dtype, "device": device or DEVICE_TYPE}
        own = not skip_weight_param_allocation
        self.weight = torch.nn.Parameter(torch.empty(out_features, in_features, **options)) if own else None
        self.bias = torch.nn.Parameter(torch.empty(out_features, **options)) if own and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the module's own parameters like `torch.nn.Linear`."""
        if self.weight is None:
            return
        torch.nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            torch.nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self,
        inp: torch.Tensor,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        is_first_microbatch: bool | None = None,
    ) -> torch.Tensor:
        """Return ``inp @ weight.T + bias``.

        Args:
            inp: input of shape [..., in_features].
            weight: shape [out_features, in_features]; None for the module's own weight.
            bias: shape [out_features]; None for the module's own bias. The argument is not used if the module
                was created without a bias.
            is_first_microbatch: not used, because fp8 weights are not stored between calls.

        Raises:
            RuntimeError: no weight was passed, and the module was created with
                ``skip_weight_param_allocation``.
        """
        weight = self.weight if weight is None else weight
        bias = (self.bias if bias is None else bias) if self.use_bias else None
        if weight is None:
            raise RuntimeError(
                "Linear has no weight (skip_weight_param_allocation). Pass it: linear(x, weight)"
            )
        if not FP8GlobalStateManager.is_fp8_enabled():
            return functional.linear(inp, weight, bias)
        if torch.is_autocast_enabled(DEVICE_TYPE):
            inp = inp.to(torch.get_autocast_dtype(DEVICE_TYPE))
        recipe, group = FP8GlobalStateManager.get_fp8_recipe(), FP8GlobalStateManager.get_fp8_group()
        x, w, back = self.round_to_fp8(recipe, group, inp.reshape(-1, inp.size(-1)), weight)
        result: torch.Tensor = _Fp8Linear.apply(inp, weight, bias, x, w, back, self, recipe, group)  # type: ignore[no-untyped-call]
        return result

    def extra_repr(self) -> str:
        """Return the text inside the module's ``repr``: the sizes, as in `torch.nn.Linear`."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.use_bias}"
