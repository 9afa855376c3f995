"""Behaviours of quantized tensors: scales, zero points, conversion in both directions, and fake
quantization.
"""

from __future__ import annotations

import copy
import io

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

STORED = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}


@behaviour(
    "quantized",
    level="core",
    must_detect=("value",),
    page="generated/torch.quantize_per_tensor.html",
    ground="The page gives scale and zero point and an example",
)
def quantizing(lab: Lab) -> None:
    """``quantize_per_tensor`` and ``quantize_per_channel`` round to multiples of the scale and clamp to the
    range of the dtype. ``dequantize`` returns the rounded values.
    """
    values = [-1000.0, -1.0, -0.1875, 0.0, 0.5, 0.8125, 1.5, 1000.0]
    x = lab.put(values)
    for kind in STORED:
        quantized = torch.quantize_per_tensor(x, 0.5, 4, kind)
        info = torch.iinfo(
            {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}[kind]
        )
        steps = [min(max(round(v / 0.5) + 4, info.min), info.max) for v in values]
        # The page of int_repr says that the result is on the CPU, but devices may return it on the device.
        lab.expect(f"steps of {kind}", quantized.int_repr().cpu(), steps, host=True)
        lab.expect(f"values of {kind}", quantized.dequantize(), [(s - 4) * 0.5 for s in steps])
        lab.same(
            f"what {kind} is",
            [
                quantized.dtype,
                quantized.q_scale(),
                quantized.q_zero_point(),
                quantized.qscheme(),
                quantized.is_quantized,
            ],
        )
        lab.same(f"device of {kind}", quantized.device.type == lab.device.type)
        with lab.parity("No page says how a number between two steps is rounded"):
            between = torch.quantize_per_tensor(lab.put([-0.25, 0.25, 0.75]), 0.5, 4, kind)
            lab.expect(f"values between steps of {kind}", between.dequantize(), [0.0, 0.0, 1.0])
    rows = lab.put([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    scales, zeros = lab.put([0.5, 0.25], dtype=torch.float64), lab.put([0, 2])
    by_channel = torch.quantize_per_channel(rows, scales, zeros, 0, torch.quint8)
    lab.expect("steps by channel", by_channel.int_repr().cpu(), [[2, 4, 6], [6, 10, 14]], host=True)
    lab.expect("values by channel", by_channel.dequantize(), [[1.0, 2.0, 3.0]] * 2)
    lab.same("scales", [by_channel.q_per_channel_scales(), by_channel.q_per_channel_zero_points()])
    lab.same("axis", by_channel.q_per_channel_axis())


@behaviour(
    "quantized",
    capabilities=("serialization",),
    level="core",
    must_detect=("value",),
    page="generated/torch.quantize_per_tensor.html",
    basis="consistency",
    ground="A copy, view or loaded tensor must have the scale and zero point of the original",
)
def moving_quantized(lab: Lab) -> None:
    """A quantized tensor keeps its scale and zero point when it is viewed, copied, saved, loaded or moved
    between devices.
    """
    quantized = torch.quantize_per_tensor(lab.put([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 0.5, 1, torch.quint8)
    buffer = io.BytesIO()
    torch.save(quantized, buffer)
    buffer.seek(0)
    for name, copied in {
        "view": quantized.view(2, 3),
        "transposed": quantized.t(),
        "slice": quantized[1:],
        "clone": quantized.clone(),
        "deepcopy": copy.deepcopy(quantized),
        "saved": torch.load(buffer, weights_only=True),
        "round trip": quantized.cpu().to(lab.device),
        "contiguous": quantized.t().contiguous(),
    }.items():
        lab.same(f"values of {name}", copied.dequantize())
        lab.same(
            f"parameters of {name}", [copied.q_scale(), copied.q_zero_point(), copied.dtype, copied.shape]
        )
    lab.same("on the host", quantized.cpu().dequantize(), host=True)
    lab.same("equal", torch.equal(quantized, quantized.clone()))
    with lab.documented():
        lab.holds("printed", "quantization_scheme" in repr(quantized) and "zero_point=1" in repr(quantized))
    with lab.parity("No page says that the call is an error"):
        lab.raises(
            "q_scale of a float tensor", lambda: lab.put([1.0]).q_scale(), RuntimeError, NotImplementedError
        )


@behaviour(
    "quantized",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.fake_quantize_per_tensor_affine.html",
)
def fake_quantization(lab: Lab) -> None:
    """``fake_quantize`` rounds and clamps in floating point. The gradient is 1 for values that were not
    clamped, and 0 for clamped values.
    """
    x = lab.put([-20.0, -1.0, 0.25, 0.5, 3.0, 200.0], requires_grad=True)
    result = torch.fake_quantize_per_tensor_affine(x, 0.5, 4, 0, 255)
    lab.expect("values", result.detach(), [-2.0, -1.0, 0.0, 0.5, 3.0, 125.5])
    result.sum().backward()
    with lab.parity("No page gives the gradient of fake quantization"):
        lab.expect("gradient", x.grad, [0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    rows = lab.put([[1.1, 2.0], [1.1, 2.0]], requires_grad=True)
    scales, zeros = lab.put([0.5, 1.0]), lab.put([0, 0], dtype=torch.int32)
    by_channel = torch.fake_quantize_per_channel_affine(rows, scales, zeros, 0, 0, 3)
    lab.expect("by channel", by_channel.detach(), [[1.0, 1.5], [1.0, 2.0]])
    by_channel.sum().backward()
    with lab.parity("No page gives the gradient of fake quantization"):
        lab.expect("gradient by channel", rows.grad, [[1.0, 0.0], [1.0, 1.0]])
