"""A quantizer to 8-bit floats for the pt2e flow of torchao: which values are rounded, and by what scale.

from habana_frameworks.torch.core.quantize_pt2e import convert_pt2e, export, prepare_pt2e
from habana_frameworks.torch.core.quantizer import habana_quant_config_symmetric, habana_quantizer

quantizer = habana_quantizer()
quantizer.set_global(habana_quant_config_symmetric(torch.float8_e4m3fn))
prepared = prepare_pt2e(export(model, inputs), quantizer)
prepared(*inputs)                # calibrates
quantized = convert_pt2e(prepared)
"""

from __future__ import annotations

import dataclasses
from typing import Any

from habana_frameworks.torch.internal.operators import low_precision_rounding

import torch

try:
    from torchao.quantization.pt2e import observer as observers
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
except ImportError as error:
    raise ImportError("habana_frameworks.torch.core.quantizer needs torchao: pip install torchao") from error

aten = torch.ops.aten

#: Operators whose first two tensors are rounded.
_PRODUCTS = frozenset(
    {
        *(aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default),
        *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default),
    }
)


class AbsMaxObserver(observers.ObserverBase):
    """The largest magnitude of all tensors that pass; the scale makes it the largest number of the dtype."""

    def __init__(self, dtype: torch.dtype, **others: Any) -> None:
        super().__init__(dtype=dtype)
        self.qscheme = torch.per_tensor_symmetric
        self.quant_min, self.quant_max = (
            -int(low_precision_rounding.largest(dtype)),
            int(low_precision_rounding.largest(dtype)),
        )
        self.register_buffer("amax", torch.zeros(()))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Take note of a tensor, and return it."""
        if values.numel():
            self.amax = self.combined(values.detach().abs().amax().float())
        return values

    def combined(self, found: torch.Tensor) -> torch.Tensor:
        """The magnitude after one more tensor."""
        return torch.maximum(self.amax.to(found.device), found)

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale, 1 if only zeros have passed, and the zero point, which is 0."""
        scale = torch.where(self.amax > 0, self.amax / self.quant_max, torch.ones_like(self.amax))
        return scale, torch.zeros_like(scale, dtype=torch.int64)


class SimpleAbsMaxObserver(AbsMaxObserver):
    """The largest magnitude of the last tensor alone: for weights, which stay."""

    def combined(self, found: torch.Tensor) -> torch.Tensor:
        """The magnitude of that tensor."""
        return found


@dataclasses.dataclass(frozen=True)
class QuantConfig:
    """Rounding of activations and of weights."""

    activation: QuantizationSpec
    weight: QuantizationSpec


def habana_quant_config_symmetric(quant_dtype: torch.dtype) -> QuantConfig:
    """Round activations and weights to an fp8 dtype, symmetrically, with one scale for each tensor.

    Raises:
        NotImplementedError: another dtype than float8_e4m3fn and float8_e5m2.
    """
    if quant_dtype not in low_precision_rounding.FP8:
        raise NotImplementedError(
            f"habana_quant_config_symmetric rounds to torch.float8_e4m3fn or torch.float8_e5m2, and "
            f"{quant_dtype} was asked for"
        )

    def specification(observer: type[AbsMaxObserver]) -> QuantizationSpec:
        return QuantizationSpec(
            dtype=quant_dtype,
            observer_or_fake_quant_ctr=observer.with_args(),
            qscheme=torch.per_tensor_symmetric,
            quant_min=-int(low_precision_rounding.largest(quant_dtype)),
            quant_max=int(low_precision_rounding.largest(quant_dtype)),
        )

    return QuantConfig(specification(AbsMaxObserver), specification(SimpleAbsMaxObserver))


class habana_quantizer(Quantizer):
    """Rounds what products and convolutions multiply, by the configuration of `set_global`."""

    def __init__(self) -> None:
        super().__init__()
        self._config: QuantConfig | None = None

    def set_global(self, config: QuantConfig) -> habana_quantizer:
        """Use a configuration for the whole model; return this quantizer."""
        self._config = config
        return self

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Say of each product in a program how its arguments are rounded.

        Raises:
            RuntimeError: there is no configuration.
        """
        if self._config is None:
            raise RuntimeError(
                "this habana_quantizer has no configuration: call set_global with one of "
                "habana_quant_config_symmetric first"
            )
        for node in model.graph.nodes:
            if node.op != "call_function" or node.target not in _PRODUCTS:
                continue
            first, second = node.args[:2]
            weight = self._config.weight if second.op == "get_attr" else self._config.activation
            node.meta["quantization_annotation"] = QuantizationAnnotation(
                input_qspec_map={first: self._config.activation, second: weight}, _annotated=True
            )
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        """Take any program."""
