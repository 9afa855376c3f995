"""What torch.compile has to know about the device. Nothing of it is imported before Dynamo is."""

from __future__ import annotations

from types import ModuleType

from habana_frameworks.torch.internal.import_hooks import when_imported


def _register(device_interface: ModuleType) -> None:
    from .device_interface import HpuInterface

    for name in ("hpu", "hpu:0"):
        device_interface.register_interface_for_device(name, HpuInterface)


when_imported("torch._dynamo.device_interface", _register)
