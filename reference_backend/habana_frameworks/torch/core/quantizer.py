"""A quantizer to 8-bit floats for torchao's pt2e quantization.

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

#: Operators whose first two tensors are quantized.
_PRODUCTS = frozenset(
    {
        *(aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default),
        *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default),
    }
)


class AbsMaxObserver(observers.ObserverBase):  # type: ignore[misc]
    """Observer of the largest magnitude of all tensors; the scale maps it to the dtype's largest number."""

    def __init__(self, dtype: torch.dtype, **unused_options: Any) -> None:
        super().__init__(dtype=dtype)
        self.qscheme = torch.per_tensor_symmetric
        self.quant_min, self.quant_max = (
            -int(low_precision_rounding.largest_finite_number(dtype)),
            int(low_precision_rounding.largest_finite_number(dtype)),
        )
        self.register_buffer("amax", torch.zeros(()))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Observe a tensor and return it."""
        if values.numel():
            self.amax = self.next_amax(values.detach().abs().amax().float())
        return values

    def next_amax(self, magnitude: torch.Tensor) -> torch.Tensor:
        """Return the new observed magnitude: the maximum of the old magnitude and ``magnitude``."""
        return torch.maximum(self.amax.to(magnitude.device), magnitude)

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scale (1 if only zeros were observed) and the zero point, 0."""
        scale = torch.where(self.amax > 0, self.amax / self.quant_max, torch.ones_like(self.amax))
        return scale, torch.zeros_like(scale, dtype=torch.int64)


class SimpleAbsMaxObserver(AbsMaxObserver):
    """Observer of the largest magnitude of the last tensor only, for weights, which do not change."""

    def next_amax(self, magnitude: torch.Tensor) -> torch.Tensor:
        """Return ``magnitude``, the magnitude of the last tensor, as the new observed magnitude."""
        return magnitude


@dataclasses.dataclass(frozen=True)
class QuantConfig:
    """Quantization specifications of activations and weights."""

    activation: QuantizationSpec
    weight: QuantizationSpec


def habana_quant_config_symmetric(quant_dtype: torch.dtype) -> QuantConfig:
    """Return a configuration for symmetric quantization to an fp8 dtype, with one scale per tensor.

    Raises:
        NotImplementedError: the dtype is neither float8_e4m3fn nor float8_e5m2.
    """
    if quant_dtype not in low_precision_rounding.FP8:
        raise NotImplementedError(
            f"habana_quant_config_symmetric rounds to torch.float8_e4m3fn or torch.float8_e5m2, but "
            f"{quant_dtype} was requested"
        )

    def specification(observer: type[AbsMaxObserver]) -> QuantizationSpec:
        return QuantizationSpec(
            dtype=quant_dtype,
            observer_or_fake_quant_ctr=observer.with_args(),
            qscheme=torch.per_tensor_symmetric,
            quant_min=-int(low_precision_rounding.largest_finite_number(quant_dtype)),
            quant_max=int(low_precision_rounding.largest_finite_number(quant_dtype)),
        )

    return QuantConfig(specification(AbsMaxObserver), specification(SimpleAbsMaxObserver))


class habana_quantizer(Quantizer):  # type: ignore[misc]
    """Quantizer of the inputs of matrix products and convolutions; `set_global` configures the dtype."""

    def __init__(self) -> None:
        super().__init__()
        self._config: QuantConfig | None = None

    def set_global(self, config: QuantConfig) -> habana_quantizer:
        """Set the configuration for the whole model, and return this quantizer."""
        self._config = config
        return self

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotate the first two arguments of each matrix product and convolution with how to quantize them.

        Raises:
            RuntimeError: no configuration is set.
        """
        if self._config is None:
            raise RuntimeError(
                "this habana_quantizer has no configuration. Call set_global with the result of "
                "habana_quant_config_symmetric first."
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
        """Accept any program; torchao requires this method."""
