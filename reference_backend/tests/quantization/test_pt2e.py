"""Test the pt2e flow on hpu: programs rounded to fp8, models with graph breaks, and scales in files."""

from __future__ import annotations

import json
from pathlib import Path

import habana_frameworks.torch.core as htcore
import pytest
import torch
from habana_frameworks.torch.internal.operators import low_precision_rounding
from torch import nn

pytest.importorskip("torchao", reason="torchao is not installed.")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


class NetWithGraphBreak(Net):
    """A network that reads a value between its layers, so that export splits the network into programs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        if hidden.sum().item() < 0:
            hidden = -hidden
        return self.second(hidden)


def make_quantizer(dtype: torch.dtype = E4M3) -> htcore.quantizer.habana_quantizer:
    return htcore.quantizer.habana_quantizer().set_global(
        htcore.quantizer.habana_quant_config_symmetric(dtype)
    )


def round_to_dtype(values: torch.Tensor, dtype: torch.dtype, amax: torch.Tensor) -> torch.Tensor:
    scale = amax.double() / low_precision_rounding.largest_finite_number(dtype)
    return (values.double() / scale).float().to(dtype).double() * scale


def reference_output(
    net: Net, x: torch.Tensor, calibration_inputs: list[torch.Tensor], dtype: torch.dtype
) -> torch.Tensor:
    """Return the result of the network in float64, with the factors of each product rounded to ``dtype``.

    The scales of the rounding follow from the maxima over all calibration inputs.
    """
    activation = x
    steps = list(calibration_inputs)
    for number, layer in enumerate((net.first, net.second)):
        weight = round_to_dtype(layer.weight, dtype, layer.weight.abs().max())
        amax = torch.stack([step_input.abs().max() for step_input in steps]).max()
        activation = round_to_dtype(activation, dtype, amax) @ weight.T + layer.bias.double()
        steps = [layer(step_input) for step_input in steps]
        if number == 0:
            activation, steps = activation.relu(), [step_input.relu() for step_input in steps]
    return activation


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=str)
@pytest.mark.parametrize("kind", [Net, NetWithGraphBreak])
def test_products_use_rounded_factors(kind: type[Net], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = kind()
    batches = [torch.randn(4, 16), 3 * torch.randn(4, 16)]
    on_hpu = kind().to("hpu")
    on_hpu.load_state_dict(net.state_dict())
    program = htcore.quantize_pt2e.export(on_hpu, (batches[0].to("hpu"),))
    assert isinstance(program, htcore.quantize_pt2e.PartitionedModel) == (kind is NetWithGraphBreak)
    prepared = htcore.quantize_pt2e.prepare_pt2e(program, make_quantizer(dtype))
    for batch in batches:  # the prepared model still computes without quantization
        torch.testing.assert_close(prepared(batch.to("hpu")).cpu(), net(batch), rtol=1e-4, atol=1e-5)
    converted = htcore.quantize_pt2e.convert_pt2e(prepared)
    output = converted(batches[0].to("hpu"))
    assert output.device.type == "hpu"
    expected_output = reference_output(net, batches[0], batches, dtype).float()
    torch.testing.assert_close(output.cpu(), expected_output, rtol=1e-3, atol=1e-3)
    step = {E4M3: 0.1, E5M2: 0.3}[dtype]
    assert 1e-4 < (output.cpu() - net(batches[0])).abs().max() < step * 10
    if kind is Net:
        names = {str(node.target) for node in converted.graph.nodes}
        assert "quantized_decomposed.quantize_per_tensor.default" in names


@pytest.mark.parametrize("kind", [Net, NetWithGraphBreak])
def test_scales_are_written_and_read(
    kind: type[Net], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    net = kind().to("hpu")
    x = torch.randn(4, 16).to("hpu")
    file = tmp_path / "scales.json"

    def convert_and_run(*, calibrate: bool) -> torch.Tensor:
        prepared = htcore.quantize_pt2e.prepare_pt2e(htcore.quantize_pt2e.export(net, (x,)), make_quantizer())
        if calibrate:
            prepared(x)
        elif kind is NetWithGraphBreak:
            prepared(torch.zeros_like(x))  # creates the partitioned programs; zeros leave scales unchanged
        return htcore.quantize_pt2e.convert_pt2e(prepared)(x).cpu()

    monkeypatch.setenv("PT2E_QUANT_SCALE_DUMP_PATH", str(file))
    expected_output = convert_and_run(calibrate=True)
    assert len(json.loads(file.read_text())) == 4
    monkeypatch.delenv("PT2E_QUANT_SCALE_DUMP_PATH")
    monkeypatch.setenv("PT2E_QUANT_SCALE_LOAD_PATH", str(file))
    assert torch.equal(convert_and_run(calibrate=False), expected_output)
    file.write_text("{}")
    with pytest.raises(Exception, match="has no scale of"):
        convert_and_run(calibrate=False)


def test_unsupported_uses_raise() -> None:
    with pytest.raises(NotImplementedError, match=r"float8_e4m3fn or torch.float8_e5m2"):
        htcore.quantizer.habana_quant_config_symmetric(torch.int8)
    net = Net().to("hpu")
    x = torch.randn(4, 16).to("hpu")
    with pytest.raises(RuntimeError, match="Call set_global"):
        htcore.quantize_pt2e.prepare_pt2e(
            htcore.quantize_pt2e.export(net, (x,)), htcore.quantizer.habana_quantizer()
        )
    broken = htcore.quantize_pt2e.export(NetWithGraphBreak().to("hpu"), (x,))
    broken(x)
    with pytest.raises(RuntimeError, match="Export the model again"):
        htcore.quantize_pt2e.prepare_pt2e(broken, make_quantizer())
    prepared = htcore.quantize_pt2e.prepare_pt2e(
        htcore.quantize_pt2e.export(NetWithGraphBreak().to("hpu"), (x,)), make_quantizer()
    )
    prepared(x)
    converted = htcore.quantize_pt2e.convert_pt2e(prepared)
    with pytest.raises(Exception, match="Calibrate it with such inputs"):
        converted(torch.randn(5, 16).to("hpu"))


def test_tied_weights_stay_tied() -> None:
    net = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8, bias=False))
    net[1].weight = net[0].weight
    net = net.to("hpu")
    assert net[1].weight is net[0].weight and net[0].weight.device.type == "hpu"
    assert htcore.weight_sharing.is_enabled()
