"""What changes in torch in lazy mode only."""

from __future__ import annotations

import io

import pytest
import torch
from habana_frameworks.torch.core import torch_overwrites


@pytest.fixture
def registry(monkeypatch):
    """torch's table of devices that storages are saved for, put back afterwards."""
    monkeypatch.setattr(torch.serialization, "_package_registry", [*torch.serialization._package_registry])
    return torch.serialization._package_registry


def _saved_and_loaded(**options):
    weight = torch.nn.Parameter(torch.arange(4.0, device="hpu"))
    buffer = io.BytesIO()
    torch.save({"weight": weight, "part": weight.detach()[1:3]}, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


def test_saved_tensors_are_tensors_of_the_host(registry, monkeypatch):
    monkeypatch.setattr(torch_overwrites, "is_lazy", lambda: True)
    torch_overwrites._saving_in_lazy_mode()
    loaded = _saved_and_loaded()
    assert {tensor.device.type for tensor in loaded.values()} == {"cpu"}
    assert isinstance(loaded["weight"], torch.nn.Parameter)
    loaded["part"].fill_(9)
    assert loaded["weight"].tolist() == [0, 9, 9, 3]
    assert _saved_and_loaded(map_location="hpu")["weight"].device.type == "hpu"


def test_nothing_changes_in_the_other_modes(registry):
    before = [*registry]
    torch_overwrites._saving_in_lazy_mode()
    assert registry == before
    assert _saved_and_loaded()["weight"].device.type == "hpu"
