"""The pt2e flow on hpu: programs rounded to 8-bit floats, models that break into several, scales in files."""

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


class Broken(Net):
    """Between its layers it asks for a value, so that no program holds it whole."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        if hidden.sum().item() < 0:
            hidden = -hidden
        return self.second(hidden)


def quantizer(dtype: torch.dtype = E4M3) -> htcore.quantizer.habana_quantizer:
    return htcore.quantizer.habana_quantizer().set_global(
        htcore.quantizer.habana_quant_config_symmetric(dtype)
    )


def rounded(values: torch.Tensor, dtype: torch.dtype, amax: torch.Tensor) -> torch.Tensor:
    scale = amax.double() / low_precision_rounding.largest(dtype)
    return (values.double() / scale).float().to(dtype).double() * scale


def expected(net: Net, x: torch.Tensor, seen: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """The network in float64, with what is multiplied rounded by the scales of all inputs seen."""
    found = x
    steps = list(seen)
    for number, layer in enumerate((net.first, net.second)):
        weight = rounded(layer.weight, dtype, layer.weight.abs().max())
        amax = torch.stack([one.abs().max() for one in steps]).max()
        found = rounded(found, dtype, amax) @ weight.T + layer.bias.double()
        steps = [layer(one) for one in steps]
        if number == 0:
            found, steps = found.relu(), [one.relu() for one in steps]
    return found


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=str)
@pytest.mark.parametrize("kind", [Net, Broken])
def test_products_are_of_rounded_numbers(kind: type[Net], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = kind()
    batches = [torch.randn(4, 16), 3 * torch.randn(4, 16)]
    on_hpu = kind().to("hpu")
    on_hpu.load_state_dict(net.state_dict())
    program = htcore.quantize_pt2e.export(on_hpu, (batches[0].to("hpu"),))
    assert isinstance(program, htcore.quantize_pt2e.PartitionedModel) == (kind is Broken)
    prepared = htcore.quantize_pt2e.prepare_pt2e(program, quantizer(dtype))
    for batch in batches:  # calibration changes no result
        torch.testing.assert_close(prepared(batch.to("hpu")).cpu(), net(batch), rtol=1e-4, atol=1e-5)
    converted = htcore.quantize_pt2e.convert_pt2e(prepared)
    found = converted(batches[0].to("hpu"))
    assert found.device.type == "hpu"
    due = expected(net, batches[0], batches, dtype).float()
    torch.testing.assert_close(found.cpu(), due, rtol=1e-3, atol=1e-3)
    step = {E4M3: 0.1, E5M2: 0.3}[dtype]
    assert 1e-4 < (found.cpu() - net(batches[0])).abs().max() < step * 10
    if kind is Net:
        names = {str(node.target) for node in converted.graph.nodes}
        assert "quantized_decomposed.quantize_per_tensor.default" in names


@pytest.mark.parametrize("kind", [Net, Broken])
def test_scales_are_written_and_read(
    kind: type[Net], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    net = kind().to("hpu")
    x = torch.randn(4, 16).to("hpu")
    file = tmp_path / "scales.json"

    def converted(*, calibrate: bool) -> torch.Tensor:
        prepared = htcore.quantize_pt2e.prepare_pt2e(htcore.quantize_pt2e.export(net, (x,)), quantizer())
        if calibrate:
            prepared(x)
        elif kind is Broken:
            prepared(
                torch.zeros_like(x)
            )  # its programs come about as it runs; smaller values change no scale
        return htcore.quantize_pt2e.convert_pt2e(prepared)(x).cpu()

    monkeypatch.setenv("PT2E_QUANT_SCALE_DUMP_PATH", str(file))
    due = converted(calibrate=True)
    assert len(json.loads(file.read_text())) == 4
    monkeypatch.delenv("PT2E_QUANT_SCALE_DUMP_PATH")
    monkeypatch.setenv("PT2E_QUANT_SCALE_LOAD_PATH", str(file))
    assert torch.equal(converted(calibrate=False), due)
    file.write_text("{}")
    with pytest.raises(Exception, match="has no scale of"):
        converted(calibrate=False)


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match=r"float8_e4m3fn or torch.float8_e5m2"):
        htcore.quantizer.habana_quant_config_symmetric(torch.int8)
    net = Net().to("hpu")
    x = torch.randn(4, 16).to("hpu")
    with pytest.raises(RuntimeError, match="Call set_global"):
        htcore.quantize_pt2e.prepare_pt2e(
            htcore.quantize_pt2e.export(net, (x,)), htcore.quantizer.habana_quantizer()
        )
    broken = htcore.quantize_pt2e.export(Broken().to("hpu"), (x,))
    broken(x)
    with pytest.raises(RuntimeError, match="Export it again"):
        htcore.quantize_pt2e.prepare_pt2e(broken, quantizer())
    prepared = htcore.quantize_pt2e.prepare_pt2e(
        htcore.quantize_pt2e.export(Broken().to("hpu"), (x,)), quantizer()
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
