"""Properties of the device: name, sizes, driver version.

The device is simulated, so its name can be chosen with ``HPU_REFERENCE_DEVICE_NAME``: GAUDI, GAUDI2 (the
default) or GAUDI3. If the variable is unset, the simulated hardware limits (`settings.hardware_limits`)
determine the name. Programs depend on the name only; the numbers in this module just fill the other fields.
"""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any, NamedTuple

from habana_frameworks.torch import _C
from habana_frameworks.torch.internal.settings import bridge_config, hardware_limits
from habana_frameworks.torch.internal.settings.visible_modules import own_module_id, visible_module_ids
from habana_frameworks.torch.version import __version__

from ._utils import _require_own_device_index
from .devices import is_available


class synDeviceType(enum.IntEnum):
    """Gaudi generations. The public bridge does not document the numbers, so compare members only."""

    synDeviceGaudi = 1
    synDeviceGaudi2 = 2
    synDeviceGaudi3 = 3


class _Model(NamedTuple):
    device_type: synDeviceType
    sram_bytes: int
    tensor_cores: int
    compute_streams: int


_MODELS = {
    "GAUDI": _Model(synDeviceType.synDeviceGaudi, 24 * 2**20, 8, 2),
    "GAUDI2": _Model(synDeviceType.synDeviceGaudi2, 48 * 2**20, 24, 4),
    "GAUDI3": _Model(synDeviceType.synDeviceGaudi3, 96 * 2**20, 64, 4),
}


def simulated_model_name() -> str:
    """Return the simulated Gaudi model: from ``HPU_REFERENCE_DEVICE_NAME``, the hardware limits, or GAUDI2.

    Raises:
        ValueError: the name is not GAUDI, GAUDI2 or GAUDI3.
    """
    named = os.environ.get("HPU_REFERENCE_DEVICE_NAME", "").strip() or hardware_limits.hardware_limits_name()
    name = named.upper() or "GAUDI2"
    if name not in _MODELS:
        raise ValueError(
            f"HPU_REFERENCE_DEVICE_NAME={os.environ['HPU_REFERENCE_DEVICE_NAME']!r} is not a device that can "
            f"be simulated. Use one of {', '.join(_MODELS)}."
        )
    return name


def apply_stream_limit() -> None:
    """Limit the number of different streams that a program can create, as the environment variables request.

    With ``PT_HPU_FORCE_USE_DEFAULT_STREAM``, each new stream is the default stream. Without
    ``PT_HPU_ENABLE_GENERIC_STREAM``, each new stream is the next of a few streams, as many as the simulated
    Gaudi model has compute streams.

    Raises:
        ValueError: as for `simulated_model_name`.
    """
    if bridge_config.value_of("PT_HPU_FORCE_USE_DEFAULT_STREAM"):
        _C.set_stream_limit(0)
    elif not bridge_config.value_of("PT_HPU_ENABLE_GENERIC_STREAM"):
        _C.set_stream_limit(_MODELS[simulated_model_name()].compute_streams)


def simulated_device_type() -> synDeviceType:
    """Return the Gaudi generation that this device simulates.

    Raises:
        ValueError: as for `simulated_model_name`.
    """
    return _MODELS[simulated_model_name()].device_type


def get_device_name(device: Any = None) -> str:
    """Return the name of a device: "GAUDI", "GAUDI2" or "GAUDI3"; "" with a warning if no device exists.

    Raises:
        AssertionError: the device index does not exist.
    """
    if not is_available():
        warnings.warn("no hpu device is visible, so it has no name", UserWarning, stacklevel=2)
        return ""
    _require_own_device_index(device)
    return simulated_model_name()


def get_device_capability(device: Any = None) -> str:
    """Return the driver version as a string. As in the public bridge, the result is not a pair of numbers.

    Raises:
        AssertionError: the device index does not exist.
    """
    _require_own_device_index(device)
    return __version__


def get_device_properties(device: Any = None) -> str:
    """Return sizes (bytes), addresses and ids of a device as one string of ``name=value`` pairs.

    Raises:
        AssertionError: the device index does not exist.
    """
    index = _require_own_device_index(device)
    model = _MODELS[simulated_model_name()]
    module = own_module_id() if index == 0 else None
    fields = {
        "sramBaseAddress": 0,
        "dramBaseAddress": 0,
        "sramSize": model.sram_bytes,
        "dramSize": _C.memory_stats()["Limit"],
        "tpcEnabledMask": (1 << model.tensor_cores) - 1,
        "dramEnabled": 1,
        "fd": -1,  # a device file does not exist
        "device_id": visible_module_ids()[index] if module is None else module,
        "device_type": int(model.device_type),
    }
    return "(" + ", ".join(f"{name}={value}" for name, value in fields.items()) + ")"


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return whether a device can read the memory of a peer device: only if both are the same device.

    Raises:
        AssertionError: a device index does not exist.
    """
    return _require_own_device_index(device) == _require_own_device_index(peer_device)


def get_arch_list() -> list[str]:
    """Return a list with the name of the simulated device, as the only supported architecture."""
    return [simulated_model_name()]


def get_gencode_flags() -> str:
    """Return an empty string: device code does not need compiler flags."""
    return ""


def is_bf16_supported() -> bool:
    """Return True: bfloat16 is always supported."""
    return True
